package reward

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
)

type parseCase struct {
	Parser        string                     `json:"parser"`
	Response      string                     `json:"response"`
	ActionSep     string                     `json:"action_sep"`
	MaxActions    int                        `json:"max_actions"`
	SpecialTokens []string                   `json:"special_token_list"`
	Expected      map[string]json.RawMessage `json:"expected"`
}

// sectionOf maps the names of the recorded fields to sections.
var sectionOf = map[string]string{
	"think_content": SectionThink, "observation_content": SectionObservation, "reasoning_content": SectionReasoning,
	"prediction_content": SectionPrediction, "action_content": SectionAnswer,
	"think": SectionThink, "observation": SectionObservation, "prediction": SectionPrediction,
}

// The recorded fields are what the original parsers returned
// (testdata/envs/parse_*.json); each of them must be equal.
func TestParsersEqualTheOriginals(t *testing.T) {
	for _, file := range []string{"envs/parse_legacy.json", "envs/parse_lite.json"} {
		t.Run(file, func(t *testing.T) {
			var recorded struct{ Cases []parseCase }
			golden.Read(t, file, &recorded)
			tally := golden.NewTally(t, file)
			for i, c := range recorded.Cases {
				tally.Case()
				compareParse(t, tally, fmt.Sprintf("case %d, %s on %q", i, c.Parser, c.Response), c)
			}
		})
	}
}

func compareParse(t *testing.T, tally *golden.Tally, what string, c parseCase) {
	dialect, format, _ := strings.Cut(c.Parser, "/")
	if dialect == "lite_sokoban" || dialect == "lite_frozenlake" {
		dialect = string(Lite)
	}
	p, err := NewParser(format, ParserOptions{Dialect: Dialect(dialect), ActionSep: c.ActionSep,
		MaxActions: c.MaxActions, SpecialTokens: c.SpecialTokens})
	require.NoError(t, err, what)
	got := p.Parse(c.Response)
	raw := c.Response // recorded only when it differs
	golden.Decode(t, c.Expected, "llm_raw_response", &raw)
	golden.Equal(t, tally, what+": raw", got.Raw, raw)
	for name, value := range c.Expected {
		switch name {
		case "llm_raw_response":
		case "actions":
			want := golden.Value[[]string](t, c.Expected, name)
			tally.Add(1)
			require.Equal(t, want, got.Actions, "%s: actions", what)
		case "format_correct":
			want := golden.Value[bool](t, c.Expected, name)
			golden.Equal(t, tally, what+": format_correct", got.FormatCorrect, want)
		case "llm_response":
			want := golden.Value[string](t, c.Expected, name)
			golden.Equal(t, tally, what+": canonical", p.Canonical(got), want)
		default:
			section, known := sectionOf[name]
			if !known {
				t.Fatalf("%s: recorded field %q = %s has no counterpart", what, name, value)
			}
			want := golden.Value[string](t, c.Expected, name)
			golden.Equal(t, tally, what+": "+name, got.Sections[section], want)
		}
	}
}
