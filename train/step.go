package train

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"vagen/advantage"
	"vagen/policy"
	"vagen/policy/loss"
	"vagen/reward"
	"vagen/rollout/store"
	"vagen/train/config"
	"vagen/train/track"
)

// ErrUnfinishedUpdate means that an update began and did not finish, so that the learner's weights
// belong to no step. Restore the weights and the State of a checkpoint before training continues.
var ErrUnfinishedUpdate = errors.New("an update did not finish, so that the weights belong to no step")

// Score computes what Step would learn from, without an update: log-probs, values, rewards and
// advantages of the tokens, one entry for each row. It changes nothing. Episodes of any step can
// be scored; the error wraps ErrNoRows if there is nothing to learn from.
func (t *Trainer) Score(ctx context.Context, c *Collected) ([]store.Scores, error) {
	if err := t.prepared(ctx); err != nil {
		return nil, err
	}
	if t.supervises() {
		return nil, errNoEpisodes
	}
	if err := t.progress.checkWeights(); err != nil {
		return nil, err
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	b, _, err := t.assess(ctx, c, true, track.Metrics{}, newStopwatch())
	if err != nil {
		return nil, err
	}
	return b.scores(), nil
}

// Step does the training step after the last finished one with its episodes, and returns its
// metrics: it scores them, estimates advantages and updates the learner. State is then the state
// after this step. Validations, checkpoints, events, spikes and the actions of alarms are Run's.
//
// After an error before the update nothing has changed, and Step can be called again with the same
// episodes; the Observer then receives them again. After an error during the update Collect, Score,
// Step and Run return ErrUnfinishedUpdate until Restore is called. If ctx ends during the update,
// this is such an error, unless trainer.save_on_interrupt lets the update finish.
func (t *Trainer) Step(ctx context.Context, c *Collected) (track.Metrics, error) {
	if err := t.prepared(ctx); err != nil {
		return nil, err
	}
	p := &t.progress
	if err := p.checkWeights(); err != nil {
		return nil, err
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	if c.Step != p.Step+1 {
		return nil, fmt.Errorf("train: step: the episodes are of step %d, must be of step %d", c.Step, p.Step+1)
	}
	step := t.step
	if t.supervises() {
		step = t.supervisedStep
	}
	m, err := step(ctx, c)
	if err != nil {
		return nil, err
	}
	p.Step = c.Step
	t.announce()
	return m, p.finish(&t.stability.state)
}

// step is Step with episodes.
func (t *Trainer) step(ctx context.Context, c *Collected) (track.Metrics, error) {
	clock, m := newStopwatch(), maps.Clone(c.Metrics)
	if m == nil {
		m = track.Metrics{}
	}
	clock.start = clock.start.Add(-c.elapsed)
	clock.parts["rollout"], clock.parts["env"] = c.took.Generate, c.took.Env
	if t.Observer != nil {
		if err := t.Observer.Played(c.Step, c.Episodes); err != nil {
			return nil, err
		}
	}

	// Log-probs, values, rewards and advantages; then the group filter.
	b, normalizer, err := t.assess(ctx, c, t.recordsScores(), m, clock)
	if err != nil {
		return nil, err
	}
	if err := t.showScores(b, c.Step); err != nil {
		return nil, err
	}
	t.methods.measure(b, m, t.Log)
	rejected := b.rejected(&t.Config.Data.Pools, m)
	if err := t.methods.applyFilter(b, t.Config.Filter.Name, m, t.Log); err != nil {
		return nil, err
	}
	b.leaveOut(rejected, t.Log)
	p := &t.progress
	if err := p.adapt(b, &t.Config, m); err != nil {
		return nil, err
	}
	p.normalizer, p.Baselines = normalizer, b.baselines
	clock.last = time.Now()

	// The update. The weights belong to no finished step until the next episodes are collected.
	p.begun, p.updating = true, true
	p.observe(c.solved)
	if err := t.learn(t.updateContext(ctx), b, c.Step, m); err != nil {
		return nil, err
	}
	clock.lap("update")
	if _, err = p.next(ctx, c.Step+1); err != nil {
		return nil, err
	}
	clock.lap("rollout")
	p.updating = false

	// The metrics that describe the whole step.
	clock.write(m)
	measureMachine(t.Learner, t.Dealer, m)
	b.addDashboardNames(&t.Config, t.Levels.epochOf(c.Step), c.Step, m)
	if n := t.stability.state.Rollbacks; n > 0 {
		m["train/rollbacks"] = float64(n)
	}
	t.stability.state.Trends.addTrends(m)
	t.stability.updateAlarms(c.Step, m)
	return m, nil
}

// assess converts a step's episodes to rows, scores them before the update, and estimates
// advantages. It returns the statistics of rewards after them, nil for none.
func (t *Trainer) assess(
	ctx context.Context, c *Collected, entropy bool, m track.Metrics, clock *stopwatch,
) (*batch, *reward.Normalizer, error) {
	b, err := t.layOut(c)
	if err != nil {
		return nil, nil, err
	}
	clock.last = time.Now()
	choice, err := t.compared()
	if err != nil {
		return nil, nil, err
	}
	request := policy.ScoreRequest{Entropy: entropy, SumPiSquared: t.methods.spec.Squares, Choice: choice}
	if err := b.score(ctx, t.Learner, &t.Config, request); err != nil {
		return nil, nil, err
	}
	if t.Config.TeachesItself() {
		if err := t.teachItself(ctx, b, request.Choice, m); err != nil {
			return nil, nil, err
		}
	}
	b.measureMismatch(t.Learner, &t.Config, m)
	if err := b.correct(&t.Config.Algorithm.Correction, m); err != nil {
		return nil, nil, err
	}
	clock.lap("logprobs")
	normalizer := t.progress.normalizer.Clone()
	if err := t.estimate(b, normalizer, c.Step, m); err != nil {
		return nil, nil, err
	}
	clock.lap("advantages")
	return b, normalizer, nil
}

// layOut converts a step's episodes to rows.
func (t *Trainer) layOut(c *Collected) (*batch, error) {
	ts, spec := c.Episodes, t.methods.spec
	if spec.Baselines {
		ts = withBaseline(ts, c.Baselines)
	}
	b, err := newBatch(ts, &t.Config, spec)
	if err != nil {
		return nil, err
	}
	b.addComparisons(spec, &t.Config.Algorithm, c.Baselines)
	return b, nil
}

// score computes what is requested with the learner, and old and reference log-probs and values where the
// configuration needs them.
func (b *batch) score(
	ctx context.Context, learner policy.Learner, c *config.Config, request policy.ScoreRequest,
) error {
	bypass := c.Algorithm.Correction.Bypass
	request.LogProbs, request.Values, request.Reference = !bypass, c.Critic.Kind != "none", c.UsesReference()
	if c.TeachesItself() { // scores later
		request.Reference, request.Choice = false, loss.Choice{}
	}
	request.Entropy = request.Entropy && !bypass // comes with the log-probs
	if bypass {
		b.useSampledLogProbs()
	}
	if request == (policy.ScoreRequest{}) {
		return nil
	}
	s, err := learner.Score(ctx, &b.Rows, b.want, request, c.Agent.Rollout.Temperature)
	if err != nil {
		return err
	}
	return b.setScores(s, request)
}

// estimate shapes rewards and computes advantages.
func (t *Trainer) estimate(b *batch, normalizer *reward.Normalizer, step int, m track.Metrics) error {
	if err := shapeRewards(b, &t.Config, normalizer, m); err != nil {
		return err
	}
	if t.Config.Algorithm.KLInReward {
		if err := t.progress.chargeKL(b, &t.Config, step, m); err != nil {
			return fmt.Errorf("train: %w", err)
		}
	}
	spec := &t.methods.spec
	if spec.Squares {
		b.Steps.LogProbs, b.Steps.SumPiSquared, b.Steps.Weights = b.old, b.squares, b.rollout
	}
	if spec.Running {
		b.takeBaselines(t.progress.Baselines)
	}
	if err := t.methods.advantages(b, &t.Config); err != nil {
		return err
	}
	for i, x := range b.result.Running {
		b.baselines[b.agents[i]] = x
	}
	if err := b.distill(&t.Config.Algorithm.Distill, m); err != nil {
		return err
	}
	if n := b.result.Unread; n > 0 && !t.methods.unread {
		t.methods.unread = true
		t.Log.Warn("rewards without effect: the estimator does not read them where they are", "rewards", n,
			"estimator", t.methods.spec.Name, "reads", t.methods.spec.Rewards)
	}
	if parts := b.unpaid(t.Config.Algorithm.RewardKeys); len(parts) > 0 && !t.methods.unpaid {
		t.methods.unpaid = true
		t.Log.Warn("parts of the reward without effect: algorithm.gdpo_reward_keys has them, no episode of the step got them",
			"step", step, "parts", parts)
	}
	if b.result.ValueMask != nil {
		for i, on := range b.result.ValueMask {
			b.Value[i] = b.Value[i] && on
		}
	}
	return nil
}

// advantages estimates advantages. Where a teacher alone is learned from, and the estimator has no critic, they are 0.
func (k *methods) advantages(b *batch, c *config.Config) error {
	if k.spec.Critic && c.Critic.Kind == "none" {
		k.result.Resize(b.Steps.Tokens())
		clear(k.result.Advantages)
		clear(k.result.Returns)
	} else if err := k.estimator.Estimate(&k.result, &b.Steps); err != nil {
		return fmt.Errorf("train: %w", err)
	}
	b.result = k.result
	return nil
}

// distill adds what a teacher says to the advantages.
func (b *batch) distill(d *config.DistillConfig, m track.Metrics) (err error) {
	if d.Coef == 0 {
		return nil
	}
	if !d.Task {
		clear(b.result.Advantages)
	}
	m["actor/teacher_kl"], err = advantage.Distill(b.result.Advantages, b.old, b.reference, b.charged(config.KLResponse),
		b.Rows.Offsets, d.Coef, d.Discount)
	if err != nil {
		return fmt.Errorf("train: %w", err)
	}
	return nil
}

// chargeKL subtracts the KL to the reference policy from rewards.
func (p *progress) chargeKL(b *batch, c *config.Config, step int, m track.Metrics) error {
	coefficient := p.kl.Coefficient() * factor(&c.Stability.KL, step, c.Trainer.Steps)
	r := b.Steps.Rewards
	kl, err := reward.ShapeKL(r, r, b.old, b.reference, b.charged(c.Algorithm.KLMask), b.Rows.Offsets,
		loss.KL(c.Algorithm.KLPenalty), coefficient)
	if err != nil {
		return err
	}
	m["actor/reward_kl_penalty"], m["actor/reward_kl_penalty_coeff"] = kl, coefficient
	return nil
}

// adapt adapts the coefficient of the KL in the reward to the measured KL.
func (p *progress) adapt(b *batch, c *config.Config, m track.Metrics) error {
	if !c.Algorithm.KLInReward {
		return nil
	}
	if err := p.kl.Update(m["actor/reward_kl_penalty"], b.Rows.Len()); err != nil {
		return fmt.Errorf("train: %w", err)
	}
	return nil
}
