package reward

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
)

// nextParsers names the format and the choices of each recorded parser.
var nextParsers = map[string]struct {
	format string
	box    bool
}{
	"wm": {format: "wm"}, "wm_think": {format: "wm_think"},
	"free_think": {format: "free_think"}, "free_think_native_answer": {format: "free_think", box: true},
	"answer": {format: "no_think"}, "answer_lenient": {format: "answer"},
}

// Recorded from the original parsers (testdata/algorithms_next/response_format.json),
// which split actions at commas and keep three.
func TestNextParsersEqualTheOriginals(t *testing.T) {
	const file = "algorithms_next/response_format.json"
	var recorded struct{ Cases []golden.Case }
	golden.Read(t, file, &recorded)
	tally := golden.NewTally(t, file)
	for _, c := range recorded.Cases {
		tally.Case()
		name := golden.Value[string](t, c.Params, "parser")
		text := golden.Value[string](t, c.Inputs, "text")
		how, known := nextParsers[name]
		if !known {
			t.Fatalf("%s: recorded parser %q has no counterpart", c.Name, name)
		}
		p, err := NewParser(how.format, ParserOptions{Dialect: Next, MaxActions: 3, AnswerBox: how.box})
		require.NoError(t, err, c.Name)
		compareNext(t, tally, c, fmt.Sprintf("%s on %q", c.Name, text), p.Parse(text))
	}
}

func compareNext(t *testing.T, tally *golden.Tally, c golden.Case, what string, got Response) {
	number := func(b bool) float64 {
		if b {
			return 1
		}
		return 0
	}
	sections := map[string]string{"perception": SectionObservation, "reasoning": SectionReasoning,
		"prediction": SectionPrediction,
		"answer":     SectionAnswer, "native_thinking": SectionNative}
	for name, value := range c.Expected {
		switch section, known := sections[name]; {
		case known:
			want := golden.Value[string](t, c.Expected, name)
			golden.Equal(t, tally, what+": "+name, got.Sections[section], want)
		case name == "format_correct" || name == "used_native_answer":
			want := golden.Value[float64](t, c.Expected, name)
			have := got.FormatCorrect
			if name == "used_native_answer" {
				have = got.BoxedAnswer
			}
			golden.Equal(t, tally, what+": "+name, number(have), want)
		case name == "actions":
			want := golden.Value[[]string](t, c.Expected, name)
			tally.Add(1)
			require.Equal(t, want, got.Actions, "%s: actions", what)
		default:
			t.Fatalf("%s: recorded field %q = %s has no counterpart", what, name, value)
		}
	}
}
