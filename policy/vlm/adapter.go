package vlm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"vagen/policy/vlm/internal/peft"
	"vagen/policy/vlm/internal/weights"
)

// LoRA sets low-rank adapters (Hu et al., arXiv:2106.09685) that are trained instead of
// the weights: a linear map W becomes W + s·B·A with s = Alpha/Rank, A of Rank rows,
// initially random, and B of Rank columns, initially zero. Value heads are trained in
// full. The reference policy is the model without its adapters and needs no memory.
type LoRA struct {
	Rank           int
	Alpha          float64
	RankStabilized bool // s = Alpha/√Rank (arXiv:2312.03732)
	// Targets names the linear maps by their last parts, such as q_proj; they must
	// be in decoder layers or blocks of the vision tower. No Targets and no Pattern
	// means all those of the decoder.
	Targets []string
	// Pattern is a regular expression for the whole names of the maps, such as
	// `model\.language_model\..*\.(q|v)_proj`, instead of Targets.
	Pattern string
}

// configureAdapters determines the adapters and the frozen parameters from the options.
func (m *Model) configureAdapters() (err error) {
	var lora *peft.Config
	if l := m.opts.LoRA; l != nil {
		lora = &peft.Config{Rank: l.Rank, Alpha: l.Alpha, RankStabilized: l.RankStabilized, Targets: l.Targets,
			Pattern: l.Pattern}
	}
	if m.adapter, err = weights.Adapt(m.cfg, lora, m.opts.Adapter, m.opts.Log); err != nil {
		return err
	}
	return weights.Freeze(m.cfg, m.opts.Freeze)
}

// AdapterBase reports whether a folder holds an adapter in PEFT's layout and no model,
// like the folder actor of a checkpoint with adapters. base is the adapter's base model,
// "" if its configuration does not name one.
func AdapterBase(dir string) (base string, ok bool, err error) {
	if _, err := os.Stat(filepath.Join(dir, "config.json")); err == nil {
		return "", false, nil
	}
	c, err := peft.Read(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("vlm: %w", err)
	}
	return c.Base, true, nil
}

// ExportAdapter writes the policy's adapters alone to dir, as a folder in PEFT's layout. A
// model without adapters is an error that wraps ErrOption.
func (m *Model) ExportAdapter(ctx context.Context, dir string) error {
	unlock, err := m.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if m.adapter == nil {
		return fmt.Errorf("vlm: %w: the model has no adapters to export", ErrOption)
	}
	return m.sets.Actor.SaveAdapter(ctx, *m.adapter, m.dir, dir)
}

// Export writes the policy to dir as a self-contained Hugging Face folder: adapters are
// merged into the weights, and there is no value head. A dir that already holds a model
// is an error and is not changed.
func (m *Model) Export(ctx context.Context, dir string) error {
	unlock, err := m.lock()
	if err != nil {
		return err
	}
	defer unlock()
	return m.sets.Actor.SaveModel(ctx, m.dir, dir, false)
}
