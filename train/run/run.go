package run

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"time"

	"vagen/env"
	"vagen/internal/unmade"
	"vagen/policy"
	"vagen/policy/vlm"
	"vagen/train"
	"vagen/train/config"
	"vagen/train/proof"
	"vagen/train/queue"
	"vagen/train/run/internal/upload"
	"vagen/train/sft"
	"vagen/train/track"
	"vagen/train/track/curve"
)

// ModelOptions returns the options of a configuration's model.
func ModelOptions(c *config.Config, log *slog.Logger) vlm.Options {
	c = cmp.Or(c, new(config.Config))
	o := vlm.Options{
		Backend: c.Model.Backend, CompileCache: c.Model.CompileCache, BFloat16: c.Model.BFloat16,
		RolloutDType: vlm.RolloutDType(c.Model.RolloutDType), Recompute: vlm.Recompute(c.Model.Recompute),
		Critic: vlm.Critic(
			c.Critic.Kind,
		), CriticPath: c.CriticPath(), ZeroValueHead: c.Critic.ZeroHead, OffloadMoments: c.Agent.Actor.FSDP.OptimizerOffload,
		Reference: c.UsesReference() && !c.ServesReference() && !c.TeachesItself(), ReferencePath: c.ReferencePath(),
		MicroTokens: c.Model.MicroTokens, CacheTokens: c.Model.CacheTokens, Seed: c.Run.Seed, Log: log,
		Adapter: c.Agent.Model.Adapter, Devices: cmp.Or(c.Model.Devices, vlm.AllDevices), PreferDevices: c.Trainer.GPUs,
		SameBytes: c.Model.SameBytes, PartPerDevice: c.Model.PerDevice, ShardWeights: c.Model.Shard,
		Autotune: c.Model.Autotune, AutotuneSHA256: c.Model.AutotuneSum, TokensPerCall: c.Model.PerCall,
		SharePrefix: c.Model.SharePrefix, DraftTokens: c.Model.DraftTokens,
		Continuous: c.Run.Continuous && !c.UsesEngine(),
	}
	if c.UsesEngine() { // servers generate
		o.TokensPerCall, o.DraftTokens = 0, 0
	}
	if m := &c.Model; m.Nodes > 1 {
		o.Nodes = vlm.Nodes{Count: m.Nodes, Timeout: time.Duration(m.NodeTimeout) * time.Second}
	}
	if c.Trainer.Stage == config.StageSFT {
		o.Critic, o.CriticPath, o.Reference = vlm.NoCritic, "", false
	}
	separate, critic := o.Critic == vlm.SeparateCritic, &c.Critic.Model.FSDP
	o.OffloadCritic, o.OffloadCriticMoments = separate && critic.ParamOffload, separate && critic.OptimizerOffload
	o.OffloadReference = o.Reference && c.Agent.Ref.FSDP.ParamOffload
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

// microBatches sets the size of micro-batches, in rows or in tokens.
func microBatches(o *vlm.Options, c *config.Config) {
	a, k := &c.Agent.Actor, &c.Critic
	if o.MicroRows = a.MicroRows; a.Dynamic {
		o.MicroRows, o.MicroTokens = 0, a.MicroTokens
	}
	if o.Critic != vlm.SeparateCritic {
		return
	}
	o.CriticMicroRows = k.MicroRows
	if dynamic := k.Dynamic; dynamic != nil && *dynamic || dynamic == nil && a.Dynamic {
		o.CriticMicroRows, o.CriticMicroTokens = 0, k.MicroTokens
	}
}

// errClosed is the error of a Run that does not hold the lock of its folder.
var errClosed = unmade.Closed("run.Run", "Open")

// Run is an open run: a learner, environments and sinks.
type Run struct {
	Config  config.Config // with the values that depend on the start states
	Folder  *Folder
	Learner policy.Learner
	Envs    *env.Registry
	ownEnvs bool // Envs are closed with the run
	Curve   *curve.Curve
	Sinks   []track.Sink // in the order in which they receive events

	levels *train.Levels
	// examples are those of the supervised stage; nil in the other.
	examples *sft.Data
	names    config.Registries
	own      []track.Sink // those to be closed by Close
	log      *slog.Logger
	unlock   func() error  // nil after Close
	uploads  *upload.Queue // nil for none
	points   *Checkpoints
	from     *Checkpoint   // checkpoint to resume from; nil for a new run
	past     []track.Event // of a resumed run
	server   *http.Server  // nil for none
	queue    *queue.Queue  // of workers; nil for none

	drawCurve func(c *curve.Curve, path string) error // nil for none

	archives archives
	proof    *proof.Recorder
	inputs   *proof.Inputs // nil for a learner that does not list its inputs
	changed  []string      // settings that differ from those of the checkpoint
}

// restore restores the newest complete checkpoint, or the initial state.
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
		r.from, from, r.changed = p, &p.State, lines
	}
	if r.Folder.unrecorded() {
		r.log.Warn("the run has metrics, but no record of them: vagen verify will report it",
			"in", r.Folder.Path, "missing", proof.FileName)
	}
	r.past, err = r.Folder.Rewind(from, r.Config.Trainer.Steps)
	return err
}

// Done returns the number of finished steps.
func (r *Run) Done() int {
	if r.from == nil {
		return 0
	}
	return r.from.State.Step
}

// Train trains the learner for the configured number of steps. It writes episodes and the
// curve after every validation, and checkpoints when they are due. If ctx ends first, it
// returns ctx's error; with trainer.save_on_interrupt the finished steps are saved before.
func (r *Run) Train(ctx context.Context) error {
	if r.unlock == nil {
		return errClosed
	}
	err := r.train(ctx)
	for _, s := range r.Sinks {
		if e, ok := s.(track.Ender); ok {
			e.Ended(err)
		}
	}
	return err
}

// train is Train without the sinks' end.
func (r *Run) train(ctx context.Context) error {
	if err := r.plan(ctx); err != nil {
		return err
	}
	t := r.trainer()
	if r.from != nil {
		if err := t.Restore(r.from.State); err != nil {
			return err
		}
	}
	err := t.Run(ctx)
	late := r.uploads.Wait()
	if err == nil {
		err = late
	}
	if err == nil {
		err = r.queue.Finish(context.WithoutCancel(ctx))
	}
	if err == nil {
		err = r.draw() // including events delayed by a checkpoint
	}
	return err
}

// trainer returns the trainer of the run.
func (r *Run) trainer() *train.Trainer {
	t := &train.Trainer{
		Config: r.Config, Learner: r.Learner, Envs: r.Envs, Sinks: r.Sinks, Log: r.log, Levels: r.levels,
		Examples: r.examples, Registries: r.names,
		Checkpointer: r.checkpointer(), Observer: observer{r}, Handled: train.OuterKeys(),
	}
	if r.queue != nil {
		t.Dealer = r.queue
	}
	return t
}

func (r *Run) draw() error {
	if r.drawCurve == nil {
		return nil
	}
	return r.drawCurve(r.Curve, filepath.Join(r.Folder.Path, "curve.png"))
}

// policyOf writes only a learner's policy, if the learner supports this.
func policyOf(l policy.Learner) func(ctx context.Context, dir string) error {
	if e, ok := policy.As[policy.Exporter](l); ok {
		return e.Export
	}
	return l.Save
}
