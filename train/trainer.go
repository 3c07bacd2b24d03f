package train

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"vagen/advantage"
	"vagen/env"
	"vagen/internal/silent"
	"vagen/policy"
	"vagen/reward"
	"vagen/rollout"
	"vagen/rollout/filter"
	"vagen/rollout/store"
	"vagen/train/config"
	"vagen/train/sft"
	"vagen/train/track"
)

var (
	// ErrNoRows means that no episode of a batch can be learned from.
	ErrNoRows = errors.New("nothing to learn from")
	// ErrDiverged means that too many optimiser steps in a row were skipped, or that a
	// metric watched by stability.spike had a spike.
	ErrDiverged = errors.New("training has diverged")
)

// Trainer trains a policy in an environment: in each step it plays episodes, estimates
// advantages and does optimiser steps. With trainer.stage sft it trains the policy on examples
// instead, one optimiser step in each step.
//
// Run does all steps, with validations and checkpoints between them. A program with a loop of its
// own calls Collect and Step for each step, and Validate, State and Score where it needs them; Run
// continues after such steps. Methods must not be called at the same time. The first call checks
// the fields, which must not change afterwards until Run or Restore is called.
//
// The caller owns the learner, the environments and the sinks, and closes them.
type Trainer struct {
	Config  config.Config
	Learner policy.Learner
	Envs    *env.Registry
	// Sinks get the events of the run, in order.
	Sinks []track.Sink
	// Checkpointer saves the run; nil saves nothing.
	Checkpointer Checkpointer
	// Observer receives the episodes that were played; may be nil.
	Observer Observer
	// Dealer plays the episodes of training and validation in other processes, with the policy
	// of the Learner; nil plays them here. Its metrics are among those of steps if it is a
	// policy.MetricsReporter.
	Dealer rollout.Dealer
	// Log receives warnings; nil discards them.
	Log *slog.Logger
	// Registries resolve the configuration's names. The zero value contains the built-in
	// entries.
	Registries config.Registries
	// Levels are the start states; nil opens those of the configuration.
	Levels *Levels
	// Examples are those of the supervised stage (trainer.stage sft), for a configuration
	// returned by config.Config.Supervised; nil opens those of the configuration.
	Examples *sft.Data
	// Handled lists the keys of OuterKeys that the caller honours, such as
	// "actor_rollout_ref.model.path". An entry that ends in a dot, such as "model.", means
	// all keys with this prefix. Other keys of OuterKeys are refused unless they have their
	// defaults. Package train/run implements all of them.
	Handled []string

	ready     bool // prepare succeeded
	methods   methods
	collector collector
	stability stabilityMonitor
	publisher publisher
	progress  progress
}

// Observer receives the episodes of a run. An error ends the run.
type Observer interface {
	// Played gets all episodes of a step, usable or not, before the update.
	Played(step int, ts []*rollout.Trajectory) error
	// Estimated gets what the learner and the estimator computed for the rows of a step,
	// before a filter and the update. It is called only with trainer.rollout_data_scores.
	// The observer may keep the scores.
	Estimated(step int, scores []store.Scores) error
	// Validated gets the episodes of a validation after its event.
	Validated(step int, ts []*rollout.Trajectory) error
}

// methods holds the implementations that the configuration names.
type methods struct {
	names     config.Registries // all non-nil
	estimator advantage.Estimator
	spec      advantage.Spec
	filter    filter.Filter // nil for none
	metrics   []string
	harness   rollout.Harness
	result    advantage.Result // reused by the estimator
	unread    bool             // rewards that the estimator does not read were reported
	unpaid    bool             // parts of the reward that no episode got were reported
}

// Check reports the errors with which Run would end before its first step: settings that
// contradict each other or have no effect, and parts that the learner, the checkpointer or the
// start states lack. Then it creates the environment of the first episode and asks the learner
// for the beginning of a response, unless the episodes are played by a Dealer. That this episode is
// too long is only a warning. It trains nothing.
func (t *Trainer) Check(ctx context.Context) error {
	if err := t.prepare(ctx, true); err != nil || t.supervises() || t.Dealer != nil {
		return err
	}
	s := sampling(&t.Config)
	s.MaxTokens = min(s.MaxTokens, checkedTokens)
	p := t.collector.player(t.Learner, s)
	switch err := p.Try(ctx, t.collector.episode(1, 0, 0), t.Config.Run.Seed); {
	case errors.Is(err, rollout.ErrOpening), errors.Is(err, rollout.ErrObservation), errors.Is(err, policy.ErrNoRoom):
		t.Log.Warn("the first episode does not fit its token limits", "err", err) // others may
		return nil
	case err != nil:
		return fmt.Errorf("train: the first episode: %w", err)
	}
	return nil
}

// checkedTokens limits the response that Check asks for, which a large model writes slowly.
const checkedTokens = 16

// prepared calls prepare unless it has succeeded before.
func (t *Trainer) prepared(ctx context.Context) error {
	if t.ready {
		return nil
	}
	return t.prepare(ctx, false)
}

// prepare checks the configuration and builds the parts of the loop. runs means for Run.
func (t *Trainer) prepare(ctx context.Context, runs bool) error {
	t.ready = false
	switch t.Config.Trainer.Stage {
	case config.StageSFT:
		return t.prepareSupervised(ctx, runs)
	case config.StageSFTThen:
		return fmt.Errorf("train: %w: trainer.stage is sft+rl, but a Trainer does one stage, rl or sft: use train/run.Open",
			config.ErrConfig)
	}
	if err := t.prepareEpisodes(ctx); err != nil {
		return err
	}
	if err := t.checkParts(runs); err != nil {
		return fmt.Errorf("train: %w", err)
	}
	c, k := &t.Config, &t.methods
	c.LogNotes(t.Log)
	ctrl := &c.Algorithm.KLCtrl
	var errs [6]error
	k.estimator, errs[0] = k.names.Estimators.New(c.Algorithm.Estimator, c.Algorithm.Params)
	k.spec, errs[1] = k.names.Estimators.Describe(c.Algorithm.Estimator)
	kl, err := reward.NewController(ctrl.Type, ctrl.Coef, ctrl.Target, ctrl.Horizon)
	errs[2] = err
	k.filter, errs[3] = k.names.NewFilter(c)
	k.metrics, errs[4] = k.names.MetricNames(c)
	errs[5] = checkBudget(c, k.harness, t.Learner, t.Log)
	if err := errors.Join(errs[:]...); err != nil {
		return fmt.Errorf("train: %w", err)
	}
	if !t.progress.begun {
		t.progress.kl, t.progress.normalizer = kl, c.Reward.Normalizer()
	}
	t.collector.baselines = k.spec.Baselines
	if c.Placement() == reward.PerSpan {
		t.collector.aligner, _ = policy.As[policy.Aligner](t.Learner)
	}
	if err := t.collector.dropOverlong(ctx, t.Learner); err != nil {
		return err
	}
	return t.begin()
}

// begin is the end of prepare: it sets the loop to the restored state, unless steps were done
// since.
func (t *Trainer) begin() error {
	t.stability.config, t.stability.log, t.stability.missing = &t.Config, t.Log, nil
	t.publisher = publisher{sinks: t.Sinks, checkpointer: t.Checkpointer, log: t.Log, saved: t.publisher.saved}
	if !t.progress.begun {
		if err := t.resume(); err != nil {
			return err
		}
	}
	t.ready = true
	return nil
}

// prepareEpisodes is the part of prepare that needs no learner: it checks the configuration,
// and resolves levels and harness.
func (t *Trainer) prepareEpisodes(ctx context.Context) error {
	t.methods.names = t.Registries.WithBuiltins()
	if err := t.methods.names.Validate(&t.Config); err != nil {
		return fmt.Errorf("train: %w", err)
	}
	if t.Envs == nil {
		return fmt.Errorf("train: %w: Trainer needs Envs", config.ErrConfig)
	}
	t.Log = silent.Log(t.Log)
	if err := t.openLevels(ctx); err != nil {
		return err
	}
	harness, err := t.methods.names.NewHarness(&t.Config)
	if err != nil {
		return fmt.Errorf("train: %w", err)
	}
	t.methods.harness = harness
	t.collector = collector{config: &t.Config, envs: t.Envs, levels: t.Levels, harness: harness, dealer: t.Dealer,
		log: t.Log}
	return nil
}

// checkParts checks that learner and checkpointer implement what the configuration requires,
// and that every setting has an effect. Only Run rolls back.
func (t *Trainer) checkParts(runs bool) error {
	c := &t.Config
	if t.Learner == nil {
		return fmt.Errorf("%w: Trainer needs a Learner", config.ErrConfig)
	}
	if _, ok := policy.As[policy.Aligner](t.Learner); !ok && !t.supervises() && c.Placement() == reward.PerSpan {
		return fmt.Errorf("%w: reward.credit_site is section_end, but the learner (%T) does not implement policy.Aligner",
			config.ErrConfig, t.Learner)
	}
	if err := errors.Join(t.checkSelfDistillation(), t.checkCompared()); err != nil {
		return err
	}
	if _, ok := policy.As[policy.PolicySnapshotter](t.Learner); !ok && !t.supervises() && c.Run.Async {
		return errNoPolicySnapshots(t.Learner)
	}
	if _, ok := t.Checkpointer.(Rollbacker); runs && !ok && c.Stability.Spike.Metric != "" &&
		c.Stability.Spike.Action == config.ActionRollback {
		return fmt.Errorf("%w: stability.spike.action is rollback, but the Checkpointer (%T) does not implement train.Rollbacker", config.ErrConfig, t.Checkpointer)
	}
	return t.checkKeys()
}
