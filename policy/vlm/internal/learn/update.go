package learn

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"vagen/policy"
	"vagen/policy/loss"
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

// readsReference reports whether the reference policy scores.
func readsReference(what policy.ScoreRequest) bool {
	return what.Reference || what.Choice.By != "" && what.Choice.By != loss.ByItself
}

// Score scores rows on all ranks.
func (s *Sets) Score(ctx context.Context, c ScoreCall) (*policy.Scores, error) {
	if err := net.CheckTemperature(c.Temperature); err != nil {
		return nil, fmt.Errorf("vlm: score: %w", err)
	}
	if err := s.CheckScore(c.What); err != nil {
		return nil, err
	}
	leaves, err := s.Packer(s.Net).Leaves(c.Rows, c.Want) // refuses bad rows before other ranks get them
	if err != nil {
		return nil, err
	}
	if err := s.checkReference(&c); err != nil {
		return nil, fmt.Errorf("vlm: score: %w", err)
	}
	sent := c
	sent.Rows = nil
	if err := s.send(ctx, &command{Score: &sent}, c.Rows); err != nil {
		return nil, err
	}
	out, err := s.score(s.Peers.Whole(ctx), &c, leaves)
	return out, s.Peers.Failed(err)
}

// CheckScore refuses what the sets of weights cannot score.
func (s *Sets) CheckScore(what policy.ScoreRequest) error {
	if readsReference(what) && s.Ref == nil {
		return fmt.Errorf("vlm: score: %w: the model was opened without a reference policy", backend.ErrOption)
	}
	if err := s.checkChoice(what.Choice); err != nil {
		return fmt.Errorf("vlm: score: %w", err)
	}
	if what.Values && s.CriticOptions.Kind == NoCritic {
		return fmt.Errorf("vlm: score: %w: the model was opened without a critic", backend.ErrOption)
	}
	return nil
}

// score is Score on this rank.
func (s *Sets) score(ctx context.Context, c *ScoreCall, leaves [][]*net.Pack) (*policy.Scores, error) {
	out, what, top := &policy.Scores{}, c.What, 0
	itself := what.Choice.By == loss.ByItself
	if what.Choice.By == loss.ByStudent || itself {
		top = what.Choice.K
	}
	tokens := what.LogProbs || what.Entropy || what.SumPiSquared || top > 0
	shared := what.Values && s.Critic == nil
	if tokens || shared {
		h := s.Actor.Net.Head(tokens, shared)
		h.Squares, h.Top = what.SumPiSquared, top
		x, err := s.scoreWith(ctx, s.Actor, h, leaves, c)
		if err != nil {
			return nil, err
		}
		if what.LogProbs {
			out.LogProbs = x.LogProb
		}
		if what.Entropy {
			out.Entropy = x.Entropy
		}
		out.Values, out.SumPiSquared, out.Chosen = x.Value, x.Squares, integers(x.IDs)
		if itself {
			out.Teacher = x.Chosen
		}
	}
	if readsReference(what) {
		err := s.Ref.OnDevices(false, func() error { return s.scoreReference(ctx, out, leaves, c) })
		if err != nil {
			return nil, err
		}
	}
	if what.Values && s.Critic != nil {
		err := s.Critic.OnDevices(false, func() error {
			x, err := s.scoreWith(ctx, s.Critic, s.Critic.Net.Head(false, true), leaves, c)
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

// scoreReference scores with the reference policy: the written tokens, and those that a loss compares.
func (s *Sets) scoreReference(ctx context.Context, out *policy.Scores, leaves [][]*net.Pack, c *ScoreCall) error {
	h := s.Ref.Net.Head(true, false)
	switch c.What.Choice.By {
	case loss.ByTeacher:
		h.Top = c.What.Choice.K
	case loss.ByStudent:
		h.Chosen = c.What.Choice.K
		net.Choose(net.Flat(leaves), out.Chosen, h.Chosen)
		defer net.Choose(net.Flat(leaves), nil, 0)
	case loss.WholeVocabulary:
		h.Chosen = s.Net.Cfg.Text.Vocab
	}
	x, err := s.scoreWith(ctx, s.Ref, h, leaves, c)
	if err != nil {
		return err
	}
	if c.What.Reference {
		out.Reference = x.LogProb
	}
	if x.Chosen != nil { // with ByItself the reference compares no tokens, and Teacher is set
		out.Teacher = x.Chosen
	}
	if h.Top > 0 {
		out.Chosen = integers(x.IDs)
	}
	return nil
}

// checkReference refuses rows that are too long for the reference, which may be another model than the policy.
func (s *Sets) checkReference(c *ScoreCall) error {
	if !readsReference(c.What) {
		return nil
	}
	text := &s.Ref.Net.Cfg.Text
	for i := range c.Rows.Len() {
		from, to := c.Rows.Offsets[i], c.Rows.Offsets[i+1]
		if !slices.Contains(c.Want[from:to], true) {
			continue
		}
		if most := text.MaxPositions; most > 0 && to-from > most {
			return fmt.Errorf("row %d has %d tokens, the reference policy allows %d", i, to-from, most)
		}
	}
	return nil
}

// integers converts token ids, which are exact in float32 below 2^24; nil stays nil.
func integers(x []float32) []int32 {
	if x == nil {
		return nil
	}
	out := make([]int32, len(x))
	for i, v := range x {
		out[i] = int32(v)
	}
	return out
}

// checkChoice refuses tokens that cannot be compared.
func (s *Sets) checkChoice(c loss.Choice) error {
	size := s.Net.Cfg.Text.Vocab
	switch {
	case c.By == "":
		return nil
	case c.By != loss.ByItself && s.Ref.Net.Cfg.Text.Vocab != size:
		return fmt.Errorf("%w: tokens of the vocabulary are compared, of which the policy has %d and the teacher %d",
			backend.ErrOption, size, s.Ref.Net.Cfg.Text.Vocab)
	case c.By != loss.WholeVocabulary && (c.K < 1 || c.K > size):
		return fmt.Errorf("%w: %d tokens are compared at each position, must be 1 to %d", backend.ErrOption, c.K, size)
	}
	return nil
}

// scoreWith scores the tokens of a call with a head of one set of weights.
func (s *Sets) scoreWith(
	ctx context.Context, l *Learner, h *model.Head, leaves [][]*net.Pack, c *ScoreCall,
) (*net.Scored, error) {
	x := net.NewScored(h, len(c.Rows.Tokens))
	if leaves != nil {
		if err := l.ScoreLeaves(ctx, leaves, h, x, s.Batching.HeadTokens, c.Temperature); err != nil {
			return nil, err
		}
	}
	err := errors.Join(net.CheckFinite("log-probs", x.LogProb), net.CheckFinite("entropies", x.Entropy),
		net.CheckFinite("values", x.Value), net.CheckFinite("log-probs of chosen tokens", x.Chosen))
	if err != nil {
		return nil, fmt.Errorf("vlm: score: %w", err)
	}
	return x, nil
}

// LearnCall is a call of Accumulate, Step or Update, which is both: see policy.Learner.
type LearnCall struct {
	Batch            *policy.Batch
	Objective        policy.Objective
	Optimizer        policy.Optimizer
	Accumulate, Step bool
}

// check checks a call before anything is computed.
func (c *LearnCall) check(critic string) error {
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
func (s *Sets) Learn(ctx context.Context, c *LearnCall) (policy.Stats, error) {
	if err := c.check(s.CriticOptions.Kind); err != nil {
		return policy.Stats{}, err
	}
	if err := s.checkChosen(c); err != nil {
		return policy.Stats{}, fmt.Errorf("vlm: update: %w", err)
	}
	if err := s.sendLearning(ctx, c); err != nil {
		return policy.Stats{}, err
	}
	stats, err := s.learn(s.Peers.Whole(ctx), c)
	return stats, s.Peers.Failed(err)
}

// checkChosen checks the tokens that the loss of a call compares.
func (s *Sets) checkChosen(c *LearnCall) error {
	size, k, b := s.Net.Cfg.Text.Vocab, c.Objective.Compares(c.Batch), c.Batch
	switch {
	case !c.Accumulate || k == 0:
		return nil
	case b.Chosen == nil && k != size:
		return fmt.Errorf("batch: Chosen is missing, and Teacher has %d numbers per token for a vocabulary of %d", k, size)
	case b.Chosen != nil && len(b.Chosen) != len(b.Teacher):
		return fmt.Errorf("batch: Chosen has %d tokens, Teacher %d log-probs", len(b.Chosen), len(b.Teacher))
	}
	for i, id := range b.Chosen {
		if id < 0 || int(id) >= size {
			return fmt.Errorf("batch: Chosen: entry %d is token %d, must be 0 to %d", i, id, size-1)
		}
	}
	return nil
}

// learn is Learn on this rank.
func (s *Sets) learn(ctx context.Context, c *LearnCall) (stats policy.Stats, err error) {
	s.Prepare(c.Batch)
	if c.Accumulate {
		stats.Tokens = len(c.Batch.Tokens)
	}
	var actor, critic bool // took a step
	// A step without any gradient is skipped; one with gradients of one of the two is not.
	defer func() { stats.Skipped = stats.Skipped || c.Step && !actor && !critic }()
	o := &c.Objective
	value := o.ValueCoef > 0 && !o.Imitate
	if !c.Accumulate || !o.CriticOnly {
		head := s.Net.Head(true, value && s.CriticOptions.Kind == SharedCritic)
		if c.Accumulate {
			head.Chosen = o.Compares(c.Batch)
		}
		if stats.GradNorm, actor, err = s.learnWith(ctx, s.Actor, head, c, c.Optimizer.Rate, &stats); err != nil {
			return stats, err
		}
		stats.HasGradNorm = c.Step
		ctx = context.WithoutCancel(ctx) // the critic follows the policy
	}
	if s.Critic == nil || c.Accumulate && !value {
		return stats, nil
	}
	err = s.Critic.OnDevices(true, func() error {
		head := s.Critic.Net.Head(false, true)
		stats.CriticNorm, critic, err = s.learnWith(ctx, s.Critic, head, c, c.Optimizer.CriticRate, &stats)
		return err
	})
	return stats, err
}

// learnWith makes a call for one set of weights, and adds what it reports to stats. It takes a step if there are
// gradients.
func (s *Sets) learnWith(
	ctx context.Context, l *Learner, h *model.Head, c *LearnCall, rate float64, stats *policy.Stats,
) (norm float64, stepped bool, err error) {
	start, fetched, waited, sent := time.Now(), l.Net.Fetching.Load(), l.Peers.Waited(), l.Peers.Sent()
	if c.Accumulate {
		k := l.NewTask(c.Batch, &c.Objective, h, s.Batching.HeadTokens)
		leaves, err := s.Packer(l.Net).Leaves(&c.Batch.Rows, k.Wanted())
		if err != nil {
			return 0, false, err
		}
		net.Choose(net.Flat(leaves), c.Batch.Chosen, h.Chosen)
		if err := l.Accumulate(ctx, k, leaves); err != nil {
			return 0, false, err
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
	if stepped = c.Step && t != nil; stepped {
		var skipped bool
		norm, skipped, err = l.Step(ctx, c.Optimizer, rate)
		stats.Skipped = stats.Skipped || skipped
	}
	if t != nil {
		s.Exchange.Sent.Store(l.Peers.Sent() - sent)
		fetching := time.Duration(l.Net.Fetching.Load()-fetched) / time.Duration(len(s.Devices))
		all := time.Since(start).Seconds()
		s.Exchange.Share.Store(math.Float64bits((t.Exchanging + fetching).Seconds() / all))
		s.Exchange.Wait.Store(math.Float64bits((l.Peers.Waited() - waited).Seconds() / all))
	}
	return norm, stepped, err
}
