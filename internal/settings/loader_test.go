package settings_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/settings"
)

var foreign = []settings.Foreign{
	{Key: "title", Kind: settings.Alias, To: "name"},
	{Key: "n", Kind: settings.Alias, To: "inner.count", Harmless: []string{"1"}},
	{Key: "inner", Kind: settings.Alias, To: "inner.count"},
	{Key: "engine.gone", Kind: settings.Refused, About: "use another", Harmless: []string{"false"}},
	{Key: "engine.*", Kind: settings.Noted, About: "there is none"},
	{Key: "a.*.size", Kind: settings.Noted, About: "sizes are found"},
	{Key: "odd", Kind: settings.Noted, About: "even is what counts"},
}

// loaded reads a document and overrides with the foreign keys above.
func loaded(yaml string, overrides ...string) (sample, []settings.Note, string) {
	var s sample
	l := settings.NewLoader(&s, foreign)
	l.YAML("f.yaml", []byte(yaml))
	l.Overrides(overrides)
	notes, _, problems := l.Finish()
	if len(problems) == 0 {
		return s, notes, ""
	}
	return s, notes, errors.Join(problems...).Error()
}

func TestForeignKeysAreNotedRefusedOrRenamed(t *testing.T) {
	s, notes, faults := loaded("title: x\nengine:\n  gone: false\n  deep: {er: 3}\n  list: [1]\na: {b: {size: 3}}\n",
		"+odd=7", "++n=4")
	require.Empty(t, faults)
	require.Equal(t, "x", s.Name)
	require.Equal(t, 4, s.Inner.Count)
	require.Equal(t, []settings.Note{
		{Key: "engine.deep", Where: "f.yaml: line 4", About: "there is none"},
		{Key: "engine.list", Where: "f.yaml: line 5", About: "there is none"},
		{Key: "a.b.size", Where: "f.yaml: line 6", About: "sizes are found"},
		{Key: "odd", Where: "override 1", About: "even is what counts"},
	}, notes)

	for _, c := range []struct{ yaml, override, want string }{
		{"engine:\n  gone: true", "odd=1", "f.yaml: line 2: engine.gone is true, which is not supported: use another"},
		{"", "engine.gone=5", "override 1: engine.gone is 5, which is not supported: use another"},
		{"a: {b: {sise: 3}}", "odd=1", `f.yaml: line 1: unknown key "a.b.sise"`},
		{"tittle: x", "odd=1", `unknown key "tittle", did you mean "title"?`},
		{"title: 5", "odd=1", "f.yaml: line 1: title: name is 5 (uint64), must be a text"},
		{"title: x\nname: y", "odd=1",
			"f.yaml: line 1: title is x, but name is y (f.yaml: line 2): they are two names of one setting"},
		{"nam: x", "oops", "f.yaml: line 1: unknown key \"nam\", did you mean \"name\"?\noverride 1: override \"oops\" must have the form key=value"},
		{"name: [", "inner.count=x", "override 1: inner.count is x (string), must be a whole number"},
	} {
		_, _, faults := loaded(c.yaml, c.override)
		require.Contains(t, faults, c.want)
	}
}

func TestLaterSourcesWinWhateverTheName(t *testing.T) {
	for want, c := range map[string]struct {
		yaml      string
		overrides []string
	}{
		"field":  {"title: alias", []string{"name=field"}},
		"alias":  {"name: field", []string{"title=alias"}},
		"second": {"title: first", []string{"title=second"}},
		"same":   {"title: same\nname: same", []string{"odd=1"}},
		"kept":   {"name: kept\ntitle: null", []string{"odd=1"}},
	} {
		s, _, faults := loaded(c.yaml, c.overrides...)
		require.Empty(t, faults, want)
		require.Equal(t, want, s.Name)
	}
	s, _, faults := loaded("inner: {count: 5}\nn: 1")
	require.Empty(t, faults)
	require.Equal(t, 5, s.Inner.Count, "a harmless value changes nothing")
	s, _, faults = loaded("inner: 5")
	require.Empty(t, faults)
	require.Equal(t, 5, s.Inner.Count, "the short form of a group")
	s, _, faults = loaded("", "inner=6")
	require.Empty(t, faults)
	require.Equal(t, 6, s.Inner.Count)
}

func TestReferencesTakeFinalValues(t *testing.T) {
	s, _, faults := loaded("name: ${inner.deeper.word}/${inner.count}\nlayers: ['${title}', b]\nwidths: ['${inner.count}']\nratio: ${inner.rate}\ninner: {rate: 0.5, count: 1, big: '${engine.size}'}\nengine: {size: '${inner.count}', gone: '${engine.off}'}\n",
		"inner.count=7", "inner.deeper.word=x")
	require.Empty(t, faults)
	half := 0.5
	require.Equal(t, "x/7", s.Name)
	require.Equal(t, []string{"x/7", "b"}, s.Layers)
	require.Equal(t, []int{7}, s.Widths)
	require.Equal(t, &half, s.Ratio)
	require.Equal(t, int64(7), s.Inner.Big)

	s, _, faults = loaded("name: ${no.such}", "name=plain")
	require.Empty(t, faults, "a value that a later source replaces is not checked")
	require.Equal(t, "plain", s.Name)

	for yaml, want := range map[string]string{
		"name: ${name}":                        "f.yaml: line 1: name: ${name}: the reference is circular",
		"name: ${title}":                       "the reference is circular",
		"name: ${layers}\nlayers: ['${name}']": "the reference is circular",
		"name: ${inner.cuont}":                 `${inner.cuont}: unknown key "inner.cuont", did you mean "inner.count"?`,
		"name: ${oc.env:HOME}":                 "${oc.env:HOME}: only other keys can be referred to",
		"name: ${inner.rate":                   "a reference has no closing brace",
		"name: ${inner.count}":                 "name is 0 (int64), must be a text",
		"inner: {count: 'x${inner.rate}'}":     "inner.count is x0.0 (string), must be a whole number",
		"engine: {gone: '${inner.rate}'}":      "engine.gone is 0.0, which is not supported",
		"n: ${title}\nname: x":                 "n: inner.count is x (string), must be a whole number",
	} {
		_, _, faults := loaded(yaml)
		require.Contains(t, faults, want, yaml)
	}
}

func TestNullStandsForTheValueOfTheTag(t *testing.T) {
	var s struct {
		Steps int    `yaml:"steps" null:"-1" unit:"steps"`
		Dir   string `yaml:"dir" null:""`
	}
	require.NoError(t, loadInto(&s, []byte("steps: 5\ndir: x")))
	raw, err := settings.Marshal(&s)
	require.NoError(t, err)
	require.Equal(t, "steps: 5\ndir: x\n", string(raw))
	require.NoError(t, loadInto(&s, []byte("steps: null\ndir:")))
	require.Equal(t, -1, s.Steps)
	require.Empty(t, s.Dir)
	raw, err = settings.Marshal(&s)
	require.NoError(t, err)
	require.Equal(t, "steps: null\ndir: null\n", string(raw))
	require.Equal(t, []settings.Key{{Path: "steps", Unit: "steps"}, {Path: "dir"}}, settings.Keys(&s))
}

// FuzzLoader: no document and no override make a loader panic.
func FuzzLoader(f *testing.F) {
	f.Add("name: ${title}\ntitle: ${name}", "inner=${n}")
	f.Add("inner: {count: '${engine.gone}'}\nengine: {gone: {a: b}}", "a.b.size=3")
	f.Add("engine: [1, {x: '${'}]", "layers=['${widths}']")
	f.Fuzz(func(t *testing.T, yaml, override string) { loaded(yaml, override) })
}
