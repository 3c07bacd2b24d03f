package plan_test

import (
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/loss"
	"vagen/policy/vlm/internal/plan"
)

// TestEvaluationAllocatesWhatThePlanSays, for the whole vocabulary; the other columns are a hundredth.
func TestEvaluationAllocatesWhatThePlanSays(t *testing.T) {
	const n, k = 64, 4096
	o := policy.Objective{Policy: loss.Distill{Over: loss.Divergence{Form: loss.Whole,
		Choice: loss.Choice{By: loss.WholeVocabulary}}}}
	column := func(n int) []float32 { return slices.Repeat([]float32{-8}, n) }
	b := &policy.Batch{
		Rows: policy.Rows{Offsets: []int{0, n}, Tokens: make([]int32, n)}, Weight: column(n), OldLogProbs: column(n),
		Advantages: column(n), Teacher: column(n * k),
	}
	s := &policy.Scores{LogProbs: column(n), ChosenLogProbs: column(n * k)}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := o.Eval(b, s)
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	require.InDelta(t, plan.EvalBytes, float64(after.TotalAlloc-before.TotalAlloc)/(n*k), 1)
}
