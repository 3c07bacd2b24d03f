package learn

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"vagen/policy"
	"vagen/policy/vlm/internal/backend"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/net"
)

// ScoreCall is a call of Score: see policy.Learner.
type ScoreCall struct {
	Rows        *policy.Rows
	Want        []bool
	What        policy.ScoreRequest
	Temperature float64
}

// Score scores rows on all ranks.
func (s *Sets) Score(ctx context.Context, c ScoreCall) (*policy.Scores, error) {
	if err := net.CheckTemperature(c.Temperature); err != nil {
		return nil, fmt.Errorf("vlm: score: %w", err)
	}
	if c.What.Reference && s.Ref == nil {
		return nil, fmt.Errorf("vlm: score: %w: the model was opened without a reference policy", backend.ErrOption)
	}
	if c.What.Values && s.CriticSetup.Kind == NoCritic {
		return nil, fmt.Errorf("vlm: score: %w: the model was opened without a critic", backend.ErrOption)
	}
	sent := c
	sent.Rows = nil
	if err := s.send(ctx, &order{Score: &sent}, c.Rows); err != nil {
		return nil, err
	}
	out, err := s.score(s.Group.Whole(ctx), &c)
	return out, s.Group.Failed(err)
}

// score is Score on this rank.
func (s *Sets) score(ctx context.Context, c *ScoreCall) (*policy.Scores, error) {
	leaves, err := s.Packer(s.Net).Leaves(c.Rows, c.Want)
	if err != nil {
		return nil, err
	}
	out := &policy.Scores{}
	run := func(l *Learner, h *model.Head) (*net.Scored, error) { return s.scoreWith(ctx, l, h, leaves, c) }
	what := c.What
	tokens := what.LogProbs || what.Entropy || what.SumPiSquared
	shared := what.Values && s.Critic == nil
	if tokens || shared {
		h := s.Actor.Net.Head(tokens, shared)
		h.Squares = what.SumPiSquared
		x, err := run(s.Actor, h)
		if err != nil {
			return nil, err
		}
		if what.LogProbs {
			out.LogProbs = x.LogProb
		}
		if what.Entropy {
			out.Entropy = x.Entropy
		}
		out.Values, out.SumPiSquared = x.Value, x.Squares
	}
	if what.Reference {
		err := s.Ref.OnDevices(false, func() error {
			x, err := run(s.Ref, s.Ref.Net.Head(true, false))
			if err == nil {
				out.Reference = x.LogProb
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if what.Values && s.Critic != nil {
		err := s.Critic.OnDevices(false, func() error {
			x, err := run(s.Critic, s.Critic.Net.Head(false, true))
			if err == nil {
				out.Values = x.Value
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// scoreWith scores the tokens of a call with a head of one set of weights.
func (s *Sets) scoreWith(ctx context.Context, l *Learner, h *model.Head, leaves [][]*net.Pack, c *ScoreCall) (*net.Scored, error) {
	x := net.NewScored(h, len(c.Rows.Tokens))
	if leaves != nil {
		if err := l.ScoreLeaves(ctx, leaves, h, x, s.Batching.HeadTokens, c.Temperature); err != nil {
			return nil, err
		}
	}
	err := errors.Join(net.CheckFinite("log-probs", x.LogProb), net.CheckFinite("entropies", x.Entropy),
		net.CheckFinite("values", x.Value))
	if err != nil {
		return nil, fmt.Errorf("vlm: score: %w", err)
	}
	return x, nil
}

// Call is a call of Accumulate, Step or Update, which is both: see policy.Learner.
type Call struct {
	Batch            *policy.Batch
	Objective        policy.Objective
	Optimizer        policy.Optimizer
	Accumulate, Step bool
}

// check checks a call before anything is computed.
func (c *Call) check(critic string) error {
	if c.Accumulate {
		if c.Objective.CriticOnly && critic != SeparateCritic {
			return fmt.Errorf("vlm: update: %w: CriticOnly needs a separate critic, but Critic is %q", backend.ErrOption, critic)
		}
		if err := CheckUpdate(c.Batch, &c.Objective, critic != NoCritic); err != nil {
			return err
		}
	}
	if c.Step {
		return CheckOptimizer(c.Optimizer)
	}
	return nil
}

// Learn makes a call on all ranks.
func (s *Sets) Learn(ctx context.Context, c *Call) (policy.Stats, error) {
	if err := c.check(s.CriticSetup.Kind); err != nil {
		return policy.Stats{}, err
	}
	if err := s.sendLearning(ctx, c); err != nil {
		return policy.Stats{}, err
	}
	stats, err := s.learn(s.Group.Whole(ctx), c)
	return stats, s.Group.Failed(err)
}

// learn is Learn on this rank.
func (s *Sets) learn(ctx context.Context, c *Call) (stats policy.Stats, err error) {
	s.Prepare(c.Batch)
	if c.Accumulate {
		stats.Tokens = len(c.Batch.Tokens)
	}
	// A step without any gradient is skipped; one with gradients of one of the two is not.
	stats.Skipped = !c.Accumulate && s.Actor.Open == nil && (s.Critic == nil || s.Critic.Open == nil)
	o := &c.Objective
	value := o.ValueCoef > 0 && !o.Imitate
	if !c.Accumulate || !o.CriticOnly {
		head := s.Net.Head(true, value && s.CriticSetup.Kind == SharedCritic)
		if stats.GradNorm, err = s.learnWith(ctx, s.Actor, head, c, c.Optimizer.Rate, &stats); err != nil {
			return stats, err
		}
		stats.HasGradNorm = c.Step
	}
	if s.Critic == nil || c.Accumulate && !value {
		return stats, nil
	}
	if c.Step && stats.HasGradNorm {
		ctx = context.WithoutCancel(ctx)
	}
	err = s.Critic.OnDevices(true, func() error {
		stats.CriticNorm, err = s.learnWith(ctx, s.Critic, s.Critic.Net.Head(false, true), c, c.Optimizer.CriticRate, &stats)
		return err
	})
	return stats, err
}

// learnWith makes a call for one set of weights, and adds what it reports to stats.
func (s *Sets) learnWith(ctx context.Context, l *Learner, h *model.Head, c *Call, rate float64, stats *policy.Stats) (norm float64, err error) {
	start, fetched, waited, sent := time.Now(), l.Net.Fetching.Load(), l.Group.Waited(), l.Group.Sent()
	if c.Accumulate {
		k := l.NewTask(c.Batch, &c.Objective, h, s.Batching.HeadTokens)
		leaves, err := s.Packer(l.Net).Leaves(&c.Batch.Rows, k.Wanted())
		if err != nil {
			return 0, err
		}
		if err := l.Accumulate(ctx, k, leaves); err != nil {
			return 0, err
		}
		switch {
		case k.Eval != nil:
			k.Eval.Report(stats)
		case leaves != nil && h.Tokens: // not finite: the step will be skipped
			stats.PolicyLoss = math.NaN()
		case leaves != nil:
			stats.ValueLoss = math.NaN()
		}
	}
	t := l.Open
	if c.Step && (c.Accumulate || t != nil) {
		var skipped bool
		norm, skipped, err = l.Step(ctx, c.Optimizer, rate)
		stats.Skipped = stats.Skipped || skipped
	}
	if t != nil {
		s.Exchange.Sent.Store(l.Group.Sent() - sent)
		fetching := time.Duration(l.Net.Fetching.Load()-fetched) / time.Duration(len(s.Devices))
		all := time.Since(start).Seconds()
		s.Exchange.Share.Store(math.Float64bits((t.Exchanging + fetching).Seconds() / all))
		s.Exchange.Wait.Store(math.Float64bits((l.Group.Waited() - waited).Seconds() / all))
	}
	return norm, err
}
