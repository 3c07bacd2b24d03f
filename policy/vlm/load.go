package vlm

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/gomlx/compute/dtypes"

	"vagen/internal/regular"
	"vagen/internal/safetensors"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/generate"
	"vagen/policy/vlm/internal/learn"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/net"
	"vagen/policy/vlm/internal/peft"
	"vagen/policy/vlm/internal/weights"
)

// load puts the weights on the device.
func (m *Model) load() error {
	compute := dtypes.Float32
	if m.opts.BFloat16 {
		compute = dtypes.BFloat16
	}
	keep := map[Recompute]net.KeepMode{RecomputeNothing: net.KeepAll, RecomputeAttention: net.KeepMost, RecomputeBlocks: net.KeepInputs}[m.opts.Recompute]
	k := net.NewKernels(m.dev, m.cfg, compute, keep)
	spec := *m.cfg
	spec.Value = m.opts.Critic == SharedCritic
	m.net = net.New(k, &spec)
	if err := generate.CheckStates(m.opts.TokensPerCall, m.net); err != nil {
		return err
	}
	stored, err := weights.OpenAdapter(m.opts.Adapter, &spec)
	if err != nil {
		return err
	}
	defer stored.Close()
	if m.actor, err = m.loadInto(m.net, m.dir, stored, nil); err != nil {
		return err
	}
	if m.opts.Reference {
		if m.ref, err = m.loadReference(k, compute); err != nil {
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
	m.gen = m.newGenerator()
	return m.offload()
}

// loadReference returns the policy before training, or the teacher.
func (m *Model) loadReference(k *net.Kernels, compute dtypes.DType) (*learn.Learner, error) {
	dir, spec := m.opts.ReferencePath, *m.cfg
	switch {
	case dir != "":
		teacher, err := readConfig(dir)
		if err != nil {
			return nil, err
		}
		if err := m.checkTeacher(dir, teacher); err != nil {
			return nil, err
		}
		spec = *teacher
		k = net.NewKernels(m.dev, &spec, compute, net.KeepInputs)
	case m.adapter != nil:
		return m.newReference()
	default:
		dir = m.dir
	}
	return m.loadInto(net.New(k, &spec), dir, nil, nil)
}

// checkTeacher refuses a reference that reads other tokens or pictures than the policy.
func (m *Model) checkTeacher(dir string, teacher *model.Config) error {
	if teacher.Critic || teacher.Family != m.cfg.Family || teacher.ImageToken != m.cfg.ImageToken {
		return fmt.Errorf("vlm: %w: ReferencePath %s: a teacher must be a model of the policy's family %s with its image token %d, it is %s (critic: %v) with %d",
			ErrOption, dir, m.cfg.Family, m.cfg.ImageToken, teacher.Family, teacher.Critic, teacher.ImageToken)
	}
	var files [2][]byte
	for i, of := range []string{m.dir, dir} {
		var err error
		if files[i], err = regular.ReadFile(filepath.Join(of, "tokenizer.json")); err != nil {
			return fmt.Errorf("vlm: %w", err)
		}
	}
	if !bytes.Equal(files[0], files[1]) {
		return fmt.Errorf("vlm: %w: ReferencePath %s: its tokenizer.json differs from the policy's, so that tokens would mean other texts", ErrOption, dir)
	}
	return nil
}

// newGenerator returns a generator with the policy's weights.
func (m *Model) newGenerator() *generate.Generator {
	s := generate.Settings{MaxRows: m.opts.MaxRows, CacheTokens: m.opts.CacheTokens, TokensPerCall: m.opts.TokensPerCall, Sharded: m.sharded()}
	if m.tree {
		s.Leaves = m.leaves
	}
	var w []*generate.Weights
	for _, r := range m.actor.Replicas {
		w = append(w, &generate.Weights{Net: r.Net, Parts: r.Parts})
	}
	return generate.New(m.text, s, w)
}

// loadCritic reads a separate critic: a model, or an adapter on the policy's.
func (m *Model) loadCritic(k *net.Kernels) (*learn.Learner, error) {
	spec := *m.cfg
	spec.Critic, spec.Tied = true, false
	n, dir := net.New(k, &spec), m.opts.CriticPath
	if dir == "" || sameFolder(dir, m.dir) {
		return m.loadInto(n, m.dir, nil, m.base())
	}
	if _, err := os.Stat(filepath.Join(dir, peft.ConfigFile)); err != nil {
		return m.loadInto(n, dir, nil, nil)
	}
	stored, err := weights.OpenCriticAdapter(dir, &spec, m.adapter, m.opts.Log)
	if err != nil {
		return nil, err
	}
	defer stored.Close()
	return m.loadInto(n, m.dir, stored, m.base())
}

// loadInto loads a folder's weights for a net, except those in base. A missing value head
// is created, and so are adapters without a stored one.
func (m *Model) loadInto(n *net.Net, dir string, adapter *weights.StoredAdapter, base map[string]*device.Array) (*learn.Learner, error) {
	r, err := safetensors.OpenSharded(dir)
	if err != nil {
		return nil, fmt.Errorf("vlm: %w", err)
	}
	defer r.Close()
	found, unused, err := weights.Resolve(r, n.Spec)
	if err != nil {
		return nil, fmt.Errorf("vlm: %s: %w", dir, err)
	}
	unused = slices.DeleteFunc(unused, func(name string) bool { return name == "lm_head.weight" })
	if len(unused) > 0 {
		m.opts.Log.Warn("tensors of the checkpoint are not used", "folder", dir, "tensors", unused)
	}
	t, err := weights.New(m.homes(n.Groups.All()), n.Groups.All(), base, weights.CheckpointSource(r, dir, found, weights.AdapterSource(adapter, n.Spec, m.newWeights())))
	if err != nil {
		return nil, err
	}
	device.HugePages(slices.Concat(t.Arrays...))
	return learn.New(n, t, found), nil
}

// newWeights fills value heads and adapters that are not in a checkpoint.
func (m *Model) newWeights() weights.Source {
	draw := weights.NewParts(m.cfg, m.opts.Seed)
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

// homes returns where weights are kept: on the first device, or divided.
func (m *Model) homes(groups []*model.Group) weights.Placement {
	if !m.sharded() {
		return weights.On(m.dev)
	}
	return weights.Divided(m.devices, groups)
}

// sharded reports whether weights are divided over the devices.
func (m *Model) sharded() bool { return m.opts.ShardWeights && len(m.devices) > 1 }

// replicate copies the weights of all learners to the other devices.
func (m *Model) replicate() error {
	learners := []*learn.Learner{m.actor, m.ref, m.critic}
	for _, l := range learners {
		if l != nil {
			l.Tree = m.tree
			l.Replicas = append(l.Replicas, make([]*learn.Replica, len(m.devices)-1)...)
		}
	}
	if m.sharded() {
		for _, l := range learners {
			if l != nil {
				l.ShareWeights(m.devices)
			}
		}
		return nil
	}
	return net.Each(len(m.devices), func(i int) error {
		if i == 0 {
			return nil
		}
		copies := map[*device.Array]*device.Array{} // by array on the first device
		for _, l := range learners {
			if l == nil {
				continue
			}
			var err error
			if l.Replicas[i], err = l.CopyTo(m.devices[i], copies); err != nil {
				return fmt.Errorf("vlm: copying the weights to device %d: %w", i, err)
			}
		}
		return nil
	})
}

// offload applies the options to the loaded weights.
func (m *Model) offload() error {
	m.actor.OffloadMoments = m.opts.OffloadMoments
	if m.critic != nil {
		m.critic.OffloadMoments = m.opts.OffloadCriticMoments
		if err := m.critic.Offload(m.opts.OffloadCritic, m.homes); err != nil {
			return err
		}
	}
	if m.ref == nil {
		return nil
	}
	return m.ref.Offload(m.opts.OffloadReference, m.homes)
}
