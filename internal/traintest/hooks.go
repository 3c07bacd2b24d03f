package traintest

import (
	"context"

	"vagen/rollout"
	"vagen/rollout/store"
	"vagen/train"
)

// Hooks implements Checkpointer, Rollbacker and Observer by functions. Nil functions do
// nothing.
type Hooks struct {
	OnBegin     func(ctx context.Context, s train.State) (*train.Pending, error)
	OnKeepBest  func(ctx context.Context, b train.Best) error
	OnRollback  func(ctx context.Context) (train.State, error)
	OnPlayed    func(step int, ts []*rollout.Trajectory) error
	OnEstimated func(step int, scores []store.Scores) error
	OnValidated func(step int, ts []*rollout.Trajectory) error
}

var (
	_ train.Rollbacker = Hooks{}
	_ train.Observer   = Hooks{}
)

func (h Hooks) Begin(ctx context.Context, s train.State) (*train.Pending, error) {
	if h.OnBegin == nil {
		return nil, nil
	}
	return h.OnBegin(ctx, s)
}

func (h Hooks) KeepBest(ctx context.Context, b train.Best) error {
	if h.OnKeepBest == nil {
		return nil
	}
	return h.OnKeepBest(ctx, b)
}

func (h Hooks) Rollback(ctx context.Context) (train.State, error) {
	if h.OnRollback == nil {
		return train.State{}, nil
	}
	return h.OnRollback(ctx)
}

func (h Hooks) Played(step int, ts []*rollout.Trajectory) error {
	if h.OnPlayed == nil {
		return nil
	}
	return h.OnPlayed(step, ts)
}

func (h Hooks) Estimated(step int, scores []store.Scores) error {
	if h.OnEstimated == nil {
		return nil
	}
	return h.OnEstimated(step, scores)
}

func (h Hooks) Validated(step int, ts []*rollout.Trajectory) error {
	if h.OnValidated == nil {
		return nil
	}
	return h.OnValidated(step, ts)
}
