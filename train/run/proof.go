package run

import (
	"context"
	"fmt"
	"path/filepath"

	"vagen/internal/durable"
	"vagen/policy/vlm"
	"vagen/train/proof"
	"vagen/train/track"
)

// record opens proof.jsonl and adds the line of this session, with the facts that its
// results depend on. With own the learner is the configuration's model, of which the files
// are recorded, too.
func (r *Run) record(ctx context.Context, own bool) (err error) {
	if r.proof, err = proof.Open(r.Folder.Path, r.log); err != nil {
		return err
	}
	r.own = []track.Sink{r.proof} // Close closes it even if open fails
	stored, err := r.Config.Stored()
	if err != nil {
		return fmt.Errorf("run: %w", err)
	}
	config, err := durable.SumOf(filepath.Join(r.Folder.Path, configName))
	if err != nil {
		return fmt.Errorf("run: %w", err)
	}
	backend := ""
	if l, ok := r.Learner.(interface{ Backend() string }); ok {
		backend = l.Backend()
	}
	l := proof.Line{
		Kind: proof.KindStart, Facts: proof.NewFacts(stored, r.Config.Run.Seed, backend),
		Files: map[string]string{configName: config.SHA256}, Kept: len(r.past), Changed: r.changed,
	}
	if r.Folder.resumed() {
		l.Kind = proof.KindResume
	}
	rollbacks := 0
	if r.from != nil {
		l.Step, rollbacks = r.from.State.Step, r.from.State.Stability.Rollbacks
		if l.Checkpoint, err = proof.ManifestSum(r.from.Path); err != nil {
			return err
		}
	} else {
		l.Changed = r.Folder.Changed
	}
	if err := r.proof.Begin(l, rollbacks); err != nil {
		return err
	}
	if !own {
		return nil
	}
	return r.sumInputs(ctx, backend)
}

// inputs are the sums of a run's inputs, which are computed while it trains.
type inputs struct {
	done chan struct{}
	err  error // valid once done is closed
}

// wait waits until the sums are recorded. nil has none.
func (i *inputs) wait() error {
	if i == nil {
		return nil
	}
	<-i.done
	return i.err
}

// sumInputs starts to record the SHA-256 of the model's files and of the plugin. Reading
// large weights takes seconds, so the run does not wait for it. If ctx ends first, they
// are not recorded.
func (r *Run) sumInputs(ctx context.Context, backend string) error {
	paths := proof.InputPaths(&r.Config)
	plugin, err := vlm.Plugin(ctx, backend)
	if err != nil {
		return err
	}
	if plugin != "" {
		paths["plugin"] = plugin
	}
	r.inputs = &inputs{done: make(chan struct{})}
	go func() {
		defer close(r.inputs.done)
		files, err := proof.SumInputs(ctx, paths)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			r.log.Warn("the inputs of the run are not recorded", "err", err)
		default:
			r.inputs.err = r.proof.Add(proof.Line{Kind: proof.KindInputs, Files: files})
		}
	}()
	return nil
}
