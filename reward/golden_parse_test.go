package reward

import (
	"encoding/json"
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
			r := golden.Of(t, file)
			for i, c := range recorded.Cases {
				compareParse(r.Next("case %d, %s on %q", i, c.Parser, c.Response), c)
			}
		})
	}
}

func compareParse(r *golden.Run, c parseCase) {
	dialect, format, _ := strings.Cut(c.Parser, "/")
	if dialect == "lite_sokoban" || dialect == "lite_frozenlake" {
		dialect = string(Lite)
	}
	p, err := NewParser(format, ParserOptions{Dialect: Dialect(dialect), ActionSep: c.ActionSep,
		MaxActions: c.MaxActions, SpecialTokens: c.SpecialTokens})
	require.NoError(r, err)
	got := p.Parse(c.Response)
	raw := c.Response // recorded only when it differs
	golden.Decode(r, c.Expected, "llm_raw_response", &raw)
	r.Equal("raw", got.Raw, raw)
	for name, value := range c.Expected {
		switch name {
		case "llm_raw_response":
		case "actions":
			r.Equal(name, got.Actions, golden.Value[[]string](r, c.Expected, name))
		case "format_correct":
			r.Equal(name, got.FormatCorrect, golden.Value[bool](r, c.Expected, name))
		case "llm_response":
			r.Equal(name, p.Canonical(got), golden.Value[string](r, c.Expected, name))
		default:
			section, known := sectionOf[name]
			if !known {
				r.Fatalf("case %v: recorded field %q = %s has no counterpart", c, name, value)
			}
			r.Equal(name, got.Sections[section], golden.Value[string](r, c.Expected, name))
		}
	}
}
