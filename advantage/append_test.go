package advantage

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/mask"
)

func TestAppendBuildsTheBatchThatEstimatorsRead(t *testing.T) {
	var b Batch
	for row := range 2 {
		var s mask.Sequence
		require.NoError(t, errors.Join(
			s.AppendContext(mask.Prompt, 1, 2),
			s.AppendResponse(3, 4),
			s.AppendContext(mask.Observation, 5),
			s.AppendResponse(6),
		))
		r := Row{Rewards: []float32{0, 0, 0, 0.5, 0, 1}, Values: []float32{9, 9, 0.1, 0.2, 9, 0.3}, Group: row}
		require.NoError(t, b.Append(&s, mask.Options{}, r))
	}
	var out Result
	require.NoError(t, (BiLevel{Gamma: 0.9, Lambda: 0.8, TurnGamma: 0.7}).Estimate(&out, &b))
	// H2 = 1 − 0.3, H1 = 0.5 + 0.7·0.3 − 0.2 + 0.56·H2, A1 = 0.9·0.2 − 0.1 + 0.72·H1.
	h2 := 0.7
	h1 := 0.5 + 0.7*0.3 - 0.2 + 0.56*h2
	want := []float64{0, 0, 0.9*0.2 - 0.1 + 0.72*h1, h1, 0, h2}
	for i, got := range out.Advantages {
		require.InDelta(t, want[i%6], got, 1e-6, "position %d", i)
	}
}

func TestAppendRefusesOtherLengths(t *testing.T) {
	var s mask.Sequence
	require.NoError(t, s.AppendResponse(1, 2))
	var b Batch
	require.ErrorIs(t, b.Append(&s, mask.Options{}, Row{Rewards: []float32{1}}), ErrLength, "one reward for two tokens")
	require.Zero(t, b.Rows()+b.Tokens(), "a refused row was added")
}

// TestAppendRefusesTheRowThatDoesNotFit: a row with other columns than the rows before is
// named at once, and the batch stays as it was.
func TestAppendRefusesTheRowThatDoesNotFit(t *testing.T) {
	var s mask.Sequence
	require.NoError(t, s.AppendResponse(1, 2))
	rewards, values := []float32{0, 1}, []float32{0, 0}
	for _, c := range []struct {
		name          string
		first, second Row
		options       mask.Options
		says          string
	}{
		{"values lost", Row{Rewards: rewards, Values: values}, Row{Rewards: rewards}, mask.Options{},
			"row 1: values: the rows before have 2 entries for 2 tokens, this row has 0 for 2"},
		{"values new", Row{Rewards: rewards}, Row{Rewards: rewards, Values: values}, mask.Options{},
			"row 1: values: the rows before have 0 entries for 2 tokens, this row has 2 for 2"},
		{"no loss mask", Row{Rewards: rewards}, Row{Rewards: rewards}, mask.Options{NoLossMask: true}, "row 1: loss"},
		{"no gae mask", Row{Rewards: rewards}, Row{Rewards: rewards}, mask.Options{NoGAEMask: true}, "row 1: gae"},
	} {
		var b Batch
		require.NoError(t, b.Append(&s, mask.Options{}, c.first))
		refuse(t, c.name, b.Append(&s, c.options, c.second), ErrLength, c.says)
		require.Equal(t, []int{1, 2}, []int{b.Rows(), b.Tokens()}, "%s: a refused row was added", c.name)
	}
}

// TestForcedTokensHaveStepsButNoLoss: Batch.Loss is mask.Sequence.Loss, and the reward on a
// forced token still reaches the tokens before it.
func TestForcedTokensHaveStepsButNoLoss(t *testing.T) {
	var s mask.Sequence
	err := errors.Join(s.AppendContext(mask.Prompt, 1), s.AppendResponse(2, 3), s.AddSpan(mask.Forced, 2, 3))
	require.NoError(t, err)
	var b Batch
	require.NoError(t, b.Append(&s, mask.Options{}, Row{Rewards: []float32{0, 0, 1}, Values: make([]float32, 3)}))
	require.Equal(t, s.Loss(nil, mask.Options{}), b.Loss, "loss")
	require.Equal(t, []bool{false, true, false}, b.Loss, "loss")
	for _, est := range []Estimator{
		Masked{Gamma: 1, Lambda: 1}, Lite{Gamma: 1, Lambda: 1}, GRPO{}, TrajectoryToken{Gamma: 1, Lambda: 1},
	} {
		out := run(t, est, &b)
		require.Equal(t, []float32{1, 1}, out.Advantages[1:], "%T", est)
		require.Zero(t, out.Unread, "%T", est)
	}
}
