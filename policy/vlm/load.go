package vlm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"

	"vagen/internal/safetensors"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/peft"
)

// ErrWeights is wrapped by errors about tensors that are missing, have the wrong
// shape, or contradict the config.
var ErrWeights = errors.New("weights do not fit the config")

// weightTypes are the types of tensors that are widened to float32.
var weightTypes = []safetensors.DType{safetensors.F32, safetensors.BF16, safetensors.F16}

// names maps every part of a model to its tensor in a checkpoint, in the old or the new
// layout.
type names map[string]safetensors.Tensor

// resolve finds every parameter in the checkpoint; its error lists all problems. A value
// head may be missing. unused are tensors that the model does not have.
func resolve(r *safetensors.Reader, cfg *model.Config) (found names, unused []string, err error) {
	found = names{}
	used := map[string]bool{}
	var problems []error
	for _, g := range cfg.Groups().All() {
		for _, p := range g.Params {
			if p.Adapter {
				continue // not in the model's own files
			}
			for _, part := range p.Parts {
				name, info, ok := lookUp(r, cfg, part.Name)
				switch {
				case !ok && strings.HasPrefix(part.Name, "score."): // it becomes a new value head
				case !ok && cfg.OldName(part.Name) != part.Name:
					problems = append(problems, fmt.Errorf("%s %v is missing, and so is %s", part.Name, part.Dims, cfg.OldName(part.Name)))
				case !ok:
					problems = append(problems, fmt.Errorf("%s %v is missing", part.Name, part.Dims))
				case !slices.Equal(info.Shape, part.Dims):
					problems = append(problems, fmt.Errorf("%s has shape %v, must be %v", name, info.Shape, part.Dims))
				case !slices.Contains(weightTypes, info.DType):
					problems = append(problems, fmt.Errorf("%s is of type %v, must be one of %v", name, info.DType, weightTypes))
				default:
					found[part.Name], used[name] = info, true
				}
			}
		}
	}
	if cfg.Tied {
		if err := checkTied(r, cfg, found); err != nil {
			problems = append(problems, err)
		}
		used["lm_head.weight"] = true
	}
	if len(problems) > 0 {
		return nil, nil, fmt.Errorf("%w, in %d places:\n%w", ErrWeights, len(problems), errors.Join(problems...))
	}
	for _, name := range r.Names() {
		if !used[name] {
			unused = append(unused, name)
		}
	}
	return found, unused, nil
}

// lookUp finds a tensor by its name in memory, or by the name of the older layout.
func lookUp(r *safetensors.Reader, cfg *model.Config, name string) (string, safetensors.Tensor, bool) {
	if info, ok := r.Info(name); ok {
		return name, info, true
	}
	old := cfg.OldName(name)
	info, ok := r.Info(old)
	return old, info, ok
}

// checkTied rejects a checkpoint whose config ties the head to the embedding but that
// stores a different head.
func checkTied(r *safetensors.Reader, cfg *model.Config, found names) error {
	if _, ok := r.Info("lm_head.weight"); !ok {
		return nil
	}
	head, err := r.Bytes("lm_head.weight")
	if err != nil {
		return err
	}
	embed, err := r.Bytes(found[cfg.Groups().Embed.Params[0].Parts[0].Name].Name)
	if err != nil {
		return err
	}
	if string(head) != string(embed) {
		return errors.New("config.json ties lm_head to the embedding, but lm_head.weight is stored and differs from it")
	}
	return nil
}

// checkpointSource fills parameters from the checkpoint in dir, and those that it does not
// have from otherwise.
func checkpointSource(r *safetensors.Reader, dir string, found names, otherwise source) source {
	return func(g *model.Group, p model.Param, part model.Part, dst []float32) error {
		t, ok := found[part.Name]
		if !ok {
			return otherwise(g, p, part, dst)
		}
		if _, err := r.Float32(t.Name, dst[:0]); err != nil {
			return fmt.Errorf("vlm: reading %s: %w", t.Name, err)
		}
		if err := checkFinite(t.Name, dst); err != nil {
			return fmt.Errorf("vlm: reading %s: %w", filepath.Join(dir, r.Shard(t.Name)), err)
		}
		return r.Release(t.Name)
	}
}

// load puts the weights on the device.
func (m *Model) load() error {
	compute := dtypes.Float32
	if m.opts.BFloat16 {
		compute = dtypes.BFloat16
	}
	keep := map[Recompute]keepMode{RecomputeNothing: keepAll, RecomputeAttention: keepMost, RecomputeBlocks: keepInputs}[m.opts.Recompute]
	k := newKernels(m.dev, m.cfg, compute, keep)
	spec := *m.cfg
	spec.Value = m.opts.Critic == SharedCritic
	m.net = newNet(k, &spec)
	if err := m.opts.checkStates(m.net); err != nil {
		return err
	}
	stored, err := m.openAdapter(m.opts.Adapter, &spec)
	if err != nil {
		return err
	}
	defer stored.close()
	if m.actor, err = m.loadInto(m.net, m.dir, stored, nil); err != nil {
		return err
	}
	if m.opts.Reference && m.adapter != nil {
		if m.ref, err = m.newReference(); err != nil {
			return err
		}
	} else if m.opts.Reference {
		refSpec := *m.cfg
		if m.ref, err = m.loadInto(newNet(k, &refSpec), m.dir, nil, nil); err != nil {
			return err
		}
	}
	if m.opts.Critic == SeparateCritic {
		if m.critic, err = m.loadCritic(k); err != nil {
			return err
		}
	}
	if err := m.replicate(); err != nil {
		return err
	}
	return m.offload()
}

// loadCritic reads a separate critic: a model, or an adapter on the policy's.
func (m *Model) loadCritic(k *kernels) (*learner, error) {
	spec := *m.cfg
	spec.Critic, spec.Tied = true, false
	n, dir := newNet(k, &spec), m.opts.CriticPath
	if dir == "" || sameFolder(dir, m.dir) {
		return m.loadInto(n, m.dir, nil, m.base())
	}
	if _, err := os.Stat(filepath.Join(dir, peft.ConfigFile)); err != nil {
		return m.loadInto(n, dir, nil, nil)
	}
	stored, err := m.openCriticAdapter(dir, &spec)
	if err != nil {
		return nil, err
	}
	defer stored.close()
	return m.loadInto(n, m.dir, stored, m.base())
}

// loadInto loads a folder's weights for a net, except those in base. A missing value head
// is created, and so are adapters without a stored one.
func (m *Model) loadInto(n *net, dir string, adapter *storedAdapter, base map[string]*device.Array) (*learner, error) {
	r, err := safetensors.OpenSharded(dir)
	if err != nil {
		return nil, fmt.Errorf("vlm: %w", err)
	}
	defer r.Close()
	found, unused, err := resolve(r, n.spec)
	if err != nil {
		return nil, fmt.Errorf("vlm: %s: %w", dir, err)
	}
	unused = slices.DeleteFunc(unused, func(name string) bool { return name == "lm_head.weight" })
	if len(unused) > 0 {
		m.opts.Log.Warn("tensors of the checkpoint are not used", "folder", dir, "tensors", unused)
	}
	t, err := newTensors(m.homes(n.groups.All()), n.groups.All(), base, checkpointSource(r, dir, found, m.adapterSource(adapter, m.newWeights())))
	if err != nil {
		return nil, err
	}
	device.HugePages(slices.Concat(t.arrays...))
	return newLearner(n, t, found), nil
}

// newWeights fills value heads and adapters that are not in a checkpoint.
func (m *Model) newWeights() source {
	draw := initSource(m.cfg, m.opts.Seed)
	if !m.opts.ZeroValueHead {
		return draw
	}
	return func(g *model.Group, p model.Param, part model.Part, dst []float32) error {
		if p.Adapter {
			return draw(g, p, part, dst)
		}
		clear(dst)
		return nil
	}
}
