package vlm

import (
	"context"
	"errors"

	"vagen/policy"
	"vagen/policy/vlm/internal/learn"
)

// Score implements policy.Learner.
func (m *Model) Score(
	ctx context.Context, rows *policy.Rows, want []bool, what policy.ScoreRequest, temperature float64,
) (*policy.Scores, error) {
	unlock, err := m.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	if rows == nil {
		return nil, errors.New("vlm: score: the rows are nil")
	}
	return m.sets.Score(ctx, learn.ScoreCall{Rows: rows, Want: want, What: what, Temperature: temperature})
}

// CheckScore implements policy.ScoreChecker.
func (m *Model) CheckScore(what policy.ScoreRequest) error {
	unlock, err := m.lock()
	if err != nil {
		return err
	}
	defer unlock()
	return m.sets.CheckScore(what)
}

// Accumulate implements policy.Learner. It ends all conversations, because training needs their memory. After an
// error nothing of the batch has been added, unless it says that gradients could not be summed: then
// those of earlier calls are lost, too. If the device fails for a separate critic, the policy's gradients stay added.
func (m *Model) Accumulate(ctx context.Context, b *policy.Batch, o policy.Objective) (policy.Stats, error) {
	return m.learn(ctx, &learn.LearnCall{Batch: b, Objective: o, Accumulate: true})
}

// Step implements policy.Learner. It ends all conversations, because their caches were computed with the old weights.
func (m *Model) Step(ctx context.Context, opt policy.Optimizer) (policy.Stats, error) {
	return m.learn(ctx, &learn.LearnCall{Optimizer: opt, Step: true})
}

// Update implements policy.Learner. It ends all conversations, because their caches were
// computed with the old weights. The policy is updated before a separate critic. Once it
// has been updated, the end of ctx no longer stops the critic: both are updated or
// neither, unless the device fails between the two.
func (m *Model) Update(
	ctx context.Context, b *policy.Batch, o policy.Objective, opt policy.Optimizer,
) (policy.Stats, error) {
	return m.learn(ctx, &learn.LearnCall{Batch: b, Objective: o, Optimizer: opt, Accumulate: true, Step: true})
}

func (m *Model) learn(ctx context.Context, c *learn.LearnCall) (policy.Stats, error) {
	unlock, err := m.lock()
	if err != nil {
		return policy.Stats{}, err
	}
	defer unlock()
	if c.Accumulate && c.Batch == nil {
		return policy.Stats{}, errors.New("vlm: update: the batch is nil")
	}
	return m.sets.Learn(ctx, c)
}

// Tie sets the reference policy, if there is one, and a separate critic's trunk to the
// current policy. Reinforcement learning starts from this state after imitation. With
// adapters, the reference becomes the model with a frozen copy of the policy's adapter
// instead of none, and the critic's adapter becomes the policy's. A critic on another
// model's weights is then an error: its weights would have to change, but checkpoints
// contain only adapters. Checkpoints do not contain the reference.
func (m *Model) Tie(ctx context.Context) error {
	unlock, err := m.lock()
	if err != nil {
		return err
	}
	defer unlock()
	return m.sets.Tie(ctx)
}
