package rollout_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/policy"
	"vagen/reward"
	"vagen/rollout"
)

// templated has a token per byte and a template that opens every response.
type templated struct {
	opened string
	lost   string // text that the tokenizer cannot write
}

func (m templated) Opened() string        { return m.opened }
func (m templated) RewritesHistory() bool { return false }

func (m templated) Encode(messages []policy.Message) ([]policy.Piece, []policy.Image, error) {
	tokens := func(s string) (out []int32) {
		for _, b := range []byte(strings.ReplaceAll(s, m.lost, "")) {
			out = append(out, int32(b))
		}
		return out
	}
	written, ok := strings.CutPrefix(messages[1].Text, strings.TrimSpace(m.opened))
	if !ok {
		return nil, nil, errors.New("it does not begin so")
	}
	context := tokens(messages[0].Text + m.opened)
	return []policy.Piece{{Tokens: context}, {Tokens: append(tokens(written), 0), Response: true}}, nil, nil
}

func (m templated) Response(tokens []int32) string {
	var b strings.Builder
	for _, id := range tokens[:len(tokens)-1] {
		b.WriteByte(byte(id))
	}
	return m.opened + b.String()
}

// Every format of every dialect can be written after an opened thought, or the check before
// the run says that it cannot, and names those that can.
func TestASampleTurnShowsWhetherTemplateAndFormatFit(t *testing.T) {
	first := env.Observation{Text: "see " + env.ImageMark}
	check := func(m templated, d reward.Dialect, format string) error {
		p, err := reward.NewParser(format, reward.ParserOptions{Dialect: d})
		require.NoError(t, err)
		return rollout.CheckTurn(m, p, env.Observation{Text: "play"}, first)
	}
	var refused []string
	for _, d := range reward.Dialects() {
		for _, format := range reward.Formats(d) {
			require.NoError(t, check(templated{lost: "\x00"}, d, format))
			if err := check(templated{opened: "<think>\n", lost: "\x00"}, d, format); err != nil {
				require.ErrorIs(t, err, rollout.ErrTurn)
				refused = append(refused, string(d)+" "+format)
			}
			require.ErrorIs(t, check(templated{lost: "</answer>"}, reward.Legacy, "free_think"), rollout.ErrTurn)
		}
	}
	require.Equal(t, []string{"legacy no_think", "lite_navigation no_think", "next no_think", "next wm"}, refused)
	err := check(templated{opened: "<think>\n", lost: "\x00"}, reward.Next, "wm")
	require.ErrorContains(t, err, `begins every response with "<think>\n"`)
	require.ErrorContains(t, err, "no response that begins so has the format wm (<perception>-</perception>")
	require.ErrorContains(
		t, err, "one of the formats answer, eval_mode, free_think, free_wm, observe_predict, wm_think,",
	)
	m := templated{opened: "<think>", lost: "\x00"}
	require.NoError(t, rollout.CheckTurn(m, nil, env.Observation{}, first), "the format is not known")
}
