package settings_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/safeyaml"
	"vagen/internal/settings"
	"vagen/internal/testkit"
)

// loadInto sets every key of a YAML document.
func loadInto(v any, raw []byte) error {
	l := settings.NewLoader(v, nil)
	l.YAML("", raw)
	if _, _, problems := l.Finish(); len(problems) > 0 {
		return fmt.Errorf("%w: %w", settings.ErrSetting, errors.Join(problems...))
	}
	return nil
}

// sample has a field of every kind that settings may have.
type sample struct {
	Name   string         `yaml:"name" doc:"what it is called"`
	Inner  inner          `yaml:"inner"`
	Ratio  *float64       `yaml:"ratio" doc:"null is off"`
	Layers []string       `yaml:"layers"`
	Widths []int          `yaml:"widths"`
	Extra  map[string]any `yaml:"extra" doc:"anything"`
	Hidden int            `yaml:"-"`
	Loose  int            // no tag: no setting
}

type inner struct {
	On     bool    `yaml:"on"`
	Count  int     `yaml:"count,omitempty"`
	Big    int64   `yaml:"big"`
	Seed   uint64  `yaml:"seed"`
	Rate   float64 `yaml:"rate"`
	Deeper deeper  `yaml:"deeper"`
}

// either has a text setting that also accepts numbers.
type either struct {
	Bounds string  `yaml:"bounds" number:""`
	Rate   float64 `yaml:"rate"`
	Count  int     `yaml:"count"`
}

// TestNumbersStandForTextsWhereTheTagAllowsIt: two numbers with an underscore
// between them are also kept as a text there, although old versions of YAML read them as
// one number.
func TestNumbersStandForTextsWhereTheTagAllowsIt(t *testing.T) {
	for _, c := range []struct{ yaml, want string }{
		{"0.01", "0.01"}, {"2", "2"}, {"1e-6", "1e-6"}, {"'0.5'", "0.5"}, {"0.5_2.0", "0.5_2.0"}, {"0.5_5", "0.5_5"},
		{"1_2", "1_2"}, {"'0.5_5,3'", "0.5_5,3"},
	} {
		var loaded, set either
		require.NoError(t, loadInto(&loaded, []byte("bounds: "+c.yaml)), c.yaml)
		require.Equal(t, c.want, loaded.Bounds, c.yaml)
		require.NoError(t, settings.Override(&set, "bounds="+c.yaml), c.yaml)
		require.Equal(t, c.want, set.Bounds, c.yaml)
	}
	var e either
	require.NoError(t, loadInto(&e, []byte("rate: 1_0.5\ncount: 1_000")))
	require.Equal(t, either{Rate: 10.5, Count: 1000}, e)
	require.ErrorContains(t, settings.Override(&e, "bounds=[1, 2]"), "must be a text")
	require.ErrorContains(t, settings.Override(&e, "count=1_x"), "must be a whole number")
}

type deeper struct {
	Word string `yaml:"word"`
}

func load(t *testing.T, yaml string) (sample, error) {
	t.Helper()
	var s sample
	return s, loadInto(&s, []byte(yaml))
}

func TestKeysAreListedInOrderOfDeclaration(t *testing.T) {
	s := sample{Name: "x", Inner: inner{Count: 3}}
	var paths []string
	for _, k := range settings.Keys(&s) {
		paths = append(paths, k.Path)
		switch k.Path {
		case "name":
			require.Equal(t, settings.Key{Path: "name", Doc: "what it is called", Value: "x"}, k)
		case "inner.count":
			require.Equal(t, 3, k.Value)
		}
	}
	require.Equal(t, []string{"name", "inner.on", "inner.count", "inner.big", "inner.seed", "inner.rate",
		"inner.deeper.word", "ratio", "layers", "widths", "extra"}, paths)
}

func TestLoadSetsWhatTheDocumentNames(t *testing.T) {
	ratio := 0.25
	want := sample{
		Name:  "a b",
		Inner: inner{On: true, Count: -3, Big: 1 << 40, Seed: math.MaxUint64, Rate: 1e-6, Deeper: deeper{Word: "5"}},
		Ratio: &ratio, Layers: []string{"up", "down"}, Widths: []int{7},
		Extra: map[string]any{"size": uint64(4), "p": 0.5, "rows": []any{"SF", "FG"}, "deep": map[string]any{"on": true}},
	}
	for name, yaml := range map[string]string{
		"block": "name: a b\ninner:\n  on: true\n  count: -3\n  big: 1099511627776\n  seed: 18446744073709551615\n  rate: 1e-6\n  deeper:\n    word: \"5\"\n" +
			"ratio: 0.25\nlayers: [up, down]\nwidths: 7\nextra:\n  size: 4\n  p: 0.5\n  rows: [SF, FG]\n  deep: {on: true}\n",
		"json": `{"name": "a b", "inner": {"on": true, "count": -3, "big": 1099511627776, "seed": 18446744073709551615, "rate": 1e-6, "deeper": {"word": "5"}},` +
			`"ratio": 0.25, "layers": ["up", "down"], "widths": [7], "extra": {"size": 4, "p": 0.5, "rows": ["SF", "FG"], "deep": {"on": true}}}`,
		"dotted": "name: a b\ninner.on: true\ninner.count: -3.0\ninner.big: 1099511627776\ninner.seed: 18446744073709551615\ninner.rate: '0.000001'\ninner.deeper: {word: '5'}\n" +
			"ratio: 0.25\nlayers: [up, down]\nwidths: [7]\nextra.size: 4\nextra.p: 0.5\nextra.rows: [SF, FG]\nextra.deep.on: true\n",
		"merged": "name: &n a b\ninner:\n  <<: [{on: true, count: 1}, {count: 2, big: 1099511627776}]\n  count: -3\n" +
			"  seed: 18446744073709551615\n  rate: 0.000001\n  deeper: {word: '5'}\n" +
			"ratio: 0.25\nlayers: &l [up, down]\nwidths: [7]\nextra: {size: 4, p: 0.5, rows: [SF, FG], deep: {on: true}}\n",
	} {
		got, err := load(t, yaml)
		require.NoError(t, err, name)
		require.Equal(t, want, got, name)
	}
}

func TestWhatIsNotNamedStays(t *testing.T) {
	ratio := 0.5
	s := sample{Name: "kept", Ratio: &ratio, Layers: []string{"a"}, Extra: map[string]any{"a": 1}, Hidden: 3, Loose: 4}
	before := s
	for _, yaml := range []string{"", "# nothing\n", "inner:\n", "inner: {}\n", "~", "---\n", "\xef\xbb\xbf"} {
		require.NoError(t, loadInto(&s, []byte(yaml)), "%q", yaml)
		require.Equal(t, before, s, "%q", yaml)
	}
	require.NoError(t, loadInto(&s, []byte("ratio: null\nlayers: ~\nextra:\n")))
	require.Equal(t, sample{Name: "kept", Hidden: 3, Loose: 4}, s, "null clears settings that may be empty")
}

func TestFaultsNameLineKeyValueAndNearest(t *testing.T) {
	for yaml, want := range map[string]string{
		"nam: x":                              `line 1: unknown key "nam", did you mean "name"?`,
		"\n\ninner:\n  cuont: 3":              `line 4: unknown key "inner.cuont", did you mean "inner.count"?`,
		"inner.deeper.wrod: x":                `line 1: unknown key "inner.deeper.wrod", did you mean "inner.deeper.word"?`,
		"hidden: 3":                           `line 1: unknown key "hidden"`,
		"zzzzzzzzzzzzzzzzzzzzzzzzzz: 3":       `line 1: unknown key "zzzzzzzzzzzzzzzzzzzzzzzzzz"`,
		"name: 5":                             "line 1: name is 5 (uint64), must be a text",
		"name:":                               "line 1: name is null, must be a text",
		"name: [a]":                           "line 1: name is [a] ([]interface {}), must be a text",
		"inner: 5":                            "line 1: inner must be a mapping of keys to values",
		"inner: {deeper: [a]}":                "line 1: inner.deeper must be a mapping of keys to values",
		"inner: {on: yes please}":             "line 1: inner.on is yes please (string), must be true or false",
		"inner: {on: 1}":                      "line 1: inner.on is 1 (uint64), must be true or false",
		"inner: {count: 1.5}":                 "line 1: inner.count is 1.5 (float64), must be a whole number",
		"inner: {count: many}":                "line 1: inner.count is many (string), must be a whole number",
		"inner: {count: 9223372036854775808}": "line 1: inner.count is 9223372036854775808 (uint64), must be a whole number",
		"inner: {seed: -1}":                   "line 1: inner.seed is -1 (int64), must be a whole number, not negative",
		"inner: {rate: fast}":                 "line 1: inner.rate is fast (string), must be a finite number",
		"inner: {rate: .nan}":                 "line 1: inner.rate is NaN (float64), must be a finite number",
		"inner: {rate: .inf}":                 "line 1: inner.rate is +Inf (float64), must be a finite number",
		"inner: {rate: nan}":                  "line 1: inner.rate is nan (string), must be a finite number",
		"inner: {rate: true}":                 "line 1: inner.rate is true (bool), must be a finite number",
		"ratio: half":                         "line 1: ratio is half (string), must be a finite number",
		"layers: [up, 3]":                     "line 1: layers[1] is 3 (uint64), must be a text",
		"widths: [[1]]":                       "line 1: widths[0] is [1] ([]interface {}), must be a whole number",
		"extra: 5":                            "line 1: extra is 5 (uint64), must be a mapping",
		"extra.: 5":                           "line 1: extra.: a part of the key is empty",
		"extra: {a: 5}\nextra.a.b: 6":         `line 2: extra.a.b: "a" is 5 (uint64), which has no entries`,
		"- a\n- b":                            "line 1: the document must be a mapping of keys to values",
		"just words":                          "line 1: the document must be a mapping of keys to values",
		"name: x\nname: y":                    "already defined",
		"name: [":                             "[1:7]",
	} {
		_, err := load(t, yaml)
		testkit.Error(t, err, settings.ErrSetting, want)
	}
}

func TestAllFaultsAreReportedAndTheRestIsSet(t *testing.T) {
	got, err := load(t, "nam: x\ninner:\n  count: no\n  rate: 0.5\n  on: 7\nwidths: [a]\n")
	require.Error(t, err)
	for _, want := range []string{"line 1: unknown key", "line 3: inner.count", "line 5: inner.on", "line 6: widths[0]"} {
		require.ErrorContains(t, err, want)
	}
	require.Equal(t, 0.5, got.Inner.Rate)
}

func TestOverridesSetOneKey(t *testing.T) {
	var s sample
	for _, o := range []string{
		"name=a=b", "+inner.count=4", "inner.on=true", "inner.rate=1e-6", "ratio=0.5", "layers=[a, b]", "widths=3",
		"inner.seed=18446744073709551615",
		"extra.size=4", "extra.rows=[SF, FG]", "extra.deep.on=true", "extra.deep.p=0.5", "extra.none=",
	} {
		require.NoError(t, settings.Override(&s, o), o)
	}
	ratio := 0.5
	require.Equal(t, sample{
		Name: "a=b", Inner: inner{On: true, Count: 4, Seed: math.MaxUint64, Rate: 1e-6}, Ratio: &ratio,
		Layers: []string{"a", "b"}, Widths: []int{3},
		Extra: map[string]any{"size": uint64(4), "rows": []any{"SF", "FG"}, "deep": map[string]any{"on": true, "p": 0.5},
			"none": nil},
	}, s)
	require.NoError(t, settings.Override(&s, "extra={a: 1}"))
	require.Equal(t, map[string]any{"a": uint64(1)}, s.Extra)
	require.NoError(t, settings.Override(&s, "ratio=null"))
	require.Nil(t, s.Ratio)
}

func TestBadOverridesAreRefused(t *testing.T) {
	var s sample
	for o, want := range map[string]string{
		"":               `override "" must have the form key=value`,
		"name":           `override "name" must have the form key=value`,
		"=3":             `unknown key ""`,
		"inner.cuont=3":  `unknown key "inner.cuont", did you mean "inner.count"?`,
		"inner=3":        `unknown key "inner"`,
		"inner.count=x":  "inner.count is x (string), must be a whole number",
		"name=[":         "name: ",
		"extra.=3":       "a part of the key is empty",
		"extra..a=3":     "a part of the key is empty",
		"inner.count.x=": `unknown key "inner.count.x", did you mean "inner.count"?`,
	} {
		err := settings.Override(&s, o)
		testkit.Error(t, err, settings.ErrSetting, want)
	}
	require.Equal(t, sample{}, s)
}

// TestOverridesLeaveTheMapsOfCopiesAlone: copying a struct shares its maps.
func TestOverridesLeaveTheMapsOfCopiesAlone(t *testing.T) {
	base := sample{Extra: map[string]any{"a": 1, "deep": map[string]any{"b": 2}}}
	other := base
	require.NoError(t, settings.Override(&other, "extra.a=5"))
	require.NoError(t, settings.Override(&other, "extra.deep.b=6"))
	require.Equal(t, map[string]any{"a": 1, "deep": map[string]any{"b": 2}}, base.Extra)
	require.Equal(t, map[string]any{"a": uint64(5), "deep": map[string]any{"b": uint64(6)}}, other.Extra)
}

func TestSetTakesDecodedValues(t *testing.T) {
	var s sample
	require.NoError(t, settings.Set(&s, "inner.count", 3))
	require.NoError(t, settings.Set(&s, "inner.rate", 2))
	require.NoError(t, settings.Set(&s, "widths", []any{1.0, int64(2), uint64(3)}))
	require.Equal(t, sample{Inner: inner{Count: 3, Rate: 2}, Widths: []int{1, 2, 3}}, s)
	require.ErrorContains(t, settings.Set(&s, "inner.count", 1e300), "must be a whole number")
	require.ErrorContains(t, settings.Set(&s, "inner.big", float64(1<<60)), "must be a whole number",
		"beyond 2^53 a float stands for several integers")
}

func TestFieldTypesWithoutAFormAreRefused(t *testing.T) {
	var odd struct {
		F func()         `yaml:"f"`
		M map[string]int `yaml:"m"`
	}
	require.ErrorContains(t, settings.Set(&odd, "f", 1), "f is 1 (int), must be func()")
	require.ErrorContains(t, settings.Set(&odd, "m", map[string]any{}),
		"m is map[] (map[string]interface {}), must be a mapping")
}

// TestMarshalledSettingsComeBack writes and reads texts that YAML might take for
// something else, and numbers at the ends of their ranges.
func TestMarshalledSettingsComeBack(t *testing.T) {
	for _, text := range []string{
		"", "x", " ", "a b", "null", "~", "true", "no", "1", "-1", "1.0", "1e5", "1e-6", ".5", "0x1F", "0o7", "1_000", ".inf",
		".nan", "2024-01-02",
		"- a", "-", "?", ": ", "a: b", "a:", "#", "a #b", "a#b", "*a", "&a", "!a", "|", ">", "%", "@", "`", "{", "}", "[",
		"]", ",", "'", "\"", "''", "\\", "\\n",
		"a\nb", "a\n", "\na", "a\tb", "\t", "\r\n", "é", "日本", "\U0001f600", "<<", "=", "---", "...", "--- a", "a: [b", "{a}",
		"${x}", "%{y}", " lead", "trail ", "\x00", "\x7f", "\u2028", "\ufeff",
	} {
		roundTrip(t, sample{Name: text, Layers: []string{text}, Extra: map[string]any{"k": text}})
	}
	for _, x := range []float64{0, 1, -1, 0.1, 1e-6, 1e-300, 1e300, math.MaxFloat64, math.SmallestNonzeroFloat64, 1.0 / 3,
		1 << 53, 123456789} {
		roundTrip(t, sample{Inner: inner{Rate: x}, Ratio: &x, Extra: map[string]any{"x": x}})
	}
	for _, n := range []int64{0, 1, -1, math.MaxInt64, math.MinInt64} {
		roundTrip(t, sample{Inner: inner{Count: int(n), Big: n, Seed: uint64(n)}, Widths: []int{int(n)}})
	}
	roundTrip(t, sample{Extra: map[string]any{"list": []any{"a", uint64(1), nil, true},
		"map": map[string]any{"x": map[string]any{}}, "quote\"d: key": "v"}})
}

func roundTrip(t *testing.T, want sample) {
	t.Helper()
	raw, err := settings.Marshal(&want)
	require.NoError(t, err)
	var got sample
	require.NoError(t, loadInto(&got, raw), "%s", raw)
	if want.Extra == nil && len(got.Extra) == 0 {
		got.Extra = nil
	}
	if want.Layers == nil && len(got.Layers) == 0 {
		got.Layers = nil
	}
	if want.Widths == nil && len(got.Widths) == 0 {
		got.Widths = nil
	}
	require.Equal(t, want, got, "%q", raw)
}

// FuzzLoad: no bytes make Load panic, and what loads comes back from Marshal.
func FuzzLoad(f *testing.F) {
	for _, s := range []string{
		"", "name: x", "inner: {count: 3}", `{"name": "x", "extra": {"a": [1, null]}}`, "inner.count: 3", "a: &b c\nd: *b",
		"<<: *a", "? a\n: b", "name: |\n  x\n  y", "name: !!str 5",
		"extra: {a: {b: c}}\nextra.a.b: d", "ratio: ~", "- 1", "---\n...\n", "name: \"\\x00\"", "[" + strings.Repeat("[", 50),
		"extra: {1: 2, true: 3, null: 4}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var s sample
		if err := loadInto(&s, raw); err != nil {
			return
		}
		comesBack(t, &s, raw)
	})
}

// comesBack marshals loaded settings, loads the result and marshals it again: both
// times the bytes are the same, also with NaN.
func comesBack(t *testing.T, s *sample, from []byte) {
	once, err := settings.Marshal(s)
	if err != nil {
		t.Fatalf("%q loads, but does not marshal: %v", from, err)
	}
	var again sample
	if err := loadInto(&again, once); err != nil {
		t.Fatalf("%q marshals as %q, which does not load: %v", from, once, err)
	}
	if twice, err := settings.Marshal(&again); err != nil || string(twice) != string(once) {
		t.Fatalf("%q marshals as\n%s\nand then as\n%s\n%v", from, once, twice, err)
	}
}

// FuzzOverride: no text makes Override panic, and what it sets is kept by Marshal
// and Load.
func FuzzOverride(f *testing.F) {
	for _, s := range []string{"name=x", "+inner.count=3", "extra.a.b=[1]", "=", "extra.=", "name=&a", "ratio=*a",
		"extra={a: .nan}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, o string) {
		var s sample
		if err := settings.Override(&s, o); err == nil {
			comesBack(t, &s, []byte(o))
		}
	})
}

// embedded has a field that structs get by embedding it.
type embedded struct {
	Turns int `yaml:"turns"`
}

func TestFillSetsNestedAndEmbeddedFields(t *testing.T) {
	var v struct {
		Name string `yaml:"name"`
		embedded
		Inner struct {
			Rate float64        `yaml:"rate"`
			Map  map[string]any `yaml:"map"`
		} `yaml:"inner"`
	}
	require.Empty(t, settings.Fill(&v, map[string]any{"name": "a", "turns": int64(3), "inner": map[string]any{
		"rate": int64(2), "map": map[string]any{"x": 1}}}))
	require.Equal(t, "a", v.Name)
	require.Equal(t, 3, v.Turns)
	require.Equal(t, 2.0, v.Inner.Rate)
	require.Equal(t, map[string]any{"x": 1}, v.Inner.Map)

	var texts []string
	for _, err := range settings.Fill(&v, map[string]any{"turn": 1, "name": 2, "inner": 3}) {
		texts = append(texts, err.Error())
	}
	require.Equal(t, []string{"inner is 3 (int), must be a mapping", "name is 2 (int), must be a text",
		`unknown key "turn", did you mean "turns"?`}, texts)
}

// A text of a hundred thousand bytes must not cost gigabytes of memory or hours.
func TestHostileYAMLIsRefusedBeforeItCosts(t *testing.T) {
	deep := strings.Repeat("[", 80_000)
	var o struct {
		Options map[string]any `yaml:"options"`
	}
	require.ErrorIs(t, loadInto(&o, []byte("options: "+deep)), safeyaml.ErrLimit)
	require.Nil(t, o.Options)
	require.ErrorIs(t, settings.Override(&o, "options.a="+deep), safeyaml.ErrLimit)
}

// TestDefaultsAreThoseOfTheTags: others stay as they are, and no two structs share a list, a map or a pointer.
func TestDefaultsAreThoseOfTheTags(t *testing.T) {
	type group struct {
		Words []string `yaml:"words" default:"[a, b]"`
		Most  *int     `yaml:"most" default:"3"`
	}
	type defaults struct {
		Group  group          `yaml:"group"`
		Rate   float64        `yaml:"rate" default:"1e-6"`
		Bounds string         `yaml:"bounds" number:"" default:"2"`
		More   map[string]any `yaml:"more" default:"{}"`
		Plain  string         `yaml:"plain"`
	}
	a, b := defaults{Plain: "x"}, defaults{Plain: "x"}
	settings.Default(&a)
	three := 3
	want := defaults{Group: group{[]string{"a", "b"}, &three}, Rate: 1e-6, Bounds: "2", More: map[string]any{}, Plain: "x"}
	require.Equal(t, want, a)
	a.Group.Words[0], *a.Group.Most, a.More["y"] = "z", 4, 5
	settings.Default(&b)
	require.Equal(t, want, b)
}
