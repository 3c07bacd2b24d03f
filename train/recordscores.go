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
	out := make([]store.Scores, b.rows.Len())
	for i := range out {
		from, to := b.rows.Offsets[i], b.rows.Offsets[i+1]
		out[i] = store.Scores{
			Group: b.adv.Group[i], Index: b.adv.Trajectory[i], Row: b.adv.Turn[i],
			OldLogProbs: part(b.old, from, to), Reference: part(b.reference, from, to), Values: part(b.values, from, to),
			Entropy: part(b.entropy, from, to), Rewards: part(b.adv.Rewards, from, to),
			Advantages: part(b.result.Advantages, from, to), Returns: part(b.result.Returns, from, to),
			Loss: part(b.loss, from, to), Value: part(b.value, from, to), Scored: part(b.want, from, to),
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
