package vlm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"vagen/internal/regular"
	"vagen/internal/safetensors"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/weights"
)

// The folders of a checkpoint.
const (
	actorFolder     = "actor"     // the policy, in the layout it was loaded from
	criticFolder    = "critic"    // a separate critic, or a shared one's value head
	optimizerFolder = "optimizer" // moments, and float32 masters where the weights are stored in a narrower type
)

// modelFiles are the files besides the weights that other programs need. They are copied
// from the model's folder if they exist.
var modelFiles = []string{
	"config.json", "generation_config.json", "preprocessor_config.json", "processor_config.json",
	"video_preprocessor_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
	"added_tokens.json", "vocab.json", "merges.txt", "chat_template.jinja", "chat_template.json",
}

// ErrCheckpoint is wrapped by errors about checkpoints that do not fit the model.
var ErrCheckpoint = errors.New("checkpoint does not fit the model")

// Save implements policy.Learner. It writes the folders actor, critic and optimizer to
// dir. actor loads in transformers and vLLM; with adapters it is a PEFT folder with only
// the adapters (see Export for merged weights). Restore needs all of them. A folder that
// is not empty is an error that wraps fs.ErrExist, because files of an older checkpoint
// would be restored with this one. The folder is not synced as a whole: for an atomic
// checkpoint, write to a temporary folder and rename it.
func (m *Model) Save(ctx context.Context, dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	return m.write(ctx, dir, m.actor, m.critic)
}

// write saves the learners from the device, or copies of them. It does not read mutable
// state of the model. critic may be nil.
func (m *Model) write(ctx context.Context, dir string, actor, critic *learner) error {
	switch entries, err := os.ReadDir(dir); {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("vlm: save: %w", err)
	case len(entries) > 0:
		return fmt.Errorf("vlm: save: %s is not empty: %w", dir, fs.ErrExist)
	}
	save := m.saveModel
	if m.adapter != nil {
		save = func(ctx context.Context, l *learner, dir string, _ bool) error { return m.saveAdapter(ctx, l, dir) }
	}
	if err := save(ctx, actor, filepath.Join(dir, actorFolder), false); err != nil {
		return err
	}
	switch {
	case critic != nil:
		if err := save(ctx, critic, filepath.Join(dir, criticFolder), false); err != nil {
			return err
		}
	case m.opts.Critic == SharedCritic:
		if err := m.saveModel(ctx, actor, filepath.Join(dir, criticFolder), true); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, optimizerFolder), 0o755); err != nil {
		return fmt.Errorf("vlm: save: %w", err)
	}
	if err := m.saveOptimizer(ctx, actor, filepath.Join(dir, optimizerFolder, "actor.safetensors")); err != nil {
		return err
	}
	if critic == nil {
		return nil
	}
	return m.saveOptimizer(ctx, critic, filepath.Join(dir, optimizerFolder, "critic.safetensors"))
}

// storedAs returns how a part is stored: the checkpoint's name and type, or its own name in
// float32 if it is new.
func (l *learner) storedAs(part model.Part) safetensors.Tensor {
	if t, ok := l.names[part.Name]; ok {
		return t
	}
	return safetensors.Tensor{Name: part.Name, DType: safetensors.F32, Shape: part.Dims}
}

// isScore reports whether a group is the value head.
func (l *learner) isScore(group int) bool {
	return l.weights.Groups[group].Name == l.net.Groups.Score.Name
}

// saveModel writes a Hugging Face folder. Of a policy with a shared value head it writes
// either the policy or, if score is set, the head. Adapters are merged into the weights.
func (m *Model) saveModel(ctx context.Context, l *learner, dir string, score bool) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("vlm: save: %w", err)
	}
	shared := l.net.Spec.Value
	include := func(group int) bool { return !shared || l.isScore(group) == score }
	var list []safetensors.Tensor
	for gi, g := range l.weights.Groups {
		for _, p := range g.Params {
			for _, part := range p.Parts {
				if include(gi) && !p.Adapter {
					list = append(list, l.storedAs(part))
				}
			}
		}
	}
	w, err := safetensors.CreateSharded(dir, list, nil, safetensors.DefaultShardBytes)
	if err != nil { // for example if a model exists, which is then unchanged
		return fmt.Errorf("vlm: save: %w", err)
	}
	defer w.Close()
	for _, name := range modelFiles {
		if err := copyFile(filepath.Join(m.dir, name), filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("vlm: save: %w", err)
		}
	}
	for gi := range l.weights.Groups {
		if !include(gi) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		one, made, err := l.merged(gi)
		if err == nil {
			err = one.Each(func(part model.Part, x []float32) error { return w.Float32(l.storedAs(part).Name, x) })
		}
		device.FreeAll(made...)
		if err != nil {
			return fmt.Errorf("vlm: save: %w", err)
		}
	}
	if err := w.Commit(); err != nil {
		return fmt.Errorf("vlm: save: %w", err)
	}
	return nil
}

func copyFile(from, to string) error {
	src, err := regular.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.Create(to)
	if err != nil {
		return err
	}
	if _, err := io.Copy(dst, src); err != nil {
		dst.Close()
		return err
	}
	return dst.Close()
}

// stepsKey is the metadata key of the number of optimiser steps.
const stepsKey = "adam_steps"

// optimizerSeries are the tensors of an optimiser file: first and second moments, and float32
// masters of trained weights that are stored in a narrower type.
func (l *learner) optimizerSeries() []struct {
	prefix string
	t      *weights.Tensors
	want   func(model.Part) bool
} {
	all := func(model.Part) bool { return true }
	frozen := map[string]bool{}
	for _, g := range l.weights.Groups {
		for _, p := range g.Params {
			for _, part := range p.Parts {
				frozen[part.Name] = p.Frozen
			}
		}
	}
	narrow := func(part model.Part) bool { return !frozen[part.Name] && l.storedAs(part).DType != safetensors.F32 }
	return []struct {
		prefix string
		t      *weights.Tensors
		want   func(model.Part) bool
	}{{"m.", l.adam.m, all}, {"v.", l.adam.v, all}, {"master.", l.weights, narrow}}
}

// saveOptimizer writes the moments, and nothing before the first update.
func (m *Model) saveOptimizer(ctx context.Context, l *learner, path string) error {
	if l.adam == nil {
		return nil
	}
	var list []safetensors.Tensor
	for _, s := range l.optimizerSeries() {
		for _, g := range s.t.Groups {
			for _, p := range g.Params {
				for _, part := range p.Parts {
					if s.want(part) {
						list = append(list, safetensors.Tensor{Name: s.prefix + part.Name, DType: safetensors.F32, Shape: part.Dims})
					}
				}
			}
		}
	}
	w, err := safetensors.Create(path, list, map[string]string{stepsKey: strconv.Itoa(l.adam.steps)})
	if err != nil {
		return fmt.Errorf("vlm: save: %w", err)
	}
	defer w.Close()
	for _, s := range l.optimizerSeries() {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := s.t.Each(func(part model.Part, x []float32) error {
			if !s.want(part) {
				return nil
			}
			return w.Float32(s.prefix+part.Name, x)
		})
		if err != nil {
			return fmt.Errorf("vlm: save: %w", err)
		}
	}
	if err := w.Commit(); err != nil {
		return fmt.Errorf("vlm: save: %w", err)
	}
	return nil
}
