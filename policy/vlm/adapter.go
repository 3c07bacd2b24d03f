package vlm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	. "github.com/gomlx/gomlx/pkg/core/graph"

	"vagen/internal/safetensors"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/peft"
)

// LoRA sets low-rank adapters (Hu et al., arXiv:2106.09685) that are trained in
// place of the weights: of a linear map W they make W + s·B·A with s =
// Alpha/Rank, A of Rank rows, random at first, and B of Rank columns, zero at
// first. Value heads are trained in full. The reference policy is the model with
// its adapters off and takes no memory.
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

// decoderPattern fits the linear maps of decoder layers, of all families.
const decoderPattern = `model\.(language_model\.)?layers\.\d+\.(self_attn\.[qkvo]|mlp\.(gate|up|down))_proj`

// adapt settles from the options which adapters there are and what is frozen.
func (m *Model) adapt() error {
	switch lora := m.opts.LoRA; {
	case lora != nil && m.opts.Adapter != "":
		return fmt.Errorf("vlm: %w: LoRA and Adapter are both set, but a stored adapter brings its own settings", ErrOption)
	case lora != nil:
		m.adapter = &peft.Config{Rank: lora.Rank, Alpha: lora.Alpha, RankStabilized: lora.RankStabilized, Targets: lora.Targets, Pattern: lora.Pattern}
		if len(lora.Targets) == 0 && lora.Pattern == "" {
			m.adapter.Pattern = decoderPattern
		}
	case m.opts.Adapter != "":
		raw, err := os.ReadFile(filepath.Join(m.opts.Adapter, peft.ConfigFile))
		if err != nil {
			return fmt.Errorf("vlm: %w", err)
		}
		c, err := peft.Parse(raw)
		if err != nil {
			return fmt.Errorf("vlm: %s: %w", m.opts.Adapter, err)
		}
		if c.Dropout > 0 {
			m.opts.Log.Warn("the adapter's dropout is not applied in training", "lora_dropout", c.Dropout)
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
		if err := checkTargets(m.cfg); err != nil {
			return fmt.Errorf("vlm: %w: LoRA: %w", ErrOption, err)
		}
	}
	return m.freeze()
}

// checkTargets makes sure that the adapters are on linear maps of blocks, on the
// same in each layer, for one executable serves them all.
func checkTargets(cfg *model.Config) error {
	g := cfg.Groups()
	inner := map[*model.Group]bool{}
	found := false
	for _, stack := range [][]model.Group{g.Layers, g.Blocks} {
		for i := range stack {
			inner[&stack[i]] = true
			if a, b := stack[0].Params, stack[i].Params; len(a) != len(b) || !slices.EqualFunc(a, b, alike) {
				return fmt.Errorf("%s has other adapters than %s; they must be the same in all layers", stack[i].Name, stack[0].Name)
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
					return fmt.Errorf("%s is a target; only linear maps of decoder layers and vision blocks can be", part.Module())
				}
			}
		}
	}
	if !found {
		return errors.New("no linear map of the model is a target")
	}
	return nil
}

// alike reports whether parameters of two layers have the same place in them.
func alike(a, b model.Param) bool {
	place := func(p model.Param) string { return layerNumber.ReplaceAllString(p.Parts[0].Name, ".") }
	return place(a) == place(b)
}

var layerNumber = regexp.MustCompile(`\.(layers|blocks)\.\d+\.`)

// freeze settles which weights the options leave as they are.
func (m *Model) freeze() error {
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
				return fmt.Errorf("vlm: %w: Freeze fits some of %s and what is stacked with it (q, k and v; gate and up), must fit all or none", ErrOption, p.Parts[0].Name)
			}
		}
	}
	if i := slices.Index(used, false); i >= 0 {
		return fmt.Errorf("vlm: %w: Freeze fits no weight with %q", ErrOption, m.opts.Freeze[i])
	}
	return nil
}

// adapterSource fills adapters from a stored one, or as new ones start.
func (m *Model) adapterSource(stored *safetensors.Reader, otherwise source) source {
	return func(g *model.Group, p model.Param, part model.Part, dst []float32) error {
		if stored == nil || !p.Adapter {
			return otherwise(g, p, part, dst)
		}
		name, ok := adapterName(stored, m.cfg, part)
		if !ok {
			return fmt.Errorf("vlm: %w: %s %v is missing in %s", ErrWeights, peft.Prefix+part.Name, part.Dims, m.opts.Adapter)
		}
		if bad := fits(located{stored, name}, part); len(bad) > 0 {
			return fmt.Errorf("vlm: %w: %w (in %s)", ErrWeights, errors.Join(bad...), m.opts.Adapter)
		}
		_, err := stored.Float32(name, dst[:0])
		return err
	}
}

// adapterName finds an adapter's matrix by its name in memory, or by that of
// adapters made by older versions.
func adapterName(r *safetensors.Reader, cfg *model.Config, part model.Part) (string, bool) {
	for _, name := range []string{peft.Prefix + part.Name, peft.Prefix + cfg.OldName(part.Name)} {
		if _, ok := r.Info(name); ok {
			return name, true
		}
	}
	return "", false
}

// openAdapter opens the weights of a stored adapter and refuses ones that the
// configuration does not ask for.
func (m *Model) openAdapter() (*safetensors.Reader, error) {
	if m.opts.Adapter == "" {
		return nil, nil
	}
	r, err := safetensors.Open(filepath.Join(m.opts.Adapter, peft.WeightsFile))
	if err != nil {
		return nil, fmt.Errorf("vlm: %w", err)
	}
	wanted := map[string]bool{}
	for _, g := range m.cfg.Groups().All() {
		for _, p := range g.Params {
			if name, ok := adapterName(r, m.cfg, p.Parts[0]); p.Adapter && ok {
				wanted[name] = true
			}
		}
	}
	extra := slices.DeleteFunc(r.Names(), func(name string) bool { return wanted[name] })
	if len(extra) > 0 {
		r.Close()
		return nil, fmt.Errorf("vlm: %w: %s has weights that its target_modules do not cover: %q", ErrWeights, m.opts.Adapter, extra)
	}
	return r, nil
}

// dimmed returns the learner's arrays with its adapters off: their second halves
// are the zeros of off, which has an array for each shape.
func (l *learner) dimmed(off map[string]*device.Array) *parts {
	t := &tensors{groups: l.weights.groups}
	for gi, g := range l.weights.groups {
		arrays := slices.Clone(l.weights.arrays[gi])
		for i, p := range g.Params {
			if p.Adapter && p.Init == model.InitZero {
				arrays[i] = off[fmt.Sprint(p.Dims)]
			}
		}
		t.arrays = append(t.arrays, arrays)
	}
	return l.net.parts(t)
}

// newOff makes the zeros that switch adapters off.
func (l *learner) newOff() (map[string]*device.Array, error) {
	off := map[string]*device.Array{}
	for _, g := range l.weights.groups {
		for _, p := range g.Params {
			key := fmt.Sprint(p.Dims)
			if !p.Adapter || p.Init != model.InitZero || off[key] != nil {
				continue
			}
			a, err := device.Put(l.net.dev, make([]float32, p.Size()), p.Dims...)
			if err != nil {
				freeOff(off)
				return nil, err
			}
			off[key] = a
		}
	}
	return off, nil
}

func freeOff(off map[string]*device.Array) {
	for _, a := range off {
		a.Free()
	}
}

// merged returns a group without its adapters, which are added to the weights.
// What it made must be freed.
func (l *learner) merged(gi int) (t *tensors, made []*device.Array, err error) {
	t = l.weights.part(gi)
	g, n := l.weights.groups[gi], len(t.groups[0].Params)
	if n == len(g.Params) {
		return t, nil, nil
	}
	block := l.net.text
	if !slices.ContainsFunc(l.net.groups.Layers, func(layer model.Group) bool { return layer.Name == g.Name }) {
		block = l.net.vision
	}
	made, err = l.net.mergeAdapters(block, n).Run(l.weights.arrays[gi])
	if err != nil {
		return nil, nil, err
	}
	t.arrays[0] = made
	return t, made, nil
}

// mergeAdapters: weights of a block, adapters behind them → weights with the
// adapters in them.
func (k *kernels) mergeAdapters(block *model.Block, n int) *device.Program {
	name := "merge adapters"
	if block == k.vision {
		name = "merge vision adapters"
	}
	return k.program(name, func(in []*Node) []*Node { return block.Merge(in)[:n] })
}

// besideAdapter reports whether a parameter is stored with an adapter: it is of it,
// or of a critic's value head.
func (l *learner) besideAdapter(group int, p model.Param) bool {
	return p.Adapter || l.net.spec.Critic && l.isScore(group)
}

// saveAdapter writes a folder that PEFT reads: the adapters, and a critic's value
// head as a module that is stored in full.
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

// Export writes the policy to dir as a Hugging Face folder that needs nothing
// else: with adapters merged into the weights, and without a value head. dir
// must not hold a model.
func (m *Model) Export(ctx context.Context, dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	return m.saveModel(ctx, m.actor, dir, false)
}
