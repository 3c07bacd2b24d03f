package run

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"

	"vagen/internal/durable"
	"vagen/policy"
	"vagen/policy/vlm"
	"vagen/train/proof"
	"vagen/train/rundir"
	"vagen/train/track"
)

// record opens proof.jsonl and adds the line of this session, with the facts that its
// results depend on. Data files, and those of a learner that lists its inputs, are recorded, too.
func (r *Run) record(ctx context.Context) (err error) {
	if r.proof, err = proof.Open(r.Folder.Path, r.log); err != nil {
		return err
	}
	r.own = []track.Sink{r.proof} // Close closes it even if open fails
	stored, err := r.Config.Stored()
	if err != nil {
		return fmt.Errorf("run: %w", err)
	}
	config, err := durable.SumOf(filepath.Join(r.Folder.Path, rundir.ConfigName))
	if err != nil {
		return fmt.Errorf("run: %w", err)
	}
	backend := ""
	if l, ok := policy.As[policy.BackendNamer](r.Learner); ok {
		backend = l.Backend()
	}
	l := proof.Line{
		Kind: proof.KindStart, Facts: proof.NewFacts(stored, r.Config.Run.Seed, backend),
		Files: map[string]string{rundir.ConfigName: config.SHA256}, Kept: len(r.past), Changed: r.changed,
	}
	if !r.proof.Empty() || r.from != nil && within(r.Folder.Path, r.from.Path) {
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
	var files map[string]string
	if l, ok := policy.As[policy.InputLister](r.Learner); ok {
		files = l.Inputs()
	}
	return r.RecordInputs(ctx, files)
}

// RecordInputs records the SHA-256 of the files that the run reads, of paths by their use as
// policy.InputLister returns them, of data files and XLA's plugin. Open calls it. A
// program calls it again if it changes what the run starts from, such as model after imitation.
func (r *Run) RecordInputs(ctx context.Context, paths map[string]string) error {
	if r.unlock == nil {
		return errClosed
	}
	if err := r.inputs.Wait(); err != nil {
		return err
	}
	all := paths
	if l, ok := policy.As[policy.BackendNamer](r.Learner); ok {
		plugin, err := vlm.Plugin(ctx, l.Backend())
		if err != nil {
			return err
		}
		if plugin != "" {
			all = map[string]string{"plugin": plugin}
			maps.Copy(all, paths)
		}
	}
	var err error
	r.inputs, err = r.proof.RecordInputs(ctx, &r.Config, all, r.log)
	return err
}
