package train

import (
	"context"
	"fmt"
	"maps"
	"time"

	"vagen/policy"
	"vagen/reward"
	"vagen/rollout"
	"vagen/train/config"
	"vagen/train/track"
)

// step does one training step: it collects episodes, scores them, estimates advantages and
// updates the learner. It returns the step's metrics.
func (t *Trainer) step(ctx context.Context, step int) (track.Metrics, error) {
	if t.supervises() {
		return t.supervisedStep(ctx, step)
	}
	clock, m := newClock(), track.Metrics{}

	// The episodes of this step. With run.async collecting those of later ones starts here.
	episodes, took, err := t.episodes(ctx, step)
	if err != nil {
		return nil, err
	}
	maps.Copy(m, episodes.Metrics)
	if t.Config.Run.Async {
		episodes.measureStaleness(m, t.Config.Run.Partial)
	}
	b, err := t.layOut(episodes)
	if err != nil {
		return nil, err
	}
	if err := t.startPrefetches(ctx, step); err != nil {
		return nil, err
	}
	clock.parts["rollout"], clock.parts["env"] = took.Generate, took.Env
	clock.last = time.Now()

	// Log-probs and values before the update, and importance weights.
	if err := b.score(ctx, t.Learner, &t.Config, t.recordsScores()); err != nil {
		return nil, err
	}
	b.measureMismatch(t.Learner, &t.Config, m)
	if err := b.correct(&t.Config.Algorithm.Correction, m); err != nil {
		return nil, err
	}
	clock.lap("logprobs")

	// Rewards, KL and advantages; then the group filter.
	if err := t.estimate(b, m); err != nil {
		return nil, err
	}
	clock.lap("advantages")
	if err := t.showScores(b, step); err != nil {
		return nil, err
	}
	t.methods.measure(b, t.Config.PerTurn(), m, t.Log)
	if err := t.methods.applyFilter(b, t.Config.Filter.Name, m, t.Log); err != nil {
		return nil, err
	}
	clock.last = time.Now()

	// The update. The weights belong to no finished step until the next episodes are collected.
	t.progress.updating = true
	if err := t.learn(t.updateContext(ctx), b, step, m); err != nil {
		return nil, err
	}
	clock.lap("update")
	if _, err = t.progress.next(step + 1); err != nil {
		return nil, err
	}
	clock.lap("rollout")
	t.progress.updating = false

	// The metrics that describe the whole step.
	clock.write(m)
	measureMachine(t.Learner, t.Dealer, m)
	b.addDashboardNames(&t.Config, t.Levels.epochOf(step), step, m)
	if n := t.stability.state.Rollbacks; n > 0 {
		m["train/rollbacks"] = float64(n)
	}
	t.stability.state.Trends.addTrends(m)
	t.stability.updateAlarms(step, m)
	return m, nil
}

// episodes returns a step's episodes: recorded ones, prefetched ones, or new ones.
func (t *Trainer) episodes(ctx context.Context, step int) (*Prefetched, rollout.Timing, error) {
	p := &t.progress
	if t.Recorded != nil {
		ts, m, err := t.Recorded(step)
		if err == nil {
			describe(m, "train/", ts)
			describeResponses(m, ts)
		}
		return &Prefetched{Step: step, Policy: p.done, Metrics: m, Episodes: ts}, rollout.Timing{}, err
	}
	e, err := p.next(step)
	if err != nil {
		return nil, rollout.Timing{}, err
	}
	if e != nil {
		p.ahead = p.ahead[1:]
		return e, rollout.Timing{}, nil
	}
	e, took, err := t.collector.collect(ctx, t.Learner, step, t.stability.seed())
	if err != nil {
		return nil, took, err
	}
	e.Policy = p.done
	return e, took, nil
}

// layOut passes a step's episodes to the observer and converts them to rows.
func (t *Trainer) layOut(episodes *Prefetched) (*batch, error) {
	if t.Observer != nil {
		if err := t.Observer.Played(episodes.Step, episodes.Episodes); err != nil {
			return nil, err
		}
	}
	ts, spec := episodes.Episodes, t.methods.spec
	if spec.Baselines {
		ts = withBaseline(ts, episodes.Baselines)
	}
	b, err := newBatch(ts, &t.Config, spec)
	if err != nil {
		return nil, err
	}
	b.addComparisons(spec, episodes.Baselines)
	return b, nil
}

// score computes old and reference log-probs and values with the learner, and the entropy
// where scores are recorded.
func (b *batch) score(ctx context.Context, learner policy.Learner, c *config.Config, recorded bool) error {
	bypass := c.Algorithm.Correction.Bypass
	request := policy.ScoreRequest{
		LogProbs: !bypass, Values: c.Critic.Kind != "none",
		Reference: c.Agent.Actor.UseKLLoss || c.Algorithm.KLInReward,
		Entropy:   !bypass && recorded, // comes with the log-probs
	}
	if bypass {
		b.useSampledLogProbs()
	}
	if request == (policy.ScoreRequest{}) {
		return nil
	}
	s, err := learner.Score(ctx, &b.rows, b.want, request, c.Agent.Rollout.Temperature)
	if err != nil {
		return err
	}
	return b.setScores(s, request)
}

// estimate shapes rewards and computes advantages.
func (t *Trainer) estimate(b *batch, m track.Metrics) error {
	if err := shapeRewards(b, &t.Config, t.progress.normalizer, m); err != nil {
		return err
	}
	if t.Config.Algorithm.KLInReward {
		if err := t.progress.chargeKL(b, &t.Config, m); err != nil {
			return fmt.Errorf("train: %w", err)
		}
	}
	if err := t.methods.estimator.Estimate(&t.methods.result, &b.adv); err != nil {
		return fmt.Errorf("train: %w", err)
	}
	b.result = t.methods.result
	if n := b.result.Unread; n > 0 && !t.methods.unread {
		t.methods.unread = true
		t.Log.Warn("rewards without effect: the estimator does not read them where they are", "rewards", n,
			"estimator", t.methods.spec.Name, "reads", t.methods.spec.Rewards)
	}
	if b.result.ValueMask != nil {
		for i, on := range b.result.ValueMask {
			b.value[i] = b.value[i] && on
		}
	}
	return nil
}

// chargeKL subtracts the KL to the reference policy from rewards, and adapts its
// coefficient.
func (p *progress) chargeKL(b *batch, c *config.Config, m track.Metrics) error {
	kind, _ := reward.ParseKL(c.Algorithm.KLPenalty)
	coefficient := p.kl.Coefficient() * factor(&c.Stability.KL, p.done+1, c.Trainer.Steps)
	kl, err := reward.ShapeKL(b.adv.Rewards, b.adv.Rewards, b.old, b.reference, b.charged(c.Algorithm.KLMask), b.rows.Offsets, kind, coefficient)
	if err != nil {
		return err
	}
	m["actor/reward_kl_penalty"], m["actor/reward_kl_penalty_coeff"] = kl, coefficient
	return p.kl.Update(kl, b.rows.Len())
}
