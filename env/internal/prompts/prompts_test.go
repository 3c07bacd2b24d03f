package prompts

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/internal/options"
	"vagen/internal/field"
	"vagen/internal/golden"
	"vagen/internal/testkit"
	"vagen/reward"
)

var lake = Names{Observation: []string{Action, Turn}}

// load reads templates of an environment called lake.
func load(o *options.Response) (Set, error) {
	c := options.Check("lake")
	return Load(c, o, lake), c.Err()
}

func response(texts map[string]any) *options.Response {
	return &options.Response{ActionSep: "|", MaxActions: 3, Texts: options.Texts{Prompts: texts}}
}

func values() Values {
	return Values{Observation: "MAP", Action: "['Up']", Turn: "2", Format: "FORMAT"}
}

func own() string { return "OWN" }

func text(s string) func() string { return func() string { return s } }

func TestTemplatesReplaceOnlyTheirPart(t *testing.T) {
	s, err := load(response(map[string]any{
		"system": "At most {max_actions_per_step}, between them {action_sep}. {format} {{as JSON}} {example}",
		"later":  "{valid_action} led to {observation} in turn {turn}",
	}))
	require.NoError(t, err)
	system := s.System(own, text("FORMAT"), text("EXAMPLE"), nil)
	require.Equal(t, "At most 3, between them |. FORMAT {as JSON} EXAMPLE", system)
	require.Equal(t, "OWN", s.Observation(true, own, values))
	require.Equal(t, "['Up'] led to MAP in turn 2", s.Observation(false, own, values))

	p, err := reward.NewParser("no_think", reward.ParserOptions{Dialect: reward.Legacy, ActionSep: ","})
	require.NoError(t, err)
	require.Equal(t, "OWN", s.Format(p, own))
	s, err = load(response(map[string]any{"format": "Like {form}. {default}"}))
	require.NoError(t, err)
	require.Equal(t, "Like <answer>…</answer>. OWN", s.Format(p, own))

	var none Set
	require.Equal(t, "OWN", none.System(own, own, own, nil))
}

// TestValuesAreNotTemplates: braces in a value stay as they are.
func TestValuesAreNotTemplates(t *testing.T) {
	s, err := load(response(map[string]any{"first": "{observation}"}))
	require.NoError(t, err)
	require.Equal(t, "{format}}", s.Observation(true, own, func() Values { return Values{Observation: "{format}}"} }))
}

func TestBadTemplatesAreNamed(t *testing.T) {
	for name, c := range golden.Table[map[string]struct {
		Texts map[string]any
		Want  string
	}](t, "bad.yaml") {
		t.Run(name, func(t *testing.T) {
			checks := options.Check("lake")
			Load(checks, response(c.Texts), lake)
			require.ErrorContains(t, checks.Err(), c.Want)
			require.ErrorIs(t, checks.Err(), env.ErrOption)
			require.NotEmpty(t, field.Keys(checks.Errors()[0]))
		})
	}
}

func TestFoldersHoldTheTemplatesInFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		testkit.Write(t, filepath.Join(dir, name), text)
	}
	from := func(texts map[string]any) (Set, error) {
		o := response(texts)
		o.PromptDir = dir
		return load(o)
	}
	_, err := from(nil)
	require.ErrorContains(t, err, "none of the files system.txt")
	write("first.txt", "See\n{observation}\n")
	write("README.md", "not a template")
	s, err := from(map[string]any{"later": "{observation}!"})
	require.NoError(t, err)
	require.Equal(t, "See\nMAP", s.Observation(true, own, values), "without the last line break")
	require.Equal(t, "MAP!", s.Observation(false, own, values))

	_, err = from(map[string]any{"first": "{observation}"})
	require.ErrorContains(t, err, "leave one of them out")
	write("frist.txt", "")
	_, err = from(nil)
	require.ErrorContains(t, err, `"frist.txt"`)
	require.NoError(t, os.Remove(filepath.Join(dir, "frist.txt")))
	write("first.txt", "{observation")
	_, err = from(nil)
	require.ErrorContains(t, err, `option "prompt_dir": bad option: template first`)
	require.NoError(t, os.Truncate(filepath.Join(dir, "first.txt"), maxFile+1))
	_, err = from(nil)
	require.ErrorContains(t, err, "at most 1048576 bytes")
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "{a}", "{{}}", "a{b}c{{d}}", "{", "}", "{a b}", "{é}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parse(text)
		if err != nil {
			return
		}
		require.Len(t, p, 2*len(p.names())+1)
		if len(p.names()) == 0 {
			again, err := parse(quote(p.write(nil)))
			require.NoError(t, err)
			require.Equal(t, p.write(nil), again.write(nil))
		}
	})
}

// quote doubles braces.
func quote(s string) string {
	var b []byte
	for i := range len(s) {
		if b = append(b, s[i]); s[i] == '{' || s[i] == '}' {
			b = append(b, s[i])
		}
	}
	return string(b)
}
