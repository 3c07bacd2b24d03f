package weights

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"

	"vagen/internal/field"
	"vagen/internal/safetensors"
	"vagen/policy/vlm/internal/backend"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/net"
	"vagen/policy/vlm/internal/peft"
)

// StoredAdapter holds the weights of an adapter's folder. nil means no adapter.
type StoredAdapter struct {
	dir string
	*safetensors.Reader
}

// Close closes the file of an adapter; s may be nil.
func (s *StoredAdapter) Close() {
	if s != nil {
		s.Reader.Close()
	}
}

// ReadAdapterConfig reads the settings of an adapter's folder.
func ReadAdapterConfig(dir string, log *slog.Logger) (peft.Config, error) {
	c, err := peft.Read(dir)
	if err != nil {
		return c, fmt.Errorf("vlm: %w", err)
	}
	if c.Dropout > 0 {
		log.Warn("the adapter's dropout is not applied in training", "folder", dir, "lora_dropout", c.Dropout)
	}
	return c, nil
}

// OpenAdapter opens the weights of a stored adapter. Its error lists weights that are missing, have another shape or
// type, or are not the model's. An empty dir means no adapter.
func OpenAdapter(dir string, spec *model.Config) (*StoredAdapter, error) {
	if dir == "" {
		return nil, nil
	}
	r, err := safetensors.Open(filepath.Join(dir, peft.WeightsFile))
	if err != nil {
		return nil, fmt.Errorf("vlm: %w", err)
	}
	wanted := map[string]bool{}
	var bad []error
	groups := spec.Groups()
	for _, g := range groups.All() {
		for _, p := range g.Params {
			name, _, ok := lookUp(r, spec, p.Parts[0].Name, peft.Prefix)
			switch {
			case ok && (p.Adapter || g == &groups.Score):
				wanted[name] = true
				bad = append(bad, CheckShape(Located{r, name}, p.Parts[0])...)
			case p.Adapter:
				bad = append(bad, fmt.Errorf("%s %v is missing", peft.Prefix+p.Parts[0].Name, p.Parts[0].Dims))
			}
		}
	}
	if extra := slices.DeleteFunc(r.Names(), func(name string) bool { return wanted[name] }); len(extra) > 0 {
		bad = append(bad, fmt.Errorf("it has weights that its target_modules do not cover: %q", extra))
	}
	if len(bad) > 0 {
		r.Close()
		return nil, fmt.Errorf("vlm: %s: %w: %w", dir, ErrWeights, errors.Join(bad...))
	}
	return &StoredAdapter{dir, r}, nil
}

// OpenCriticAdapter opens a critic's adapter. It must have the same settings as the
// policy's, because one executable serves both.
func OpenCriticAdapter(dir string, spec *model.Config, policy *peft.Config, log *slog.Logger) (*StoredAdapter, error) {
	c, err := ReadAdapterConfig(dir, log)
	if err != nil {
		return nil, err
	}
	if policy == nil {
		return nil, fmt.Errorf("vlm: %w: CriticPath %s holds an adapter, but the policy has none", backend.ErrOption, dir)
	}
	var bad field.Checks
	if c.Rank != policy.Rank || c.Scale() != policy.Scale() {
		bad.Say("rank %d, scaled by %v, but the policy's adapter has rank %d, scaled by %v; they must be the same",
			c.Rank, c.Scale(), policy.Rank, policy.Scale())
	}
	if saved := slices.DeleteFunc(slices.Clone(c.Saved), func(name string) bool {
		return name == "score"
	}); len(saved) > 0 {
		bad.Say("modules_to_save is %q, must be score alone", c.Saved)
	}
	if err := bad.Err(); err != nil {
		return nil, fmt.Errorf("vlm: %s: %w: %w", dir, peft.ErrConfig, err)
	}
	return OpenAdapter(dir, spec)
}

// AdapterSource fills adapters, and parameters stored with them, from a stored adapter;
// without one, from otherwise.
func AdapterSource(stored *StoredAdapter, spec *model.Config, otherwise Source) Source {
	if stored == nil {
		return otherwise
	}
	return func(p model.Param, part model.Stored, dst []float32) error {
		name, _, ok := lookUp(stored.Reader, spec, part.Name, peft.Prefix)
		if !ok { // no adapter: OpenAdapter has found all of them
			return otherwise(p, part, dst)
		}
		if _, err := stored.Float32(name, dst[:0]); err != nil {
			return fmt.Errorf("vlm: reading %s: %w", name, err)
		}
		if err := net.CheckFinite(name, dst); err != nil {
			return fmt.Errorf("vlm: reading %w (in %s)", err, stored.dir)
		}
		return nil
	}
}
