package learn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"vagen/internal/regular"
	"vagen/internal/safetensors"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/peft"
	"vagen/policy/vlm/internal/weights"
)

// saving names what failed.
func saving(err *error) {
	if *err != nil {
		*err = fmt.Errorf("vlm: save: %w", *err)
	}
}

// storedAs returns how a part is stored: the checkpoint's name and type, or its own name in
// float32 if it is new.
func (l *Learner) storedAs(part model.Stored) safetensors.Tensor {
	if t, ok := l.Names[part.Name]; ok {
		return t
	}
	return safetensors.Tensor{Name: part.Name, DType: safetensors.F32, Shape: part.Dims}
}

// isScore reports whether a group is the value head.
func (l *Learner) isScore(group int) bool {
	return l.Weights.Groups[group].Name == l.Net.Groups.Score.Name
}

// merged returns a group with its adapters merged into the weights. The caller must free
// the arrays in made.
func (l *Learner) merged(gi int) (t *weights.Tensors, made []*device.Array, err error) {
	t = l.Weights.Part(gi)
	g, n := l.Weights.Groups[gi], len(t.Groups[0].Params)
	if n == len(g.Params) {
		return t, nil, nil
	}
	layer := slices.IndexFunc(l.Net.Groups.Layers, func(layer model.Group) bool { return layer.Name == g.Name })
	made, err = l.Net.Run(l.Net.MergeAdapters(layer, n), l.Weights.Arrays[gi])
	if err != nil {
		return nil, nil, err
	}
	t.Arrays[0] = made
	return t, made, nil
}

// SaveAdapter writes a folder that PEFT reads: the adapters, and a critic's value head as
// a module that is stored in full.
func (l *Learner) SaveAdapter(ctx context.Context, adapter peft.Config, base, dir string) (err error) {
	defer saving(&err)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	c := adapter
	c.Base, c.Dropout, c.Saved = base, 0, nil
	if l.Net.Spec.Critic {
		c.Saved = []string{"score"}
	}
	stored := map[string]bool{}
	for p, part := range model.EachPart(l.Weights.Groups) {
		stored[part.Name] = p.Adapter || l.Net.Spec.Critic && l.stored(p)
	}
	own := series{peft.Prefix, l.Weights, func(part model.Stored) bool { return stored[part.Name] }}
	if err := writeSeries(ctx, filepath.Join(dir, peft.WeightsFile), map[string]string{"format": "pt"}, own); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, peft.ConfigFile), c.JSON(), 0o644)
}

// SaveModel writes a Hugging Face folder. Of a policy with a shared value head it writes
// either the policy or, if score is set, the head. Adapters are merged into the weights.
func (l *Learner) SaveModel(ctx context.Context, from, dir string, score bool) (err error) {
	defer saving(&err)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	shared := l.Net.Spec.Value
	include := func(group int) bool { return !shared || l.isScore(group) == score }
	var list []safetensors.Tensor
	for gi, g := range l.Weights.Groups {
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
		return err
	}
	defer w.Close()
	for _, name := range modelFiles {
		err := copyFile(filepath.Join(from, name), filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) && !slices.Contains(neededFiles, name) {
			err = nil
		}
		if err != nil {
			return err
		}
	}
	for gi := range l.Weights.Groups {
		if !include(gi) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		one, made, err := l.merged(gi)
		if err == nil {
			err = one.Each(nil, func(part model.Stored, x []float32) error { return w.Float32(l.storedAs(part).Name, x) })
		}
		device.FreeAll(made...)
		if err != nil {
			return err
		}
	}
	return w.Commit()
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

// StepsKey is the metadata key of the number of optimiser steps.
const StepsKey = "adam_steps"

// series are tensors of a file in float32.
type series struct {
	prefix string
	t      *weights.Tensors
	want   func(model.Stored) bool
}

// optimizerSeries are the tensors of an optimiser file: first and second moments, and float32
// masters of trained weights that are stored in a narrower type.
func (l *Learner) optimizerSeries() []series {
	all := func(model.Stored) bool { return true }
	frozen := map[string]bool{}
	for p, part := range model.EachPart(l.Weights.Groups) {
		frozen[part.Name] = p.Frozen
	}
	narrow := func(part model.Stored) bool { return !frozen[part.Name] && l.storedAs(part).DType != safetensors.F32 }
	return []series{{"m.", l.Adam.M, all}, {"v.", l.Adam.V, all}, {"master.", l.Weights, narrow}}
}

// SaveOptimizer writes the moments, and nothing before the first update.
func (l *Learner) SaveOptimizer(ctx context.Context, path string) (err error) {
	defer saving(&err)
	if l.Adam == nil {
		return nil
	}
	meta := map[string]string{StepsKey: strconv.Itoa(l.Adam.Steps)}
	return writeSeries(ctx, path, meta, l.optimizerSeries()...)
}

func writeSeries(ctx context.Context, path string, meta map[string]string, all ...series) error {
	var list []safetensors.Tensor
	for _, s := range all {
		for _, part := range model.EachPart(s.t.Groups) {
			if s.want(part) {
				list = append(list, safetensors.Tensor{Name: s.prefix + part.Name, DType: safetensors.F32, Shape: part.Dims})
			}
		}
	}
	w, err := safetensors.Create(path, list, meta)
	if err != nil {
		return err
	}
	defer w.Close()
	for _, s := range all {
		if err := ctx.Err(); err != nil {
			return err
		}
		some := func(p model.Param) bool { return slices.ContainsFunc(p.Parts, s.want) }
		err := s.t.Each(some, func(part model.Stored, x []float32) error {
			if !s.want(part) {
				return nil
			}
			return w.Float32(s.prefix+part.Name, x)
		})
		if err != nil {
			return err
		}
	}
	return w.Commit()
}

// neededFiles are the files besides the weights without which no model opens.
var neededFiles = []string{"config.json", "tokenizer.json"}

// modelFiles are the files besides the weights that other programs need. They are copied
// from the model's folder, those that no model needs if they exist.
var modelFiles = append(slices.Clone(neededFiles), "generation_config.json", "preprocessor_config.json",
	"processor_config.json", "video_preprocessor_config.json", "tokenizer_config.json", "special_tokens_map.json",
	"added_tokens.json", "vocab.json", "merges.txt", "chat_template.jinja", "chat_template.json")
