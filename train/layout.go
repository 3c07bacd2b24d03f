package train

import (
	"cmp"
	"vagen/advantage"
	"vagen/rollout"
	"vagen/train/config"
)

// Layout is a step's episodes as the Trainer lays them out for its estimator: one row
// for each conversation with a response, of usable episodes only.
type Layout struct {
	// Batch is the estimator's input, with rewards as they are placed; rewards that the
	// configuration changes or charges with a KL are not changed yet. Values and
	// Baselines are nil: only the learner knows them.
	Batch advantage.Batch
	Rows  []LayoutRow
	// Loss and Value mark the tokens whose policy and value terms count, before
	// algorithm.rollout_correction rejects any. Scored marks those that the learner
	// scores; elsewhere values and log-probs are 0.
	Loss, Value, Scored []bool
}

// LayoutRow is the conversation behind a row.
type LayoutRow struct {
	Episode *rollout.Trajectory
	Row     int // index into Episode.Rows
}

// LayOut lays episodes out as a Trainer with this configuration does for an estimator.
// Errors are those of a training step: ErrNoRows if no episode can be learned from.
func LayOut(ts []*rollout.Trajectory, c *config.Config, spec advantage.Spec) (*Layout, error) {
	c = cmp.Or(c, new(config.Config))
	b, err := newBatch(ts, c, spec)
	if err != nil {
		return nil, err
	}
	spec.Baselines = false // the greedy episodes are not among ts
	b.addComparisons(spec, &c.Algorithm, nil)
	out := &Layout{Batch: b.Steps, Loss: b.Loss, Value: b.Value, Scored: b.want}
	for row := range b.Rows.Len() {
		out.Rows = append(out.Rows, LayoutRow{b.Used[b.Of[row]], b.Steps.Turn[row]})
	}
	return out, nil
}
