package run

import (
	"context"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"

	"vagen/env"
	"vagen/policy"
	"vagen/policy/vlm"
	"vagen/rollout"
	"vagen/train"
	"vagen/train/config"
	"vagen/train/track"
	"vagen/train/track/curve"
)

// ModelOptions are those of the model that a configuration describes.
func ModelOptions(c *config.Config, log *slog.Logger) vlm.Options {
	o := vlm.Options{
		Backend: c.Model.Backend, BFloat16: c.Model.BFloat16, Recompute: vlm.Recompute(c.Model.Recompute),
		Critic: vlm.Critic(c.Critic.Kind), CriticPath: c.Critic.Model.Path, ZeroValueHead: c.Critic.ZeroHead,
		Reference:   c.Agent.Actor.UseKLLoss || c.Algorithm.KLInReward,
		MicroTokens: c.Model.MicroTokens, CacheTokens: c.Model.CacheTokens, Seed: c.Run.Seed, Log: log,
		Adapter: c.Agent.Model.Adapter,
	}
	if len(c.Data.Template) > 0 {
		o.Template = c.Data.Template
	}
	microBatches(&o, c)
	if a := c.Agent.Model; a.LoRARank > 0 {
		o.LoRA = &vlm.LoRA{Rank: a.LoRARank, Alpha: a.LoRAAlpha, Targets: a.Targets}
		if slices.Equal(a.Targets, []string{"all-linear"}) {
			o.LoRA.Targets = nil // all of the decoder
		}
	}
	if c.Agent.Actor.Freeze {
		o.Freeze = []string{"model.visual.*"}
	}
	return o
}

// microBatches sizes what goes through the network at once: by rows, or by tokens.
func microBatches(o *vlm.Options, c *config.Config) {
	a, k := &c.Agent.Actor, &c.Critic
	if o.MicroRows = a.MicroRows; a.Dynamic {
		o.MicroRows, o.MicroTokens = 0, a.MicroTokens
	}
	if k.Kind != "separate" {
		return
	}
	o.CriticMicroRows = k.MicroRows
	if dynamic := k.Dynamic; dynamic != nil && *dynamic || dynamic == nil && a.Dynamic {
		o.CriticMicroRows, o.CriticMicroTokens = 0, k.MicroTokens
	}
}

// Run is an open run: a learner, environments, and what receives the events.
type Run struct {
	Config  config.Config // completed by what the start states say
	Folder  *Folder
	Learner policy.Learner
	Envs    *env.Registry
	Curve   *curve.Curve
	Sinks   []track.Sink // all of them, in the order in which they receive events

	levels  *train.Levels
	names   config.Registries
	own     []track.Sink // those that Close closes
	log     *slog.Logger
	unlock  func() error
	uploads *uploads // nil for none
	points  *Checkpoints
	from    *Checkpoint   // that the run resumes from; nil for a new run
	past    []track.Event // of a resumed run
	server  *http.Server  // nil for none

	archives archives
}

// restore goes back to the newest whole checkpoint, or to the beginning.
func (r *Run) restore(ctx context.Context, restore func(context.Context, string) error) error {
	p, err := r.origin(ctx)
	if err != nil {
		return err
	}
	var from *train.State
	if p != nil {
		lines, err := p.fits(&r.Config)
		if err != nil {
			return err
		}
		logChanges(r.log, "the configuration differs from the checkpoint's", p.Path, lines)
		if err := restore(ctx, p.Path); err != nil {
			return err
		}
		r.from, from = p, &p.State
	}
	r.past, err = r.Folder.Rewind(from, r.Config.Trainer.Steps)
	return err
}

// Done is the number of steps that were done before.
func (r *Run) Done() int {
	if r.from == nil {
		return 0
	}
	return r.from.State.Step
}

// Train trains the learner for the configured number of steps. After every validation
// episodes and the curve are written, and checkpoints when they are due. It returns
// ctx's error when ctx ends first; the steps that are done are saved before, with
// trainer.save_on_interrupt.
func (r *Run) Train(ctx context.Context) error {
	learner := r.Learner
	if err := r.plan(ctx); err != nil {
		return err
	}
	t := &train.Trainer{
		Config: r.Config, Learner: learner, Envs: r.Envs, Sinks: r.Sinks, Log: r.log, Levels: r.levels, Registries: r.names,
		Checkpointer: r.checkpointer(learner), Observer: observer{r}, Handled: handledKeys,
	}
	if r.from != nil {
		if err := t.Restore(r.from.State); err != nil {
			return err
		}
	}
	err := t.Run(ctx)
	late := r.uploads.wait()
	if err == nil {
		err = late
	}
	if err == nil {
		err = r.draw() // of events that waited for a checkpoint, too
	}
	for _, s := range r.Sinks {
		if e, ok := s.(track.Ender); ok {
			e.Ended(err)
		}
	}
	return err
}

// validated keeps what was played to validate.
func (r *Run) validated(step int, ts []*rollout.Trajectory) error {
	if a := r.archives.validations; a != nil {
		if err := a.add(step, ts); err != nil {
			return err
		}
	}
	shown, err := r.Config.Trainer.Shown(ts)
	if err != nil {
		return err
	}
	if err := r.Folder.SaveEpisodes(step, shown, len(shown)); err != nil {
		return err
	}
	return r.draw()
}

func (r *Run) draw() error { return r.Curve.WritePNG(filepath.Join(r.Folder.Path, "curve.png")) }

// policyOf writes a learner's policy alone, where it can tell it from the rest.
func policyOf(l policy.Learner) func(ctx context.Context, dir string) error {
	if e, ok := l.(policy.Exporter); ok {
		return e.Export
	}
	return l.Save
}
