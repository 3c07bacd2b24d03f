package vlm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"vagen/policy"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/learn"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/net"
)

func (m *Model) packer(n *net.Net) *net.Packer {
	k := &net.Packer{Cfg: n.Spec, Budget: m.opts.MicroTokens, Rows: m.opts.MicroRows, Picture: m.text.Picture, LeafCount: 1}
	if m.tree {
		k.LeafCount = m.leaves
	}
	if m.critic != nil && n == m.critic.Net {
		if m.opts.CriticMicroTokens > 0 {
			k.Budget = m.opts.CriticMicroTokens
		}
		if m.opts.CriticMicroRows > 0 {
			k.Rows = m.opts.CriticMicroRows
		}
	}
	return k
}

// Score implements policy.Learner.
func (m *Model) Score(ctx context.Context, rows *policy.Rows, want []bool, what policy.ScoreRequest, temperature float64) (*policy.Scores, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosed
	}
	if err := net.CheckTemperature(temperature); err != nil {
		return nil, fmt.Errorf("vlm: score: %w", err)
	}
	if what.Reference && m.ref == nil {
		return nil, fmt.Errorf("vlm: score: %w: the model was opened without a reference policy", ErrOption)
	}
	if what.Values && m.opts.Critic == NoCritic {
		return nil, fmt.Errorf("vlm: score: %w: the model was opened without a critic", ErrOption)
	}
	if err := m.order(ctx, &order{Score: &scoreOrder{Want: want, What: what, Temperature: temperature}}, rows); err != nil {
		return nil, err
	}
	out, err := m.score(m.group.Whole(ctx), rows, want, what, temperature)
	return out, m.group.Failed(err)
}

// score is Score on this node.
func (m *Model) score(ctx context.Context, rows *policy.Rows, want []bool, what policy.ScoreRequest, temperature float64) (*policy.Scores, error) {
	leaves, err := m.packer(m.net).Leaves(rows, want)
	if err != nil {
		return nil, err
	}
	out := &policy.Scores{}
	run := func(l *learn.Learner, h *model.Head) (*net.Scored, error) {
		s := net.NewScored(h, len(rows.Tokens))
		if leaves != nil {
			if err := l.ScoreLeaves(ctx, leaves, h, s, m.opts.HeadTokens, temperature); err != nil {
				return nil, err
			}
		}
		err := errors.Join(net.CheckFinite("log-probs", s.LogProb), net.CheckFinite("entropies", s.Entropy), net.CheckFinite("values", s.Value))
		if err != nil {
			return nil, fmt.Errorf("vlm: score: %w", err)
		}
		return s, nil
	}
	tokens := what.LogProbs || what.Entropy || what.SumPiSquared
	shared := what.Values && m.critic == nil
	if tokens || shared {
		h := m.actor.Net.Head(tokens, shared)
		h.Squares = what.SumPiSquared
		s, err := run(m.actor, h)
		if err != nil {
			return nil, err
		}
		if what.LogProbs {
			out.LogProbs = s.LogProb
		}
		if what.Entropy {
			out.Entropy = s.Entropy
		}
		out.Values, out.SumPiSquared = s.Value, s.Squares
	}
	if what.Reference {
		err := m.ref.OnDevices(false, func() error {
			s, err := run(m.ref, m.ref.Net.Head(true, false))
			if err == nil {
				out.Reference = s.LogProb
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if what.Values && m.critic != nil {
		err := m.critic.OnDevices(false, func() error {
			s, err := run(m.critic, m.critic.Net.Head(false, true))
			if err == nil {
				out.Values = s.Value
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Accumulate implements policy.Learner. It ends all conversations, because training needs their memory. After an
// error nothing of the batch has been added, unless it says that gradients could not be summed: then
// those of earlier calls are lost, too.
func (m *Model) Accumulate(ctx context.Context, b *policy.Batch, o policy.Objective) (policy.Stats, error) {
	return m.learn(ctx, &learning{Batch: b, Objective: o, Accumulate: true})
}

// Step implements policy.Learner. It ends all conversations, because their caches were computed with the old weights.
func (m *Model) Step(ctx context.Context, opt policy.Optimizer) (policy.Stats, error) {
	return m.learn(ctx, &learning{Optimizer: opt, Step: true})
}

// Update implements policy.Learner. It ends all conversations, because their caches were
// computed with the old weights. The policy is updated before a separate critic. Once it
// has been updated, the end of ctx no longer stops the critic: both are updated or
// neither, unless the device fails between the two.
func (m *Model) Update(ctx context.Context, b *policy.Batch, o policy.Objective, opt policy.Optimizer) (policy.Stats, error) {
	return m.learn(ctx, &learning{Batch: b, Objective: o, Optimizer: opt, Accumulate: true, Step: true})
}

// learning is a call of Accumulate, Step or Update, which is both.
type learning struct {
	Batch            *policy.Batch
	Objective        policy.Objective
	Optimizer        policy.Optimizer
	Accumulate, Step bool
}

// check checks a call before anything is computed.
func (c *learning) check(critic Critic) error {
	if c.Accumulate {
		if c.Objective.CriticOnly && critic != SeparateCritic {
			return fmt.Errorf("vlm: update: %w: CriticOnly needs a separate critic, but Critic is %q", ErrOption, critic)
		}
		if err := learn.CheckUpdate(c.Batch, &c.Objective, critic != NoCritic); err != nil {
			return err
		}
	}
	if c.Step {
		return learn.CheckOptimizer(c.Optimizer)
	}
	return nil
}

// learn makes a call on all nodes.
func (m *Model) learn(ctx context.Context, c *learning) (policy.Stats, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return policy.Stats{}, ErrClosed
	}
	if err := c.check(m.opts.Critic); err != nil {
		return policy.Stats{}, err
	}
	if err := m.orderLearning(ctx, c); err != nil {
		return policy.Stats{}, err
	}
	stats, err := m.learnHere(m.group.Whole(ctx), c)
	return stats, m.group.Failed(err)
}

// learnHere makes a call on this node.
func (m *Model) learnHere(ctx context.Context, c *learning) (stats policy.Stats, err error) {
	m.gen.DropSessions()
	first := m.text.Pictures.MarkTraining()
	if _, held := m.dev.Live(); first || held >= largeModel {
		device.Trim() // memory of generation and scoring
	}
	if c.Accumulate {
		stats.Tokens = len(c.Batch.Tokens)
		m.logPlan(c.Batch)
	}
	// A step without any gradient is skipped; one with gradients of one of the two is not.
	stats.Skipped = !c.Accumulate && m.actor.Open == nil && (m.critic == nil || m.critic.Open == nil)
	o := &c.Objective
	value := o.ValueCoef > 0 && !o.Imitate
	if !c.Accumulate || !o.CriticOnly {
		head := m.net.Head(true, value && m.opts.Critic == SharedCritic)
		if stats.GradNorm, err = m.learnWith(ctx, m.actor, head, c, c.Optimizer.Rate, &stats); err != nil {
			return stats, err
		}
		stats.HasGradNorm = c.Step
	}
	if m.critic == nil || c.Accumulate && !value {
		return stats, nil
	}
	if c.Step && stats.HasGradNorm {
		ctx = context.WithoutCancel(ctx)
	}
	err = m.critic.OnDevices(true, func() error {
		stats.CriticNorm, err = m.learnWith(ctx, m.critic, m.critic.Net.Head(false, true), c, c.Optimizer.CriticRate, &stats)
		return err
	})
	return stats, err
}

// largeModel is the model size in bytes from which fragmentation by other work is worth the
// time of returning memory to the system.
const largeModel = 128 << 20

// learnWith makes a call for one set of weights, and adds what it reports to stats.
func (m *Model) learnWith(ctx context.Context, l *learn.Learner, h *model.Head, c *learning, rate float64, stats *policy.Stats) (norm float64, err error) {
	start, fetched, waited, sent := time.Now(), l.Net.Fetching.Load(), l.Group.Waited(), l.Group.Sent()
	if c.Accumulate {
		k := l.NewTask(c.Batch, &c.Objective, h, m.opts.HeadTokens)
		leaves, err := m.packer(l.Net).Leaves(&c.Batch.Rows, k.Wanted())
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
		m.exchangeSent.Store(l.Group.Sent() - sent)
		fetching := time.Duration(l.Net.Fetching.Load()-fetched) / time.Duration(len(m.devices))
		all := time.Since(start).Seconds()
		m.exchangeShare.Store(math.Float64bits((t.Exchanging + fetching).Seconds() / all))
		m.waitShare.Store(math.Float64bits((l.Group.Waited() - waited).Seconds() / all))
	}
	return norm, err
}
