package train

import (
	"slices"

	"vagen/rollout/store"
)

// recordsScores reports whether the observer gets the scores of every step.
func (t *Trainer) recordsScores() bool {
	return t.Observer != nil && t.Config.Trainer.RolloutScores
}

// showScores gives the observer a copy of what the estimator read and computed.
func (t *Trainer) showScores(b *batch, step int) error {
	if !t.recordsScores() {
		return nil
	}
	return t.Observer.Estimated(step, b.scores())
}

// scores copies the numbers of all rows.
func (b *batch) scores() []store.Scores {
	out := make([]store.Scores, b.Rows.Len())
	for i := range out {
		from, to := b.Rows.Offsets[i], b.Rows.Offsets[i+1]
		out[i] = store.Scores{
			Group: b.Steps.Group[i], Index: b.Steps.Trajectory[i], Row: b.Steps.Turn[i],
			OldLogProbs: part(b.old, from, to), Reference: part(b.reference, from, to), Values: part(b.values, from, to),
			Entropy: part(b.entropy, from, to), Rewards: part(b.Steps.Rewards, from, to),
			Advantages: part(b.result.Advantages, from, to), Returns: part(b.result.Returns, from, to),
			Loss: part(b.Loss, from, to), Value: part(b.Value, from, to), Scored: part(b.want, from, to),
		}
	}
	return out
}

// part copies the numbers of a row, or returns nil if there are none.
func part[T any](x []T, from, to int) []T {
	if len(x) == 0 {
		return nil
	}
	return slices.Clone(x[from:to])
}
