package reward

import (
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
	sections := map[string]string{"perception": SectionObservation, "reasoning": SectionReasoning,
		"prediction": SectionPrediction, "answer": SectionAnswer, "native_thinking": SectionNative}
	golden.Each(t, "algorithms_next/response_format.json", func(c *golden.Run) {
		how, known := nextParsers[golden.Param[string](c, "parser")]
		require.True(c, known, "the recorded parser has no counterpart")
		p, err := NewParser(how.format, ParserOptions{Dialect: Next, MaxActions: 3, AnswerBox: how.box})
		require.NoError(c, err)
		got := p.Parse(golden.Input[string](c, "text"))
		for name := range c.Expected {
			switch section, known := sections[name]; {
			case known:
				golden.Same(c, name, got.Sections[section])
			case name == "format_correct":
				c.Equal(name, got.FormatCorrect, golden.Expected[float64](c, name) == 1)
			case name == "used_native_answer":
				c.Equal(name, got.BoxedAnswer, golden.Expected[float64](c, name) == 1)
			default:
				require.Equal(c, "actions", name, "the recorded field has no counterpart")
				golden.Same(c, name, got.Actions)
			}
		}
	})
}
