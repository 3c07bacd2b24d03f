package learn

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"vagen/internal/safetensors"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/net"
	"vagen/policy/vlm/internal/peft"
	"vagen/policy/vlm/internal/weights"
)

// Load puts the weights of a model on its devices.
func Load(s Options) (*Sets, error) {
	m := &Sets{Options: s}
	if err := m.load(); err != nil {
		m.Free()
		return nil, err
	}
	return m, nil
}

func (s *Sets) load() error {
	stored, err := weights.OpenAdapter(s.StoredAdapter, s.Net.Spec)
	if err != nil {
		return err
	}
	defer stored.Close()
	if s.Actor, err = s.loadInto(s.Net, s.Dir, stored, nil); err != nil {
		return err
	}
	if s.Reference && s.Teacher != nil {
		k := net.NewKernels(s.Devices[0], s.Teacher, s.Net.Compute, net.KeepInputs, s.Net.Share)
		s.Ref, err = s.loadInto(net.New(k, s.Teacher), s.TeacherDir, nil, nil)
	} else if s.Reference && s.Adapter != nil {
		s.Ref, err = s.newReference()
	} else if s.Reference {
		spec := *s.Config
		s.Ref, err = s.loadInto(net.New(s.Net.Kernels, &spec), s.Dir, nil, nil)
	}
	if err != nil {
		return err
	}
	if s.CriticOptions.Kind == SeparateCritic {
		if s.Critic, err = s.loadCritic(); err != nil {
			return err
		}
	}
	if err := s.replicate(); err != nil {
		return err
	}
	return s.offload()
}

// loadCritic reads a separate critic: a model, or an adapter on the policy's.
func (s *Sets) loadCritic() (*Learner, error) {
	spec := CriticSpec(s.Config)
	n, dir := net.New(s.Net.Kernels, spec), s.CriticOptions.Dir
	if dir == "" || SameFolder(dir, s.Dir) {
		return s.loadInto(n, s.Dir, nil, s.base())
	}
	if _, err := os.Stat(filepath.Join(dir, peft.ConfigFile)); err != nil {
		return s.loadInto(n, dir, nil, nil)
	}
	stored, err := weights.OpenCriticAdapter(dir, spec, s.Adapter, s.Log)
	if err != nil {
		return nil, err
	}
	defer stored.Close()
	return s.loadInto(n, s.Dir, stored, s.base())
}

// loadInto loads a folder's weights for a net, except those in base. A missing value head
// is created, and so are adapters without a stored one.
func (s *Sets) loadInto(
	n *net.Net, dir string, adapter *weights.StoredAdapter, base map[string]*device.Array,
) (*Learner, error) {
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
		s.Log.Warn("tensors of the checkpoint are not used", "folder", dir, "tensors", unused)
	}
	from := weights.CheckpointSource(r, dir, found, weights.AdapterSource(adapter, n.Spec, s.newWeights()))
	t, err := weights.New(s.homes(n.Groups.All()), n.Groups.All(), base, from)
	if err != nil {
		return nil, err
	}
	device.HugePages(slices.Concat(t.Arrays...))
	return New(n, t, found), nil
}

// newWeights fills value heads and adapters that are not in a checkpoint.
func (s *Sets) newWeights() weights.Source {
	draw := weights.NewParts(s.Config, s.Seed)
	if !s.CriticOptions.ZeroHead {
		return draw
	}
	return func(p model.Param, part model.Stored, dst []float32) error {
		if p.Adapter {
			return draw(p, part, dst)
		}
		clear(dst)
		return nil
	}
}

// homes returns where weights are kept: on the first device, or divided.
func (s *Sets) homes(groups []*model.Group) weights.Placement {
	if !s.Sharded {
		return weights.On(s.Devices[0])
	}
	return weights.Divided(s.Devices, groups)
}

// replicate copies the weights of all learners to the other devices.
func (s *Sets) replicate() error {
	for _, l := range s.All() {
		l.Tree = s.Parts > 0
		if s.Sharded {
			l.ShareWeights(s.Devices)
		} else {
			l.Replicas = append(l.Replicas, make([]*Replica, len(s.Devices)-1)...)
		}
	}
	if s.Sharded {
		return nil
	}
	return net.Each(len(s.Devices), func(i int) error {
		if i == 0 {
			return nil
		}
		copies := map[*device.Array]*device.Array{} // by array on the first device
		for _, l := range s.All() {
			var err error
			if l.Replicas[i], err = l.CopyTo(s.Devices[i], copies); err != nil {
				return fmt.Errorf("vlm: copying the weights to device %d: %w", i, err)
			}
		}
		return nil
	})
}

// offload moves weights to host memory that belong there.
func (s *Sets) offload() error {
	s.Actor.OffloadMoments = s.OffloadMoments
	if s.Critic != nil {
		s.Critic.OffloadMoments = s.CriticOptions.OffloadMoments
		if err := s.Critic.Offload(s.CriticOptions.Offload, s.homes); err != nil {
			return err
		}
	}
	if s.Ref == nil {
		return nil
	}
	return s.Ref.Offload(s.OffloadReference, s.homes)
}

// CriticSpec returns the configuration of a separate critic.
func CriticSpec(policy *model.Config) *model.Config {
	spec := *policy
	spec.Critic, spec.Tied = true, false
	return &spec
}

// SameFolder reports whether two paths name the same folder.
func SameFolder(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}
