package replay

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"vagen/advantage"
	"vagen/env"
	"vagen/internal/durable"
	"vagen/internal/unmade"
	"vagen/policy/vlm"
	"vagen/rollout"
	"vagen/rollout/store"
	"vagen/train"
	"vagen/train/config"
	"vagen/train/credit"
	"vagen/train/run"
	"vagen/train/rundir"
)

// Credit is a checkpoint of a run that is open for a measurement of credit. The fields of
// its Measurement are set, with the defaults of the options; Gamma and Params are the
// run's.
type Credit struct {
	credit.Measurement
	// Source says in a sentence where the episodes and the numbers of their tokens come
	// from.
	Source string

	envs   *env.Registry // nil if they are the caller's
	model  *vlm.Model
	unlock func() error
}

// OpenCredit opens the checkpoint of a step of a run and the episodes that its policy
// played: those of the step after it. They are the recorded ones, with the recorded numbers
// of their tokens. Where they were not recorded, or without images, or were played by an
// older policy (run.async), they are played as training would play them; numbers that were
// not recorded are computed with the checkpoint's policy and critic.
//
// overrides, of the form key=value, set secrets, as in Step. If envs is nil, the
// environments of the configuration are used. The folder credit of the run is locked until
// Close; nothing else in the run's folder changes.
func OpenCredit(
	ctx context.Context, path string, overrides []string, step int, envs *env.Registry, log *slog.Logger,
) (_ *Credit, err error) {
	rec, err := openRecord(path, overrides, log)
	if err != nil {
		return nil, err
	}
	c, own := &rec.config, envs == nil
	envs, levels, err := run.Prepare(ctx, c, envs, log)
	if err != nil {
		return nil, err
	}
	out := &Credit{}
	if own {
		out.envs = envs
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, out.Close())
		}
	}()
	p, err := rec.checkpoint(ctx, step)
	if err != nil {
		steps, _ := rec.dir.Steps()
		return nil, fmt.Errorf("%w; the run has checkpoints of the steps %v", err, steps)
	}
	sum, err := durable.SumOf(filepath.Join(p.Path, rundir.ManifestName))
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	out.Measurement = credit.Measurement{
		Options: credit.DefaultOptions(), Run: path, Checkpoint: step, Played: step + 1, Identity: sum.SHA256, Log: log,
	}
	out.Params, out.Gamma, out.Seed = c.Algorithm.Params, credit.TurnDiscount(c), c.Run.Seed
	if out.unlock, err = lockCredit(path); err != nil {
		return nil, err
	}
	if out.model, err = vlm.Open(ctx, c.Agent.Model.Path, run.ModelOptions(c, log)); err != nil {
		return nil, err
	}
	if err := out.model.Restore(ctx, p.Path); err != nil {
		return nil, err
	}
	return out, out.open(ctx, rec, p.State, envs, levels)
}

// Close closes the environments of the configuration and the model, and unlocks the folder. Further calls
// do nothing.
func (r *Credit) Close() error {
	var errs []error
	if r.envs != nil {
		errs = append(errs, r.envs.Close())
	}
	if r.model != nil {
		errs = append(errs, r.model.Close())
	}
	if r.unlock != nil {
		errs = append(errs, r.unlock())
	}
	r.envs, r.model, r.unlock = nil, nil, nil
	return errors.Join(errs...)
}

func lockCredit(path string) (unlock func() error, err error) {
	dir := filepath.Join(path, credit.Folder)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	return rundir.Dir(dir).Lock()
}

// open finds the episodes, their numbers, and the player.
func (r *Credit) open(ctx context.Context, rec *record, s train.State, envs *env.Registry, levels *train.Levels) error {
	spec, err := advantage.Describe(rec.config.Algorithm.Estimator)
	if err != nil {
		return err
	}
	episodes, scores, why, err := rec.credit(r.Played)
	if err != nil {
		return err
	}
	if why == "" && scores == nil && spec.Baselines {
		why = "the greedy episodes that its estimator needs were not recorded"
	}
	r.Step = &credit.Step{Config: &rec.config, Episodes: episodes, Scores: scores}
	t := rec.trainer(r.model, envs, r.Log)
	t.Levels, s.Prefetched = levels, nil
	t.Config.Run.Async, t.Config.Run.MaxStaleness, t.Config.Run.Partial = false, 1, false // the checkpoint's policy plays
	if err := t.Restore(s); err != nil {
		return err
	}
	switch {
	case why != "":
		r.Source = fmt.Sprintf("episodes of step %d played now, and scored by the checkpoint: %s", r.Played, why)
	case scores == nil:
		r.Source = fmt.Sprintf("recorded episodes of step %d, scored by the checkpoint now, since trainer.rollout_data_scores was false", r.Played)
	default:
		r.Source = fmt.Sprintf("recorded episodes of step %d with their recorded numbers", r.Played)
	}
	if scores == nil {
		played := train.NewCollected(r.Played, episodes)
		if why != "" {
			if played, err = t.Collect(ctx, r.Played); err != nil {
				return err
			}
		}
		r.Step.Episodes = played.Episodes
		if r.Step.Scores, err = t.Score(ctx, played); err != nil {
			return err
		}
		r.Made = true
	}
	if r.Player, err = t.Player(ctx); err != nil {
		return err
	}
	for _, e := range r.Step.Episodes {
		if err := restoreLimits(e, t.StartState(r.Played, e.Group)); err != nil {
			return err
		}
	}
	return nil
}

// credit reads the episodes of a step and the numbers of their tokens, or says why
// the episodes cannot be used. Numbers that were not recorded are nil.
func (r *record) credit(step int) (episodes []*rollout.Trajectory, scores []store.Scores, why string, err error) {
	switch {
	case r.config.Trainer.RolloutDir == nil:
		return nil, nil, "trainer.rollout_data_dir was null", nil
	case r.config.Run.Async:
		return nil, nil, "with run.async the recorded ones were played by an earlier policy", nil
	}
	if episodes, err = r.episodes(step); errors.Is(err, fs.ErrNotExist) {
		return nil, nil, "the run recorded none", nil
	} else if err != nil {
		return nil, nil, "", err
	}
	if !withImages(episodes) {
		return nil, nil, "the recorded ones lack images (trainer.log_image)", nil
	}
	scores, err = r.scores(step)
	return episodes, scores, "", err
}

// restoreLimits sets what files of episodes do not contain: limits, and secrets of the
// environment's options.
func restoreLimits(t *rollout.Trajectory, from rollout.Episode) error {
	if t.Env != from.Env || t.Seed != from.Seed {
		return fmt.Errorf("replay: group %d, episode %d: recorded with %s, seed %d, but the configuration has %s, seed %d there", t.Group, t.Index, t.Env, t.Seed, from.Env, from.Seed)
	}
	t.Config, t.MaxTokens, t.MaxObservation, t.MaxRegion = from.Config, from.MaxTokens, from.MaxObservation, from.MaxRegion
	t.Source, t.RewardScale = from.Source, from.RewardScale
	return nil
}

// Set changes hyperparameters of the estimators from those of the run, with assignments
// such as algorithm.lam=0.9. Keys outside algorithm are refused.
func (r *Credit) Set(assignments []string) error {
	if r.Step == nil || r.Step.Config == nil {
		return unmade.Error("replay.Credit", "OpenCredit")
	}
	c := *r.Step.Config
	for _, a := range assignments {
		if !strings.HasPrefix(a, "algorithm.") {
			return fmt.Errorf("%w: found %q, must be a key of algorithm such as algorithm.lam=0.9", config.ErrConfig, a)
		}
		if err := c.Override(a); err != nil {
			return err
		}
	}
	r.Params, r.Gamma = c.Algorithm.Params, credit.TurnDiscount(&c)
	return nil
}
