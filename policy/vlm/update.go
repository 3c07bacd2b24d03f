package vlm

import (
	"context"
	"fmt"
	"slices"

	"vagen/policy"
	"vagen/policy/vlm/internal/model"
)

func (m *Model) packer(n *net) *packer {
	return &packer{cfg: n.spec, budget: m.opts.MicroTokens, picture: m.picture}
}

// Score implements policy.Learner.
func (m *Model) Score(ctx context.Context, rows *policy.Rows, want []bool, what policy.Wanted, temperature float64) (*policy.Scores, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosed
	}
	if !(temperature > 0) {
		return nil, fmt.Errorf("vlm: score: temperature is %v, must be above 0", temperature)
	}
	if what.Reference && m.ref == nil {
		return nil, fmt.Errorf("vlm: score: %w: the model was opened without a reference policy", ErrOption)
	}
	if what.Values && m.opts.Critic == NoCritic {
		return nil, fmt.Errorf("vlm: score: %w: the model was opened without a critic", ErrOption)
	}
	packs, err := m.packer(m.net).packs(rows, want)
	if err != nil {
		return nil, err
	}
	out := &policy.Scores{}
	n := len(rows.Tokens)
	run := func(l *learner, tokens, value bool) (lp, ent, val []float32, err error) {
		return l.score(ctx, packs, l.net.head(tokens, value), n, m.opts.HeadTokens, temperature)
	}
	tokens := what.LogProbs || what.Entropy
	shared := what.Values && m.critic == nil
	if tokens || shared {
		lp, ent, val, err := run(m.actor, tokens, shared)
		if err != nil {
			return nil, err
		}
		if what.LogProbs {
			out.LogProbs = lp
		}
		if what.Entropy {
			out.Entropy = ent
		}
		out.Values = val
	}
	if what.Reference {
		if out.Reference, _, _, err = run(m.ref, true, false); err != nil {
			return nil, err
		}
	}
	if what.Values && m.critic != nil {
		if _, _, out.Values, err = run(m.critic, false, true); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Update implements policy.Learner. It ends all conversations: their caches hold
// what the old weights made.
func (m *Model) Update(ctx context.Context, b *policy.Batch, o policy.Objective, opt policy.Optimizer) (policy.Stats, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return policy.Stats{}, ErrClosed
	}
	if err := checkBatch(b, o, m.opts.Critic != NoCritic); err != nil {
		return policy.Stats{}, err
	}
	if o.KL != "" && !slices.Contains([]string{"k1", "abs", "k2", "k3"}, o.KL) {
		return policy.Stats{}, fmt.Errorf("vlm: update: KL is %q, must be one of k1, abs, k2, k3", o.KL)
	}
	m.dropSessions()
	stats := policy.Stats{Tokens: len(b.Tokens)}
	if o.CriticOnly && m.opts.Critic == SharedCritic {
		return stats, fmt.Errorf("vlm: update: %w: a shared critic cannot be trained alone", ErrOption)
	}
	if !o.CriticOnly {
		if err := m.updateActor(ctx, b, o, opt, &stats); err != nil {
			return stats, err
		}
	}
	if m.critic != nil && o.ValueCoef > 0 && !o.Imitate {
		if err := m.updateCritic(ctx, b, o, opt, &stats); err != nil {
			return stats, err
		}
	}
	return stats, nil
}

// marks returns the tokens at which any of the weights is not 0.
func marks(n int, weights ...[]float32) []bool {
	want := make([]bool, n)
	for _, w := range weights {
		for i, x := range w {
			want[i] = want[i] || x != 0
		}
	}
	return want
}

func (m *Model) updateActor(ctx context.Context, b *policy.Batch, o policy.Objective, opt policy.Optimizer, stats *policy.Stats) error {
	shared := m.opts.Critic == SharedCritic && o.ValueCoef > 0 && !o.Imitate
	want := marks(len(b.Tokens), b.Weight)
	if shared {
		want = marks(len(b.Tokens), b.Weight, b.ValueWeight)
	}
	loss := &model.Loss{Imitate: o.Imitate, Policy: !o.Imitate, Value: shared, KL: o.KL, Entropy: o.EntropyCoef != 0}
	h := m.net.head(true, shared)
	sums, norm, skipped, err := m.stepOf(ctx, m.actor, h, loss, b, want, o, opt, opt.Rate)
	if err != nil {
		return err
	}
	stats.GradNorm, stats.Skipped = norm, skipped
	policyStats(stats, sums, total(b.Weight))
	if shared {
		valueStats(stats, sums, total(b.ValueWeight))
	}
	return nil
}

func (m *Model) updateCritic(ctx context.Context, b *policy.Batch, o policy.Objective, opt policy.Optimizer, stats *policy.Stats) error {
	loss := &model.Loss{Value: true}
	h := m.critic.net.head(false, true)
	sums, norm, skipped, err := m.stepOf(ctx, m.critic, h, loss, b, marks(len(b.Tokens), b.ValueWeight), o, opt, opt.CriticRate)
	if err != nil {
		return err
	}
	stats.CriticNorm, stats.Skipped = norm, stats.Skipped || skipped
	valueStats(stats, sums, total(b.ValueWeight))
	return nil
}

func (m *Model) stepOf(ctx context.Context, l *learner, h *model.Head, loss *model.Loss, b *policy.Batch, want []bool,
	o policy.Objective, opt policy.Optimizer, rate float64) (sums []float64, norm float64, skipped bool, err error) {
	packs, err := m.packer(l.net).packs(&b.Rows, want)
	if err != nil {
		return nil, 0, false, err
	}
	if len(packs) == 0 {
		return make([]float64, model.Stats), 0, true, nil
	}
	g, sums, err := l.learn(ctx, packs, h, loss, gather(b), hyperParams(o), m.opts.HeadTokens)
	if err != nil {
		return nil, 0, false, err
	}
	norm, skipped, err = l.apply(g, opt, rate)
	return sums, norm, skipped, err
}

func total(weights []float32) float64 {
	var sum float64
	for _, w := range weights {
		sum += float64(w)
	}
	return sum
}

func share(part, whole float64) float64 {
	if whole == 0 {
		return 0
	}
	return part / whole
}

func policyStats(s *policy.Stats, sums []float64, weight float64) {
	s.PolicyLoss, s.Entropy, s.KL = sums[model.StatPolicy], share(sums[model.StatEntropy], weight), sums[model.StatKL]
	s.ApproxKL = share(sums[model.StatApproxKL], weight)
	s.ClipFrac, s.ClipFracLow = share(sums[model.StatClipped], weight), share(sums[model.StatClippedLow], weight)
	s.RatioMax = sums[model.StatRatioMax]
}

func valueStats(s *policy.Stats, sums []float64, weight float64) {
	s.ValueLoss, s.ValueClip = sums[model.StatValue], share(sums[model.StatValueClip], weight)
}
