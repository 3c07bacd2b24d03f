package train

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"vagen/advantage"
	"vagen/env"
	"vagen/policy"
	"vagen/reward"
	"vagen/rollout"
	"vagen/rollout/filter"
	"vagen/train/config"
	"vagen/train/track"
)

var (
	// ErrNoRows means that no episode of a batch can be learned from.
	ErrNoRows = errors.New("nothing to learn from")
	// ErrDiverged means that too many optimiser steps in a row were skipped.
	ErrDiverged = errors.New("training has diverged")
)

// Trainer trains a policy in an environment: it plays episodes, estimates
// advantages and takes optimiser steps, over and over.
//
// The policy, the environments and the sinks are the caller's, who closes them.
type Trainer struct {
	Config  config.Config
	Learner policy.Learner
	Envs    *env.Registry
	Sinks   []track.Sink
	// Save is called when a checkpoint is due, with the number of steps done.
	// nil saves nothing.
	Save func(ctx context.Context, step int) error
	// Begin takes Save's place when it is set: it returns as soon as the learner may
	// change, with what is still being written, as Checkpoints.Begin does. There is
	// never more than one at work; Run waits for the last one before it returns.
	Begin func(ctx context.Context, step int) (*Pending, error)
	// Rollback puts the learner back to the newest checkpoint and returns its state,
	// for stability.spike.action rollback; nil makes a spike an error instead.
	Rollback func(ctx context.Context) (State, error)
	// KeepBest is called, with trainer.save_best_actor, when a validation was better
	// than all before it. nil keeps nothing.
	KeepBest func(ctx context.Context, b Best) error
	// Played is called with what was played for a step, usable or not, before it is
	// learned from. nil is allowed.
	Played func(step int, ts []*rollout.Trajectory) error
	// Watch is called after every validation with what was played. nil is allowed.
	Watch func(step int, ts []*rollout.Trajectory) error
	// Log receives warnings; nil discards them.
	Log *slog.Logger
	// Registries are where the configuration's names are looked up. The zero value
	// knows what is built in.
	Registries config.Registries
	// Levels are the start states; nil opens those of the configuration.
	Levels *Levels

	ready      bool              // prepare ended well
	names      config.Registries // with nothing absent
	estimator  advantage.Estimator
	spec       advantage.Spec
	filter     filter.Filter // nil for none
	metrics    []string
	harness    rollout.Harness
	kl         reward.Controller
	normalizer *reward.Normalizer // nil for none
	result     advantage.Result
	skipped    int         // optimiser steps skipped in a row
	done       int         // training steps
	from       State       // where Run begins
	prefetched *Prefetched // episodes of the coming step; nil when there are none

	stability StabilityState  // seen so far
	latest    track.Metrics   // of the last step
	missed    map[string]bool // metrics that were looked for in vain

	best   *Best         // validation so far
	left   *State        // state right after the last finished step; nil before the first one
	now    *State        // the same, with what followed the step
	saved  int           // step of the newest checkpoint
	saving *Pending      // a checkpoint that is being written, and
	behind track.Event   // what is told of it, and
	held   []track.Event // what is told after it
	mid    bool          // the learner is between two steps' weights
}

// prepared makes sure that prepare was called, and ended well.
func (t *Trainer) prepared(ctx context.Context) error {
	if t.ready {
		return nil
	}
	return t.prepare(ctx)
}

// prepare checks the configuration and makes what the loop needs.
func (t *Trainer) prepare(ctx context.Context) error {
	t.ready = false
	if err := t.outline(ctx); err != nil {
		return err
	}
	if t.Learner == nil {
		return fmt.Errorf("train: %w: Trainer needs a Learner", config.ErrConfig)
	}
	if _, ok := t.Learner.(policy.Aligner); !ok && t.Config.Placement() == reward.PerSpan {
		return fmt.Errorf("train: %w: reward.credit_site is section_end, but a %T does not tell where sections end (policy.Aligner)", config.ErrConfig, t.Learner)
	}
	if _, ok := t.Learner.(policy.PolicySnapshotter); !ok && t.Config.Run.Async {
		return fmt.Errorf("train: %w", errNoLender(t.Learner))
	}
	c := &t.Config
	c.LogNotes(t.Log)
	k := &c.Algorithm.KLCtrl
	var errs [6]error
	t.estimator, errs[0] = t.names.Estimators.New(c.Algorithm.Estimator, c.Params())
	t.spec, errs[1] = t.names.Estimators.Describe(c.Algorithm.Estimator)
	t.kl, errs[2] = reward.NewController(k.Type, k.Coef, k.Target, k.Horizon)
	t.filter, errs[3] = t.names.NewFilter(c)
	t.metrics, errs[4] = t.names.MetricNames(c)
	errs[5] = t.plan()
	if err := errors.Join(errs[:]...); err != nil {
		return fmt.Errorf("train: %w", err)
	}
	t.normalizer = c.Reward.Normalizer()
	if err := t.dropLong(ctx); err != nil {
		return err
	}
	if err := t.resume(); err != nil {
		return err
	}
	t.ready = true
	return nil
}

// outline is the part of prepare that takes no learner: it checks the
// configuration and finds out what is played, and how it is laid out.
func (t *Trainer) outline(ctx context.Context) error {
	t.names = t.Registries.WithBuiltins()
	if err := t.names.Validate(&t.Config); err != nil {
		return fmt.Errorf("train: %w", err)
	}
	if t.Envs == nil {
		return fmt.Errorf("train: %w: Trainer needs Envs", config.ErrConfig)
	}
	if t.Log == nil {
		t.Log = slog.New(slog.DiscardHandler)
	}
	if err := t.openLevels(ctx); err != nil {
		return err
	}
	var err error
	if t.harness, err = t.names.NewHarness(&t.Config); err != nil {
		return fmt.Errorf("train: %w", err)
	}
	return nil
}

// step is one training step.
func (t *Trainer) step(ctx context.Context, step int) error {
	watch := newClock()
	m := track.Metrics{}
	got, took, err := t.episodes(ctx, step)
	if err != nil {
		return err
	}
	maps.Copy(m, got.Metrics)
	b, err := t.layOut(got)
	if err != nil {
		return err
	}
	next, err := t.begin(ctx, step+1)
	if err != nil {
		return err
	}
	defer next.stop()
	watch.parts["rollout"], watch.parts["env"] = took.Generate, took.Env
	watch.last = time.Now()
	if err := t.score(ctx, b); err != nil {
		return err
	}
	if err := b.correct(&t.Config.Algorithm.Correction, m); err != nil {
		return err
	}
	watch.lap("logprobs")
	if err := t.estimate(b, m); err != nil {
		return err
	}
	watch.lap("advantages")
	t.measure(b, m)
	if err := t.drop(b, m); err != nil {
		return err
	}
	watch.last = time.Now()
	t.mid = true
	if err := t.learn(t.updating(ctx), b, step, m); err != nil {
		return err
	}
	watch.lap("update")
	if t.prefetched, err = next.wait(); err != nil {
		return err
	}
	watch.lap("rollout")
	t.mid = false
	watch.write(m)
	t.weigh(m)
	t.dashboard(b, step, m)
	if t.stability.Rollbacks > 0 {
		m["train/rollbacks"] = float64(t.stability.Rollbacks)
	}
	t.alarm(step, m)
	t.latest = m
	return t.emit(track.Event{Kind: track.KindStep, Step: step, Total: t.Config.Trainer.Steps, Metrics: m})
}

// layOut tells of a step's episodes and makes rows of them.
func (t *Trainer) layOut(got *Prefetched) (*batch, error) {
	if t.Played != nil {
		if err := t.Played(got.Step, got.Episodes); err != nil {
			return nil, err
		}
	}
	ts := got.Episodes
	if t.spec.Baselines {
		ts = withBaseline(ts, got.Baselines)
	}
	b, err := newBatch(ts, &t.Config, t.spec)
	if err != nil {
		return nil, err
	}
	b.identify(t.spec, got.Baselines)
	return b, nil
}

// score asks the learner for old and reference log-probs and values.
func (t *Trainer) score(ctx context.Context, b *batch) error {
	c := &t.Config
	bypass := c.Algorithm.Correction.Bypass
	what := policy.ScoreRequest{
		LogProbs: !bypass, Values: c.Critic.Kind != "none",
		Reference: c.Agent.Actor.UseKLLoss || c.Algorithm.KLInReward,
	}
	if bypass {
		b.takeSampled()
	}
	if what == (policy.ScoreRequest{}) {
		return nil
	}
	s, err := t.Learner.Score(ctx, &b.rows, b.want, what, c.Agent.Rollout.Temperature)
	if err != nil {
		return err
	}
	return b.takeScores(s, what)
}

// estimate shapes rewards and computes advantages.
func (t *Trainer) estimate(b *batch, m track.Metrics) error {
	c := &t.Config
	if err := t.shape(b, m); err != nil {
		return err
	}
	if c.Algorithm.KLInReward {
		kind, _ := reward.ParseKL(c.Algorithm.KLPenalty)
		coefficient := t.kl.Coefficient() * factor(&c.Stability.KL, t.done+1, c.Trainer.Steps)
		kl, err := reward.ShapeKL(b.adv.Rewards, b.adv.Rewards, b.old, b.reference, b.charged(c.Algorithm.KLMask), b.rows.Offsets, kind, coefficient)
		if err != nil {
			return fmt.Errorf("train: %w", err)
		}
		m["actor/reward_kl_penalty"], m["actor/reward_kl_penalty_coeff"] = kl, coefficient
		if err := t.kl.Update(kl, b.rows.Len()); err != nil {
			return fmt.Errorf("train: %w", err)
		}
	}
	if err := t.estimator.Estimate(&t.result, &b.adv); err != nil {
		return fmt.Errorf("train: %w", err)
	}
	b.result = t.result
	if b.result.ValueMask != nil {
		for i, on := range b.result.ValueMask {
			b.value[i] = b.value[i] && on
		}
	}
	return nil
}
