package loss

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTokensThatDoNotCountAreNotRead(t *testing.T) {
	for name, p := range everyPolicy() {
		b := randomBatch(2)
		junk := mustEval(t, p, Aggregation{Mode: SeqMeanTokenSum}, b)
		for i, m := range b.Mask {
			if !m {
				b.LogProb[i], b.OldLogProb[i], b.Advantage[i], b.Weight[i], b.Turn[i] = 1, 2, 3, 4, 5
			}
		}
		clean := mustEval(t, p, Aggregation{Mode: SeqMeanTokenSum}, b)
		require.Equal(t, clean.Loss, junk.Loss, name)
		require.Equal(t, clean.Grad, junk.Grad, name)
		require.Equal(t, clean.Metrics, junk.Metrics, name)
	}
}

func TestABatchWithoutCountedTokensIsZeroAndFlagged(t *testing.T) {
	empty := &Batch[float64]{Offsets: []int{0}}
	context := randomBatch(1)
	clear(context.Mask)
	for name, p := range everyPolicy() {
		for _, b := range []*Batch[float64]{empty, context} {
			for _, mode := range []Mode{TokenMean, TokenSum, SeqMeanTokenSum, SeqMeanTokenMean, SeqMeanTokenSumNorm} {
				got := mustEval(t, p, Aggregation{Mode: mode, Width: 5}, b)
				require.True(t, got.Empty, "%s, %s", name, mode)
				require.Zero(t, got.Loss, "%s, %s", name, mode)
				require.Zero(t, got.Metrics, "%s, %s", name, mode)
				require.True(t, slices.Equal(make([]float64, len(b.Mask)), got.Grad), "%s, %s", name, mode)
			}
		}
	}
	require.False(t, mustEval(t, LegacyPPO(), Aggregation{}, randomBatch(1)).Empty)
}

// slice returns the rows [from, to) of a batch.
func slice(b *Batch[float64], from, to int) *Batch[float64] {
	lo, hi := b.Offsets[from], b.Offsets[to]
	out := &Batch[float64]{
		Mask: b.Mask[lo:hi], LogProb: b.LogProb[lo:hi], OldLogProb: b.OldLogProb[lo:hi],
		Advantage: b.Advantage[lo:hi], Weight: b.Weight[lo:hi], Turn: b.Turn[lo:hi], Sampled: b.Sampled[lo:hi],
		Ref: b.Ref[lo:hi],
	}
	for _, o := range b.Offsets[from : to+1] {
		out.Offsets = append(out.Offsets, o-lo)
	}
	return out
}

// TestSplittingAnUpdateChangesNothing: parts with the weights of the whole update add up to it.
func TestSplittingAnUpdateChangesNothing(t *testing.T) {
	b := randomBatch(4)
	modes := []Mode{TokenMean, TokenSum, SeqMeanTokenSum, SeqMeanTokenMean, PromptMean, SeqMeanTokenSumNorm}
	for _, mode := range modes {
		a := Aggregation{Mode: mode, Width: 9, Prompts: []int{1, 1, 2, 2, 2, 1, 3}}
		whole := mustEval(t, LegacyPPO(), a, b)
		weights, err := a.Weights(nil, b.Offsets, b.Mask)
		require.NoError(t, err)
		var loss float64
		var grad []float64
		for _, cut := range [][2]int{{0, 1}, {1, 3}, {3, b.Rows()}} {
			var part Result
			of := weights[b.Offsets[cut[0]]:b.Offsets[cut[1]]]
			require.NoError(t, EvalWeighted(&part, LegacyPPO(), of, slice(b, cut[0], cut[1])))
			loss += part.Loss
			grad = append(grad, part.Grad...)
		}
		near(t, string(mode), loss, whole.Loss, 1e-12)
		require.Equal(t, whole.Grad, grad, mode)
	}
}

// TestPromptsAreAveragedAsRows: with a prompt for each row, and with all rows of a prompt joined into one, wherever
// they are.
func TestPromptsAreAveragedAsRows(t *testing.T) {
	b := randomBatch(4)
	each := Aggregation{Mode: PromptMean, Prompts: []int{6, 5, 4, 3, 2, 1, 0}}
	rows := mustEval(t, LegacyPPO(), Aggregation{Mode: SeqMeanTokenMean}, b)
	require.Equal(t, rows.Grad, mustEval(t, LegacyPPO(), each, b).Grad)
	one := Aggregation{Mode: PromptMean, Prompts: make([]int, 7)}
	require.Equal(t, mustEval(t, LegacyPPO(), Aggregation{}, b).Grad, mustEval(t, LegacyPPO(), one, b).Grad)

	// Rows of 1, 2, 0 and 3 counted tokens, the first and the last of one prompt.
	b = &Batch[float64]{
		Offsets: []int{0, 2, 4, 5, 8}, Mask: []bool{true, false, true, true, false, true, true, true},
		LogProb: make([]float64, 8), OldLogProb: make([]float64, 8), Advantage: []float64{1, 9, 2, 3, 9, 4, 5, 6},
	}
	apart := Aggregation{Mode: PromptMean, Prompts: []int{7, -1, 3, 7}}
	got := mustEval(t, Reinforce{}, apart, b)
	allNear(t, "gradient", got.Grad, []float64{-1. / 8, 0, -2. / 4, -3. / 4, 0, -4. / 8, -5. / 8, -6. / 8}, 1e-15)
}

func TestPaddingRowsChangeNeitherLossNorGradient(t *testing.T) {
	for name, p := range everyPolicy() {
		b := randomBatch(12)
		want := mustEval(t, p, Aggregation{}, b)
		n := len(b.Mask)
		addContext(b, 4)
		b.Offsets = append(b.Offsets, n+2, n+4)
		got := mustEval(t, p, Aggregation{}, b)
		near(t, name, got.Loss, want.Loss, 0)
		require.Equal(t, want.Grad, got.Grad[:n], "%s: padding changed the gradient", name)
	}
}

func TestFloat32BatchesGiveTheSameUpToTheirRounding(t *testing.T) {
	for name, p := range everyPolicy() {
		if name == "clip_cov" || name == "kl_cov" {
			continue // rounding may choose other tokens
		}
		b := randomBatch(13)
		want, got := mustEval(t, p, Aggregation{}, b), mustEval(t, p, Aggregation{}, narrow(b))
		near(t, name, got.Loss, want.Loss, 1e-5)
		allNear(t, name+" gradient", got.Grad, want.Grad, 1e-5)
	}
}

func TestUnitWeightsChangeNothingAndConstantWeightsScale(t *testing.T) {
	for name, p := range everyPolicy() {
		b := randomBatch(14)
		b.Weight = nil
		want := mustEval(t, p, Aggregation{}, b)
		b.Weight = slices.Repeat([]float64{1}, len(b.Mask))
		near(t, name, mustEval(t, p, Aggregation{}, b).Loss, want.Loss, 1e-12)
		if name == "vespo" || name == "luspo with KL" {
			continue // where weights move the joint ratio, or multiply no KL
		}
		b.Weight = slices.Repeat([]float64{2.5}, len(b.Mask))
		got := mustEval(t, p, Aggregation{}, b)
		near(t, name, got.Loss, 2.5*want.Loss, 1e-12)
		for i := range got.Grad {
			near(t, name+" gradient", got.Grad[i], 2.5*want.Grad[i], 1e-12)
		}
	}
}

func TestReusedResultsAllocateNothing(t *testing.T) {
	b := narrow(randomBatch(15))
	for name, p := range everyPolicy() {
		var r Result
		run := func() {
			if err := Eval(&r, p, Aggregation{Mode: SeqMeanTokenMean}, b); err != nil {
				t.Fatal(err)
			}
		}
		require.Zero(t, testing.AllocsPerRun(20, run), name)
	}
	var c Corrected
	cb := &CorrectionBatch[float32]{Offsets: b.Offsets, Mask: b.Mask, Trainer: b.LogProb, Rollout: b.OldLogProb}
	corr := Correction{Weight: TokenLevel, Threshold: 2, Normalize: true,
		Reject: []Rejection{{Over: SeqMean, Divergence: 3, Upper: 0.1}}}
	correct := func() {
		if err := Correct(&c, corr, cb); err != nil {
			t.Fatal(err)
		}
	}
	require.Zero(t, testing.AllocsPerRun(20, correct))
}

func TestAReusedResultHoldsNoOldValues(t *testing.T) {
	var used Result
	for name, p := range everyPolicy() {
		for seed := range uint64(3) {
			b := randomBatch(seed)
			require.NoError(t, Eval(&used, p, Aggregation{}, b))
			fresh := mustEval(t, p, Aggregation{}, b)
			require.Equal(t, fresh.Loss, used.Loss, name)
			require.Equal(t, fresh.Grad, used.Grad, name)
			require.Equal(t, fresh.Metrics, used.Metrics, name)
			require.True(t, slices.Equal(fresh.GradChosen, used.GradChosen), name)
			rounded := narrow(b) // columns that are absent now
			rounded.Weight, rounded.Sampled = nil, nil
			fresh = mustEval(t, p, Aggregation{}, rounded)
			require.NoError(t, Eval(&used, p, Aggregation{}, narrow(b)))
			require.NoError(t, Eval(&used, p, Aggregation{}, rounded))
			require.Equal(t, fresh.Loss, used.Loss, name)
		}
	}
}
