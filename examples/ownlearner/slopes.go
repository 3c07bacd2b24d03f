package main

import (
	"vagen/policy"
	"vagen/policy/loss"
)

// slopes is the derivative of the batch's policy loss by each token's log-prob.
func slopes(b *policy.Batch, o *policy.Objective, now []float32) ([]float64, error) {
	p, err := o.PolicyLoss()
	if err != nil {
		return nil, err
	}
	mask := make([]bool, len(now))
	for i, w := range b.Weight {
		mask[i] = w != 0
	}
	var out loss.Result
	err = loss.Eval(&out, p, loss.Aggregation{Mode: loss.SeqMeanTokenSum}, &loss.Batch[float32]{
		Offsets: b.Offsets, Mask: mask, LogProb: now, OldLogProb: b.OldLogProbs, Advantage: b.Advantages, Weight: b.RolloutWeight,
	})
	g := make([]float64, len(now))
	for i := range g {
		g[i] = float64(b.Weight[i]) * float64(b.Rows.Len()) * out.Grad[i]
	}
	return g, err
}
