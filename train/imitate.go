package train

import (
	"context"
	"errors"
	"fmt"

	"vagen/internal/rng"
	"vagen/policy"
	"vagen/policy/loss"
	"vagen/rollout"
	"vagen/train/track"
)

// Imitation holds the settings of supervised training on transcripts.
type Imitation struct {
	Batch  int // transcripts per optimiser step
	Epochs int // passes over the transcripts
	// Optimizer is AdamW. The learning rate reaches Rate after Warmup steps, and decreases
	// to a tenth of it over the last fifth of all steps.
	Optimizer policy.Optimizer
	Warmup    int
	Every     int // steps between events; 0 is 10
	Seed      uint64
}

// Transcripts returns transcripts by their indices, in the order of members. Imitate asks for those
// of one optimiser step, once in every epoch: what records them when asked need not keep the
// images of all in memory.
type Transcripts func(ctx context.Context, members []int) ([]*rollout.Trajectory, error)

// Imitate trains the learner to write the responses of n transcripts, as
// rollout.Demonstrate records them. The loss is the mean negative log-prob of the
// response tokens of a batch. Sinks receive events of kind KindImitate.
func Imitate(
	ctx context.Context, learner policy.Learner, n int, ts Transcripts, o Imitation, sinks ...track.Sink,
) error {
	if o.Batch < 1 || o.Epochs < 1 {
		return fmt.Errorf("train: imitation: Batch %d and Epochs %d must be positive", o.Batch, o.Epochs)
	}
	if n < 1 || ts == nil || learner == nil {
		return errors.New("train: imitation: no learner or no transcripts, at least one is needed")
	}
	perEpoch := (n + o.Batch - 1) / o.Batch
	total := perEpoch * o.Epochs
	every := o.Every
	if every == 0 {
		every = 10
	}
	clock := newStopwatch()
	for epoch := range o.Epochs {
		order := rng.New(o.Seed, rng.Shuffle, uint64(epoch)).Perm(n)
		for k := range perEpoch {
			step := epoch*perEpoch + k + 1
			b, err := ts.batch(ctx, order[k*o.Batch:min((k+1)*o.Batch, n)])
			if err != nil {
				return err
			}
			opt := o.Optimizer
			opt.Rate = o.rate(step, total)
			stats, err := learner.Update(ctx, b, policy.Objective{Imitate: true, Temperature: 1}, opt)
			if err != nil {
				return err
			}
			if step%every != 0 && step != total {
				continue
			}
			m := track.Metrics{"imitate/loss": stats.PolicyLoss, "imitate/lr": opt.Rate}
			setGradNorm(m, "imitate/grad_norm", stats)
			clock.write(m)
			for _, s := range sinks {
				if err := s.Event(track.Event{Kind: track.KindImitate, Step: step, Total: total, Metrics: m}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (o *Imitation) rate(step, total int) float64 {
	rate := o.Optimizer.Rate
	if o.Warmup > 0 {
		rate *= min(1, float64(step)/float64(o.Warmup))
	}
	return rate * (1 - 0.9*max(0, float64(step-1)/float64(total)-0.8)*5)
}

// batch returns the batch of one imitation step.
func (ts Transcripts) batch(ctx context.Context, members []int) (*policy.Batch, error) {
	recorded, err := ts(ctx, members)
	if err != nil {
		return nil, err
	}
	if len(recorded) != len(members) {
		return nil, fmt.Errorf("train: imitation: %d transcripts were returned, %d were asked for", len(recorded),
			len(members))
	}
	b := &policy.Batch{Rows: policy.Rows{Offsets: []int{0}}}
	var counted []bool
	for _, t := range recorded {
		for r := range t.Rows {
			row := &t.Rows[r]
			b.Tokens = append(b.Tokens, row.Tokens()...)
			b.Offsets = append(b.Offsets, len(b.Tokens))
			b.Images = append(b.Images, row.Images)
			counted = row.Response(counted)
		}
	}
	if b.Weight, err = tokenWeights(loss.Aggregation{}, b.Offsets, counted); err != nil {
		return nil, fmt.Errorf("train: imitation: %w", err)
	}
	return b, nil
}
