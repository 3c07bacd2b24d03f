package vlm

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"vagen/policy"
	"vagen/policy/vlm/internal/backend"
	"vagen/policy/vlm/internal/learn"
	"vagen/policy/vlm/internal/peft"
	"vagen/policy/vlm/internal/plugin"
	"vagen/policy/vlm/internal/weights"
)

// Description is the result of Check.
type Description struct {
	Family string // see Model.Family
	Vision bool   // the model reads images

	// Encoder encodes and decodes conversations as the opened model does, without its weights.
	// It also has the methods Ends, EncodeSystem, MaxPositions, ToolCalls and WithTools of Model.
	Encoder policy.Templated
}

// Check returns the error that Open would return for a model's folder, or for those of its
// critic, teacher and adapter, without opening a device or reading weights. It checks
// configuration, tokenizer, chat template, image processor, and the names, shapes and types
// of all tensors. A stored output head is compared with the embedding if the configuration
// ties the two. Backend cuda also needs an NVIDIA GPU.
func Check(ctx context.Context, dir string, o Options) (Description, error) {
	m, err := describe(dir, o)
	if err != nil {
		return Description{}, err
	}
	d := Description{Family: m.Family(), Vision: m.cfg.Vision != nil, Encoder: m.text}
	if o.Backend == backend.CUDA {
		if err := plugin.RequireGPU(); err != nil {
			return d, fmt.Errorf("vlm: %w: %s: %w", ErrUnavailable, backend.CUDA, err)
		}
	}
	for _, check := range []func() error{m.checkPolicy, m.checkCritic, m.checkTeacher} {
		if err := ctx.Err(); err != nil {
			return d, err
		}
		if err := check(); err != nil {
			return d, err
		}
	}
	return d, nil
}

func (m *Model) checkPolicy() error {
	spec := *m.cfg
	spec.Value = m.opts.Critic == SharedCritic
	stored, err := weights.OpenAdapter(m.opts.Adapter, &spec)
	if err != nil {
		return err
	}
	stored.Close()
	return weights.CheckTensors(m.dir, &spec)
}

func (m *Model) checkCritic() error {
	dir := m.opts.CriticPath
	if m.opts.Critic != SeparateCritic || dir == "" || learn.SameFolder(dir, m.dir) {
		return nil // none, or a copy of the policy
	}
	spec := learn.CriticSpec(m.cfg)
	if _, err := os.Stat(filepath.Join(dir, peft.ConfigFile)); err != nil {
		return weights.CheckTensors(dir, spec)
	}
	stored, err := weights.OpenCriticAdapter(dir, spec, m.adapter, m.opts.Log)
	if err != nil {
		return err
	}
	stored.Close()
	return nil
}

func (m *Model) checkTeacher() error {
	t, err := m.teacher()
	if t == nil || err != nil {
		return err
	}
	return weights.CheckTensors(m.opts.ReferencePath, t)
}
