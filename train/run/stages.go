package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"vagen/train/config"
	environments "vagen/train/envs"
	"vagen/train/rundir"
	"vagen/train/sft"
)

// The supervised stage of trainer.stage sft+rl is a complete run in the folder sft of the run.
// Its result is exported to the folder model there, with adapters merged in, from which the
// run starts.
const (
	supervisedFolder = "sft"
	resultFolder     = "model"
)

// stage returns the configuration of the last stage of c, after the supervised stage before it,
// if there is one, is complete.
func (o *Options) stage(ctx context.Context, c *config.Config) (config.Config, error) {
	switch c.Trainer.Stage {
	case config.StageRL:
		return *c, nil
	case config.StageSFT:
		return c.Supervised(), nil
	}
	dir := o.dir(c)
	first, next, err := o.checkStages(ctx, c)
	if err != nil {
		return next, err
	}
	s := *o
	s.Dir = filepath.Join(dir, supervisedFolder)
	if _, err := os.Stat(filepath.Join(dir, rundir.ConfigName)); errors.Is(err, fs.ErrNotExist) {
		o.MustResume = false // the run to be resumed is that of the first stage
	}
	r, err := Open(ctx, first, s)
	o.told = true // in that
	if err != nil {
		return next, fmt.Errorf("supervised stage: %w", err)
	}
	o.measuring = c.Model.Autotune != "" && r.Config.Model.AutotuneSum == ""
	return next, errors.Join(r.supervise(ctx), r.Close())
}

// checkStages checks both stages before the first one begins, and returns their configurations.
func (o *Options) checkStages(ctx context.Context, c *config.Config) (first, next config.Config, err error) {
	dir := o.dir(c)
	first, next = c.Supervised(), c.Reinforced(filepath.Join(dir, supervisedFolder, resultFolder))
	if err := o.Registries.Validate(c); err != nil {
		return first, next, err
	}
	if o.Learner != nil {
		return first, next, fmt.Errorf(
			"%w: trainer.stage is sft+rl, but the learner is the caller's, which cannot be opened from the result of the first stage: run the stages one after the other", config.ErrConfig)
	}
	trial, options := next, *o
	if err := trial.PinAutotune(); err != nil { // as in the folder
		return first, next, err
	}
	if err := previewFolder(dir, &trial, false); err != nil {
		return first, next, err
	}
	trial.Agent.Model.Path = c.Agent.Model.Path
	p, err := prepare(ctx, &trial, &options)
	if err != nil {
		return first, next, err
	}
	return first, next, p.close()
}

// supervise trains unless the stage is complete, and exports the result.
func (r *Run) supervise(ctx context.Context) error {
	result := filepath.Join(r.Folder.Path, resultFolder)
	_, err := os.Stat(result)
	if err == nil && r.Done() >= r.Config.Trainer.Steps {
		return nil
	}
	if r.Done() < r.Config.Trainer.Steps {
		if err := r.Train(ctx); err != nil {
			return err
		}
	}
	return r.Folder.put(resultFolder, func(dir string) error { return policyOf(r.Learner)(ctx, dir) })
}

// supervise prepares the supervised stage, which needs environments only for its lessons.
func (p *prepared) supervise(ctx context.Context, c *config.Config, o *Options) (err error) {
	if err := c.CheckSecrets(); err != nil {
		return err
	}
	if p.envs == nil {
		if p.envs, err = environments.Open(c, o.Log); err != nil {
			return err
		}
	}
	if o.Learner == nil {
		model, err := preflightModel(ctx, c)
		if err != nil {
			return err
		}
		p.dialogue = model.Encoder
	}
	if err := errors.Join(preflightLoggers(c), preflightHub(c)); err != nil {
		return err
	}
	if p.examples, err = sft.Open(ctx, c, p.envs, o.Log); err != nil {
		return err
	}
	if p.dialogue != nil { // otherwise the trainer encodes with the caller's learner
		if err := p.examples.Encode(ctx, p.dialogue); ctx.Err() != nil {
			return err
		} else if err != nil {
			return fmt.Errorf("%w: %w", config.ErrConfig, err)
		}
	}
	if o.Curve.Title == "" {
		o.Curve.Title = c.Trainer.Experiment
	}
	o.Curve.Train, o.Curve.Val, o.Curve.Label = "sft/loss", "sft/val_loss", "loss"
	return nil
}

// checkFirst checks a supervised stage before reinforcement learning without training. It
// returns the configuration of the stage that Check describes, for the model that exists now,
// and the number of the first stage's examples.
func (o *Options) checkFirst(ctx context.Context, c *config.Config) (config.Config, int, error) {
	switch c.Trainer.Stage {
	case config.StageRL:
		return *c, 0, nil
	case config.StageSFT:
		return c.Supervised(), 0, nil
	}
	first, next, err := o.checkStages(ctx, c)
	if err != nil {
		return next, 0, err
	}
	trial := *o
	p, err := prepare(ctx, &first, &trial)
	if err != nil {
		return next, 0, fmt.Errorf("supervised stage: %w", err)
	}
	next.Agent.Model.Path = c.Agent.Model.Path
	return next, p.rows(), p.close()
}

// rows is the number of examples of the supervised stage; 0 in the other.
func (p *prepared) rows() int {
	if p.examples == nil {
		return 0
	}
	return p.examples.Len()
}
