package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"vagen/env"
	"vagen/internal/silent"
	"vagen/policy"
	"vagen/policy/vlm"
	"vagen/train"
	"vagen/train/config"
	"vagen/train/engines"
	"vagen/train/queue"
	"vagen/train/run/internal/upload"
	"vagen/train/sft"
	"vagen/train/track"
	"vagen/train/track/curve"
)

// Options replace parts of a configuration, and set the outputs. With the zero value
// everything follows from the configuration, and nothing is shown.
type Options struct {
	// Dir is the folder of the run; empty uses that of the configuration, see Dir.
	Dir string
	// MustResume makes Open fail if the folder contains no run.
	MustResume bool
	// Learner opens the learner. dir is the run's folder, which exists. nil opens the
	// model in actor_rollout_ref.model.path with package policy/vlm.
	//
	// A learner that is a policy.Restorer is resumed from checkpoints; others can only start new
	// runs. One that is an io.Closer is closed by Run.Close. The hashes of its files are part of
	// the run's proof if it is a policy.InputLister. The chat template of a policy.Templated is
	// checked with a sample turn of each environment.
	Learner func(ctx context.Context, dir string) (policy.Learner, error)
	// Envs are the environments; nil is those of the library, or with
	// rollout_manager.use_service those of a service.
	Envs *env.Registry
	// Registries resolve the configuration's names of estimators, filters, harnesses, losses
	// and metrics. The zero value contains the built-in entries.
	Registries config.Registries
	// Sinks receive the run's events beside the sinks that trainer.logger names. Close
	// does not close them.
	Sinks []track.Sink
	// Curve sets the title and the reference lines of the plot of success rates. An empty title
	// becomes the start states and the experiment's name.
	Curve curve.Curve
	// DrawCurve draws the plot to curve.png: PNG of package train/track/curve/plot. nil draws
	// nothing.
	DrawCurve func(c *curve.Curve, path string) error
	// QueueServer starts the server of run.queue=embedded: Start of package train/queue/embedded.
	// nil is an error if the configuration asks for that server.
	QueueServer queue.Starter
	// Console receives the progress if trainer.logger has console; nil shows nothing.
	Console io.Writer
	// Log receives warnings and information; nil discards them.
	Log *slog.Logger

	// measuring means that the supervised stage before this one measures kernels in this process, which this
	// one continues: the file that exists by then is not complete, and this run is not bound to it.
	measuring bool
	told      bool // that the chat template rewrites history
}

// Open builds a run from every key of a configuration: model, environments, start
// states, sinks, folder, checkpoints and uploads. An existing run in the folder is resumed
// from its newest complete checkpoint, unless trainer.resume_mode says otherwise. With
// trainer.stage sft+rl Open first does the supervised stage, in the folder sft of the run's
// folder, or resumes it, unless it is complete.
//
// Everything that can be checked is checked before anything is written; errors of the
// configuration wrap config.ErrConfig. The folder is locked until Close, which the caller
// must call.
func Open(ctx context.Context, c config.Config, o Options) (_ *Run, err error) {
	if rank, err := Rank(ctx, &c); err != nil || rank > 0 {
		return nil, cmp.Or(err, fmt.Errorf(
			"run: %w: this process is rank %d of model.num_nodes %d, which follows: see Follow", config.ErrConfig, rank,
			c.Model.Nodes))
	}
	if c, err = o.stage(ctx, &c); err != nil {
		return nil, err
	}
	p, err := prepare(ctx, &c, &o)
	if err != nil {
		return nil, err
	}
	o.tellHistory(p.dialogue)
	if p.levels.Shared != nil {
		o.Log.Warn("validation levels are also trained on", "err", p.levels.Shared)
	}
	folder, err := prepareFolder(o.dir(&c), &c, o.MustResume, o.Log)
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	unlock, err := folder.Lock()
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	r := &Run{
		Config: c, Folder: folder, Envs: p.envs, ownEnvs: p.own, Curve: &o.Curve, drawCurve: o.DrawCurve,
		levels: p.levels, examples: p.examples, names: o.Registries, log: o.Log, points: folder.Checkpoints(&c, o.Log),
		unlock: unlock,
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	if r.uploads, err = upload.New(&c, o.Log); err != nil {
		return nil, err
	}
	if err := r.claimArchives(); err != nil {
		return nil, err
	}
	if r.Learner, err = o.openLearner(ctx, &c, folder.Path); err != nil {
		return nil, err
	}
	if err := o.checkTemplate(ctx, &c, p, r.Learner); err != nil {
		return nil, err
	}
	if err := errors.Join(r.resume(ctx), r.openQueue(ctx, &o)); err != nil {
		return nil, err
	}
	return r, r.open(ctx, o)
}

// dir is the folder of the run.
func (o *Options) dir(c *config.Config) string {
	if o.Dir != "" {
		return o.Dir
	}
	return Dir(c)
}

func (o *Options) openLearner(ctx context.Context, c *config.Config, dir string) (policy.Learner, error) {
	if o.Learner != nil {
		l, err := o.Learner(ctx, dir)
		if err == nil && l == nil {
			err = errors.New("run: Options.Learner returned nil")
		}
		return l, err
	}
	m, err := o.openModel(ctx, c)
	if err != nil {
		return nil, err // not a nil *vlm.Model in an interface
	}
	l, err := engines.Wrap(ctx, m, c, dir, o.Log)
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return l, nil
}

// prepared holds the parts of a run that exist before anything is written.
type prepared struct {
	envs   *env.Registry
	own    bool          // envs are of the configuration, not of Options
	levels *train.Levels // empty in the supervised stage

	examples *sft.Data        // of the supervised stage; nil in the other
	dialogue policy.Templated // of the model; nil with a learner given in Options
}

// close closes the environments unless they are those of Options.
func (p *prepared) close() error {
	if !p.own || p.envs == nil {
		return nil
	}
	return p.envs.Close()
}

// tellHistory warns once if the model's chat template rewrites history.
func (o *Options) tellHistory(d policy.Templated) {
	if d == nil {
		return
	}
	if d.RewritesHistory() && !o.told {
		o.Log.Warn(
			"the chat template shows earlier responses otherwise than they were written, for instance without their thoughts; " +
				"in this run the model reads them as they were written, " +
				"so a program that renders whole conversations with the template shows it other contexts",
		)
	}
	o.told = true
}

// checkTemplate checks the chat template of a learner given in Options, if it has one, as
// prepare does that of a model.
func (o *Options) checkTemplate(ctx context.Context, c *config.Config, p *prepared, l policy.Learner) error {
	d, ok := policy.As[policy.Templated](l)
	if !ok || o.Learner == nil {
		return nil
	}
	o.tellHistory(d)
	_, err := preflightEnvs(ctx, c, p.levels, p.envs, d)
	return err
}

// prepare completes configuration and options, opens environments and start states, and
// tries environments and the model's files.
func prepare(ctx context.Context, c *config.Config, o *Options) (*prepared, error) {
	o.Log = silent.Log(o.Log)
	if !o.measuring {
		if err := c.PinAutotune(); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(o.Registries.Validate(c), o.checkNodes(c)); err != nil {
		return nil, err
	}
	p := &prepared{envs: o.Envs, own: o.Envs == nil, levels: &train.Levels{}}
	fill := p.play
	if c.Trainer.Stage == config.StageSFT {
		fill = p.supervise
	}
	if err := fill(ctx, c, o); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// play prepares reinforcement learning.
func (p *prepared) play(ctx context.Context, c *config.Config, o *Options) (err error) {
	if p.envs, p.levels, err = Prepare(ctx, c, o.Envs, o.Log); err != nil {
		return err
	}
	if err := o.Registries.Validate(c); err != nil { // Prepare has set what start states decide
		return err
	}
	model, err := preflight(ctx, c, p.envs, p.levels, o.Learner == nil)
	if err := errors.Join(err, o.preflightQueue(ctx, c)); err != nil {
		return err
	}
	p.dialogue = model.Encoder
	if o.Curve.Title == "" {
		o.Curve.Title = p.levels.String() + ", " + c.Trainer.Experiment
	}
	o.Curve.Train, o.Curve.Val, o.Curve.Label = "train/success", "val/success", "success"
	return nil
}

// Preview is the result of Check.
type Preview struct {
	Steps  int
	Levels string // names of the environments
	Model  string // folder of the model
	Dir    string // folder of the run
	Notes  []config.Note
	// Shared lists validation levels that are also trained on; nil for none.
	Shared error
	// Memory is the memory plan of the run; nil for a learner given in Options.
	Memory *vlm.MemoryPlan
	// Rows is the number of training examples of a supervised stage.
	Rows int
}

// Check does what Open does without writing anything: it checks configuration,
// environments, folders and the model's files, opens the model, and does the checks of
// train.Trainer.Check and the memory plan.
func Check(ctx context.Context, c config.Config, o Options) (_ *Preview, err error) {
	c, rows, err := o.checkFirst(ctx, &c)
	if err != nil {
		return nil, err
	}
	p, err := prepare(ctx, &c, &o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	o.tellHistory(p.dialogue)
	dir := o.dir(&c)
	if rows == 0 { // otherwise checkFirst has done it
		if err := previewFolder(dir, &c, o.MustResume); err != nil {
			return nil, err
		}
	}
	out := &Preview{Steps: c.Trainer.Steps, Levels: p.levels.String(), Model: c.Agent.Model.Path, Dir: dir, Notes: c.Notes,
		Shared: p.levels.Shared}
	if out.Rows = max(rows, p.rows()); o.Learner != nil || p.examples != nil {
		return out, nil
	}
	model, err := vlm.Open(ctx, c.Agent.Model.Path, ModelOptions(&c, o.Log))
	if err != nil {
		return nil, namedOption(err)
	}
	defer model.Close()
	trial := &Run{Config: c, Folder: &Folder{Path: dir}, Learner: model, Envs: p.envs, levels: p.levels,
		names: o.Registries, log: o.Log}
	trial.Config.Notes = nil // they are part of the result
	t := trial.trainer()
	if _, err := t.Player(ctx); err != nil { // all checks but the first episode, whose programs are not in the plan
		return nil, err
	}
	plan, err := planMemory(ctx, &c, o.Registries, model, p.envs, p.levels)
	if err != nil {
		return nil, err
	}
	if err := t.Check(ctx); err != nil {
		return nil, err
	}
	out.Memory = &plan
	return out, nil
}

// resume restores the learner of an existing run.
func (r *Run) resume(ctx context.Context) error {
	l, ok := policy.As[policy.Restorer](r.Learner)
	switch {
	case r.Config.Trainer.ResumeMode == "disable":
		return nil
	case ok:
		return r.restore(ctx, l.Restore)
	case r.Folder.resumed():
		return fmt.Errorf("run: %w: %s contains a run, but the learner (%T) cannot be restored, because it has no method Restore: choose another folder", ErrExists, r.Folder.Path, r.Learner)
	}
	return nil
}
