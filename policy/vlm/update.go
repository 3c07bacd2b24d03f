package vlm

import (
	"context"
	"errors"
	"fmt"

	"vagen/policy"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/model"
)

func (m *Model) packer(n *net) *packer {
	k := &packer{cfg: n.spec, budget: m.opts.MicroTokens, rows: m.opts.MicroRows, picture: m.picture, leafCount: m.leaves}
	if m.critic != nil && n == m.critic.net {
		if m.opts.CriticMicroTokens > 0 {
			k.budget = m.opts.CriticMicroTokens
		}
		if m.opts.CriticMicroRows > 0 {
			k.rows = m.opts.CriticMicroRows
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
	if err := checkTemperature(temperature); err != nil {
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
	out, err := m.score(ctx, rows, want, what, temperature)
	return out, m.group.failed(err)
}

// score is Score on this node.
func (m *Model) score(ctx context.Context, rows *policy.Rows, want []bool, what policy.ScoreRequest, temperature float64) (*policy.Scores, error) {
	arrange := func(k *packer) ([][]*pack, error) { return k.leaves(rows, want) }
	if !m.tree {
		arrange = func(k *packer) ([][]*pack, error) {
			packs, err := k.packs(rows, want)
			return [][]*pack{packs}, err
		}
	}
	leaves, err := arrange(m.packer(m.net))
	if err != nil {
		return nil, err
	}
	out := &policy.Scores{}
	run := func(l *learner, tokens, value bool) (lp, ent, val []float32, err error) {
		h := l.net.head(tokens, value)
		s := newScored(h, len(rows.Tokens))
		if m.tree && leaves != nil {
			err = l.scoreLeaves(ctx, leaves, h, s, m.opts.HeadTokens, temperature)
		} else {
			err = l.replicas[0].score(ctx, flat(leaves), h, s, m.opts.HeadTokens, temperature)
		}
		if err != nil {
			return nil, nil, nil, err
		}
		if err = errors.Join(checkFinite("log-probs", s.logProb), checkFinite("entropies", s.entropy), checkFinite("values", s.value)); err != nil {
			return nil, nil, nil, fmt.Errorf("vlm: score: %w", err)
		}
		return s.logProb, s.entropy, s.value, nil
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
		err := m.ref.onDevices(false, func() error {
			out.Reference, _, _, err = run(m.ref, true, false)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if what.Values && m.critic != nil {
		err := m.critic.onDevices(false, func() error {
			_, _, out.Values, err = run(m.critic, false, true)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Update implements policy.Learner. It ends all conversations, because their caches were
// computed with the old weights. The policy is updated before a separate critic. Once it
// has been updated, the end of ctx no longer stops the critic: both are updated or
// neither, unless the device fails between the two.
func (m *Model) Update(ctx context.Context, b *policy.Batch, o policy.Objective, opt policy.Optimizer) (policy.Stats, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return policy.Stats{}, ErrClosed
	}
	if o.CriticOnly && m.critic == nil {
		return policy.Stats{}, fmt.Errorf("vlm: update: %w: CriticOnly needs a separate critic, but Critic is %q", ErrOption, m.opts.Critic)
	}
	if err := checkUpdate(b, &o, m.opts.Critic != NoCritic); err != nil {
		return policy.Stats{}, err
	}
	if err := checkOptimizer(opt); err != nil {
		return policy.Stats{}, err
	}
	if err := m.orderUpdate(ctx, b, o, opt); err != nil {
		return policy.Stats{}, err
	}
	stats, err := m.update(ctx, b, o, opt)
	return stats, m.group.failed(err)
}

// update is Update on this node.
func (m *Model) update(ctx context.Context, b *policy.Batch, o policy.Objective, opt policy.Optimizer) (policy.Stats, error) {
	m.dropSessions()
	m.pictures.markTraining()
	if _, held := m.dev.Live(); held >= largeModel {
		device.Trim() // memory of generation and scoring
	}
	m.logPlan(b)
	stats := policy.Stats{Tokens: len(b.Tokens)}
	if !o.CriticOnly {
		if err := m.updateActor(ctx, b, o, opt, &stats); err != nil {
			return stats, err
		}
	}
	if m.critic != nil && o.ValueCoef > 0 && !o.Imitate {
		if !o.CriticOnly {
			ctx = context.WithoutCancel(ctx)
		}
		if err := m.updateCritic(ctx, b, o, opt, &stats); err != nil {
			return stats, err
		}
	}
	return stats, nil
}

// largeModel is the model size in bytes from which fragmentation by other work is worth the
// time of returning memory to the system.
const largeModel = 128 << 20

// nonZero returns the tokens at which any of the weights is not 0.
func nonZero(n int, weights ...[]float32) []bool {
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
	want := nonZero(len(b.Tokens), b.Weight)
	if shared {
		want = nonZero(len(b.Tokens), b.Weight, b.ValueWeight)
	}
	s := m.policyStep(b, o, shared)
	if err := m.runStep(ctx, s, want, opt, opt.Rate); err != nil {
		return err
	}
	stats.GradNorm, stats.HasGradNorm, stats.Skipped, stats.Metrics = s.norm, true, s.skipped, s.metrics
	aux := total(b.Weight)
	if s.loss.Aux {
		aux = total(b.AuxWeight)
	}
	policyStats(stats, s.sums, total(b.Weight), aux)
	if shared {
		valueStats(stats, s.sums, total(b.ValueWeight))
	}
	return nil
}

func (m *Model) updateCritic(ctx context.Context, b *policy.Batch, o policy.Objective, opt policy.Optimizer, stats *policy.Stats) error {
	s := &step{learner: m.critic, head: m.critic.net.head(false, true), loss: &model.Loss{Value: true}, batch: b, objective: o}
	err := m.critic.onDevices(true, func() error {
		return m.runStep(ctx, s, nonZero(len(b.Tokens), b.ValueWeight), opt, opt.CriticRate)
	})
	if err != nil {
		return err
	}
	stats.CriticNorm, stats.Skipped = s.norm, stats.Skipped || s.skipped
	valueStats(stats, s.sums, total(b.ValueWeight))
	return nil
}

// step is an optimiser step of one set of weights.
type step struct {
	learner   *learner
	head      *model.Head
	loss      *model.Loss
	batch     *policy.Batch
	objective policy.Objective

	// results
	sums    []float64 // [model.Stats]
	metrics map[string]float64
	norm    float64
	skipped bool
}

// policyStep is the step of the policy, with a shared critic or without.
func (m *Model) policyStep(b *policy.Batch, o policy.Objective, value bool) *step {
	l := &model.Loss{Imitate: o.Imitate, Policy: !o.Imitate, Value: value, KL: o.KL, Entropy: o.EntropyCoef != 0}
	if !o.Imitate {
		l.PolicyLoss, _ = kernelOf(&o)
		l.Rollout, l.Aux = b.RolloutWeight != nil, b.AuxWeight != nil
	}
	return &step{learner: m.actor, head: m.net.head(true, value), loss: l, batch: b, objective: o}
}

// runStep computes the gradients of a step and applies the optimiser.
func (m *Model) runStep(ctx context.Context, s *step, want []bool, opt policy.Optimizer, rate float64) error {
	if m.tree {
		return m.runTreeStep(ctx, s, want, opt, rate)
	}
	g, err := m.gradients(ctx, s, want)
	if err != nil {
		return err
	}
	if g == nil {
		s.skipped = true
		return nil
	}
	s.norm, s.skipped, err = s.learner.apply(g, opt, rate)
	return err
}

// gradients returns the gradients of a step, nil if it has no tokens. The caller frees them.
func (m *Model) gradients(ctx context.Context, s *step, want []bool) (*gradients, error) {
	s.sums = make([]float64, model.Stats)
	packs, err := m.packer(s.learner.net).packs(&s.batch.Rows, want)
	if err != nil || len(packs) == 0 {
		return nil, err
	}
	numbers, loss, before := numbersOf(s.batch), s.loss, s.sums
	var first *trace
	if loss.Policy && loss.Kind.Joint() {
		joint, err := m.evalJoint(ctx, s, packs)
		if err != nil {
			return nil, err
		}
		numbers[model.Slope], before, s.metrics, first = joint.slopes, joint.sums, joint.metrics, joint.first
		loss = loss.AfterJoint()
	}
	g, sums, err := s.learner.learnFrom(ctx, first, packs, s.head, loss, numbers.columns, hyperParams(s.objective), m.opts.HeadTokens)
	if err != nil {
		return nil, err
	}
	addSums(sums, before)
	s.sums = sums
	return g, nil
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

func policyStats(s *policy.Stats, sums []float64, weight, aux float64) {
	s.PolicyLoss, s.KL = sums[model.StatPolicy], sums[model.StatKL]
	s.Entropy, s.HasEntropy = share(sums[model.StatEntropy], aux), true
	s.ApproxKL = share(sums[model.StatApproxKL], weight)
	s.ClipFrac, s.ClipFracLow = share(sums[model.StatClipped], weight), share(sums[model.StatClippedLow], weight)
	s.RatioMax = sums[model.StatRatioMax]
}

func valueStats(s *policy.Stats, sums []float64, weight float64) {
	s.ValueLoss, s.ValueClip = sums[model.StatValue], share(sums[model.StatValueClip], weight)
}
