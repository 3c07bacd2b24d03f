package vlm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	. "github.com/gomlx/gomlx/core/graph"

	"vagen/internal/regular"
	"vagen/internal/safetensors"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/peft"
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

// decoderPattern matches the linear maps of decoder layers, of all families.
const decoderPattern = `model\.(language_model\.)?layers\.\d+\.(self_attn\.[qkvo]|mlp\.(gate|up|down))_proj`

// configureAdapters determines the adapters and the frozen parameters from the options.
func (m *Model) configureAdapters() error {
	switch lora := m.opts.LoRA; {
	case lora != nil && m.opts.Adapter != "":
		return fmt.Errorf("vlm: %w: LoRA and Adapter are both set, but a stored adapter has its own settings", ErrOption)
	case lora != nil:
		m.adapter = &peft.Config{Rank: lora.Rank, Alpha: lora.Alpha, RankStabilized: lora.RankStabilized, Targets: lora.Targets, Pattern: lora.Pattern}
		if len(lora.Targets) == 0 && lora.Pattern == "" {
			m.adapter.Pattern = decoderPattern
		}
	case m.opts.Adapter != "":
		c, err := m.readAdapterConfig(m.opts.Adapter)
		if err != nil {
			return err
		}
		if len(c.Saved) > 0 {
			return fmt.Errorf("vlm: %s: %w: modules_to_save is %q, which a policy does not have", m.opts.Adapter, peft.ErrConfig, c.Saved)
		}
		m.adapter = &c
	}
	if m.adapter != nil {
		if err := m.adapter.Check(); err != nil {
			return fmt.Errorf("vlm: %w: LoRA: %w", ErrOption, err)
		}
		m.cfg.LoRA = &model.LoRA{Rank: m.adapter.Rank, Scale: m.adapter.Scale(), Match: m.adapter.Match()}
		var err error
		if m.opts.LoRA != nil {
			err = absentTargets(m.cfg, m.adapter.Targets)
		}
		if err == nil {
			err = checkTargets(m.cfg)
		}
		if err != nil {
			return fmt.Errorf("vlm: %w: LoRA: %w", ErrOption, err)
		}
	}
	return m.configureFrozen()
}

// checkTargets checks that the adapters are on linear maps of blocks, and on the same
// ones in each layer, because one executable serves all layers.
func checkTargets(cfg *model.Config) error {
	g := cfg.Groups()
	inner := map[*model.Group]bool{}
	found := false
	for _, stack := range [][]model.Group{g.Layers, g.Blocks} {
		for i := range stack {
			inner[&stack[i]] = true
			if a, b := stack[0].Params, stack[i].Params; len(a) != len(b) || !slices.EqualFunc(a, b, sameRole) {
				return fmt.Errorf("%s and %s have different adapters, must be the same in all layers", stack[i].Name, stack[0].Name)
			}
			found = found || slices.ContainsFunc(stack[i].Params, func(p model.Param) bool { return p.Adapter })
		}
	}
	for _, group := range g.All() {
		if inner[group] {
			continue
		}
		for _, p := range group.Params {
			for _, part := range p.Parts {
				if len(part.Dims) == 2 && cfg.LoRA.Match(part.Module()) {
					return fmt.Errorf("%s is a target, but only linear layers of decoder layers and vision blocks can have adapters", part.Module())
				}
			}
		}
	}
	if !found {
		return errors.New("no linear layer of the model is a target")
	}
	return nil
}

// absentTargets returns an error for targets that no linear map has in its name. It lists
// the possible ones.
func absentTargets(cfg *model.Config, targets []string) error {
	g := cfg.Groups()
	var maps, names []string
	for _, stack := range [][]model.Group{g.Layers, g.Blocks} {
		for i := range stack {
			for _, p := range stack[i].Params {
				for _, part := range p.Parts {
					if len(part.Dims) == 2 && !p.Adapter {
						maps = append(maps, part.Module())
						names = append(names, part.Module()[strings.LastIndex(part.Module(), ".")+1:])
					}
				}
			}
		}
	}
	var absent []string
	for _, target := range targets {
		on := peft.Config{Targets: []string{target}}.Match()
		if !slices.ContainsFunc(maps, on) {
			absent = append(absent, target)
		}
	}
	if len(absent) == 0 {
		return nil
	}
	slices.Sort(names)
	return fmt.Errorf("target_modules: the model's blocks have no linear layer %q, only %q", absent, slices.Compact(names))
}

// sameRole reports whether parameters of two layers have the same role in them.
func sameRole(a, b model.Param) bool {
	place := func(p model.Param) string { return layerNumber.ReplaceAllString(p.Parts[0].Name, ".") }
	return place(a) == place(b)
}

var layerNumber = regexp.MustCompile(`\.(layers|blocks)\.\d+\.`)

// configureFrozen determines the frozen weights from Options.Freeze.
func (m *Model) configureFrozen() error {
	if len(m.opts.Freeze) == 0 {
		return nil
	}
	patterns := make([]*regexp.Regexp, len(m.opts.Freeze))
	for i, glob := range m.opts.Freeze {
		patterns[i] = regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(glob), `\*`, ".*") + "$")
	}
	m.cfg.Frozen = func(name string) bool {
		return slices.ContainsFunc(patterns, func(re *regexp.Regexp) bool { return re.MatchString(name) })
	}
	used := make([]bool, len(patterns))
	for _, g := range m.cfg.Groups().All() {
		for _, p := range g.Params {
			frozen := 0
			for _, part := range p.Parts {
				for i, re := range patterns {
					used[i] = used[i] || re.MatchString(part.Name)
				}
				if m.cfg.Frozen(part.Name) {
					frozen++
				}
			}
			if frozen > 0 && frozen < len(p.Parts) {
				return fmt.Errorf("vlm: %w: Freeze matches only some of the weights that are stacked with %s (q, k and v; gate and up), must match all or none", ErrOption, p.Parts[0].Name)
			}
		}
	}
	if i := slices.Index(used, false); i >= 0 {
		return fmt.Errorf("vlm: %w: Freeze: no weight matches %q", ErrOption, m.opts.Freeze[i])
	}
	return nil
}

// merged returns a group with its adapters merged into the weights. The caller must free
// the arrays in made.
func (l *learner) merged(gi int) (t *tensors, made []*device.Array, err error) {
	t = l.weights.part(gi)
	g, n := l.weights.groups[gi], len(t.groups[0].Params)
	if n == len(g.Params) {
		return t, nil, nil
	}
	layer := slices.IndexFunc(l.net.groups.Layers, func(layer model.Group) bool { return layer.Name == g.Name })
	made, err = l.net.run(l.net.mergeAdapters(layer, n), l.weights.arrays[gi])
	if err != nil {
		return nil, nil, err
	}
	t.arrays[0] = made
	return t, made, nil
}

// mergeAdapters: weights of a layer of the decoder (−1: of a vision block), followed by its
// adapters → weights with the adapters merged in.
func (k *kernels) mergeAdapters(layer, n int) *device.Program {
	block, name := k.vision, "merge vision adapters"
	if layer >= 0 {
		block, name = k.layers[layer], fmt.Sprintf("merge adapters %d", k.first(layer))
	}
	return k.program(name, func(in []*Node) []*Node { return block.Merge(in)[:n] })
}

// besideAdapter reports whether a parameter is stored in an adapter's folder: the adapter's
// own parameters and those of a critic's value head are.
func (l *learner) besideAdapter(group int, p model.Param) bool {
	return p.Adapter || l.net.spec.Critic && l.isScore(group)
}

// saveAdapter writes a folder that PEFT reads: the adapters, and a critic's value head as
// a module that is stored in full.
func (m *Model) saveAdapter(ctx context.Context, l *learner, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("vlm: save: %w", err)
	}
	c := *m.adapter
	c.Base, c.Dropout, c.Saved = m.dir, 0, nil
	if l.net.spec.Critic {
		c.Saved = []string{"score"}
	}
	stored := l.besideAdapter
	var list []safetensors.Tensor
	for gi, g := range l.weights.groups {
		for _, p := range g.Params {
			if stored(gi, p) {
				list = append(list, safetensors.Tensor{Name: peft.Prefix + p.Parts[0].Name, DType: safetensors.F32, Shape: p.Dims})
			}
		}
	}
	w, err := safetensors.Create(filepath.Join(dir, peft.WeightsFile), list, map[string]string{"format": "pt"})
	if err != nil {
		return fmt.Errorf("vlm: save: %w", err)
	}
	defer w.Close()
	for gi, g := range l.weights.groups {
		if err := ctx.Err(); err != nil {
			return err
		}
		for i, p := range g.Params {
			if !stored(gi, p) {
				continue
			}
			x, err := l.weights.read(gi, i, make([]float32, p.Size()))
			if err == nil {
				err = w.Float32(peft.Prefix+p.Parts[0].Name, x)
			}
			if err != nil {
				return fmt.Errorf("vlm: save: %w", err)
			}
		}
	}
	if err := w.Commit(); err != nil {
		return fmt.Errorf("vlm: save: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, peft.ConfigFile), c.JSON(), 0o644); err != nil {
		return fmt.Errorf("vlm: save: %w", err)
	}
	return nil
}

// AdapterBase reports whether a folder holds an adapter in PEFT's layout and no model,
// like the folder actor of a checkpoint with adapters. base is the adapter's base model,
// "" if its configuration does not name one.
func AdapterBase(dir string) (base string, ok bool, err error) {
	if _, err := os.Stat(filepath.Join(dir, "config.json")); err == nil {
		return "", false, nil
	}
	raw, err := regular.ReadFile(filepath.Join(dir, peft.ConfigFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("vlm: %w", err)
	}
	c, err := peft.Parse(raw)
	if err != nil {
		return "", false, fmt.Errorf("vlm: %s: %w", dir, err)
	}
	return c.Base, true, nil
}

// ExportAdapter writes the policy's adapters alone to dir, as a folder in PEFT's layout. A
// model without adapters is an error that wraps ErrOption.
func (m *Model) ExportAdapter(ctx context.Context, dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return ErrClosed
	case m.adapter == nil:
		return fmt.Errorf("vlm: %w: the model has no adapters to export", ErrOption)
	}
	return m.saveAdapter(ctx, m.actor, dir)
}

// Export writes the policy to dir as a self-contained Hugging Face folder: adapters are
// merged into the weights, and there is no value head. A dir that already holds a model
// is an error and is not changed.
func (m *Model) Export(ctx context.Context, dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	return m.saveModel(ctx, m.actor, dir, false)
}
