package run

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"vagen/policy"
	"vagen/train"
	"vagen/train/config"
)

// begin starts to save a checkpoint, with an export if one is due.
func (r *Run) begin(ctx context.Context, s train.State) (*train.Pending, error) {
	r.points.Export = nil
	if r.Config.Exports(s.Step, s.Stability.Stale) && !s.Interrupted {
		export, err := r.export(ctx)
		if err != nil {
			return nil, err
		}
		r.points.Export = export
	}
	return r.points.Begin(ctx, r.Learner, s, &r.Config)
}

// export returns the function that writes hf/step_<n> from a checkpoint's folder.
// Adapters are merged on the device, so export does that immediately; the rest is copied
// from the checkpoint while the next step runs.
func (r *Run) export(ctx context.Context) (func(ctx context.Context, dir string, s train.State) error, error) {
	adapted := r.Config.Agent.Model.LoRARank > 0 || r.Config.Agent.Model.Adapter != ""
	merged := filepath.Join(r.Folder.Path, exportFolder, "merged.tmp")
	merges := adapted && slices.Contains(r.Config.Hub.Contents, config.HubModel)
	if merges {
		e, ok := policy.As[policy.Exporter](r.Learner)
		if !ok {
			return nil, fmt.Errorf("%w: huggingface_hub.upload_contents has hf_model, but a %T cannot merge its adapters: it is not a policy.Exporter", config.ErrConfig, r.Learner)
		}
		if err := os.RemoveAll(merged); err != nil {
			return nil, err
		}
		if err := e.Export(ctx, merged); err != nil {
			return nil, err
		}
	}
	uploading := ctx // ends with the run, unlike the context of the checkpoint's save
	return func(_ context.Context, dir string, s train.State) error {
		place, err := r.Folder.saveExport(s.Step, func(to string) error {
			for _, what := range r.Config.Hub.Contents {
				if what == config.HubModel && merges {
					if err := os.Rename(merged, filepath.Join(to, what)); err != nil {
						return err
					}
					continue
				}
				if err := os.CopyFS(filepath.Join(to, what), os.DirFS(filepath.Join(dir, "actor"))); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil {
			r.uploads.Add(uploading, place, s.Step)
		}
		return err
	}, nil
}
