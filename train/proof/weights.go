package proof

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"vagen/internal/safetensors"
	"vagen/train/rundir"
)

// compareWeights finds the first tensor that differs in the first checkpoint that both runs
// have. Of checkpoints that were removed, the recorded hashes are compared.
func (b *Bisection) compareWeights(ctx context.Context, x, y *side) (*Finding, error) {
	p, err := x.weights()
	if err != nil {
		return nil, err
	}
	q, err := y.weights()
	if err != nil {
		return nil, err
	}
	both := 0
	for _, step := range slices.Sorted(maps.Keys(p)) {
		if q[step] == nil {
			continue
		}
		both++
		for _, name := range slices.Sorted(maps.Keys(p[step])) {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			if p[step][name] == q[step][name] {
				continue
			}
			return x.tensor(y, step, name)
		}
		if len(p[step]) != len(q[step]) {
			return &Finding{step, StageWeights, fmt.Sprintf("the checkpoints have %d and %d files of weights", len(p[step]),
				len(q[step]))}, nil
		}
	}
	if both == 0 {
		b.note("no weights are compared: the runs have no checkpoint of the same step")
	}
	return nil, nil
}

// weights returns the hashes of a run's weights, by step and by file of the checkpoint.
func (s *side) weights() (map[int]map[string]string, error) {
	out := map[int]map[string]string{}
	add := func(step int, name, hash string) {
		if !strings.HasSuffix(name, ".json") && !strings.HasSuffix(name, ".yaml") && !strings.HasSuffix(name, ".txt") {
			if out[step] == nil {
				out[step] = map[string]string{}
			}
			out[step][name] = hash
		}
	}
	if s.history != nil {
		for step, l := range s.history.saves {
			for name, hash := range l.Files {
				add(step, strings.TrimPrefix(name, rundir.Checkpoint(step)+"/"), hash)
			}
		}
	}
	found, err := s.dir.Steps()
	if err != nil {
		return nil, err
	}
	for _, step := range found {
		sums, err := rundir.ReadManifest(s.dir.Path(rundir.Checkpoint(step)))
		if errors.Is(err, fs.ErrNotExist) {
			continue // incomplete
		}
		if err != nil {
			return nil, err
		}
		for name, sum := range sums {
			add(step, name, sum.SHA256)
		}
	}
	return out, nil
}

// tensor names the first tensor in which a file of two checkpoints differs.
func (s *side) tensor(o *side, step int, name string) (*Finding, error) {
	at := func(of *side) string { return of.dir.Path(rundir.Checkpoint(step) + "/" + name) }
	whole := &Finding{step, StageWeights, name + " differs"}
	_, err1 := os.Stat(at(s))
	_, err2 := os.Stat(at(o))
	if err := errors.Join(err1, err2); err != nil {
		whole.What += ", by the recorded hashes: a checkpoint was removed"
		return whole, nil
	}
	if filepath.Ext(name) != ".safetensors" {
		return whole, nil
	}
	a, err := safetensors.Open(at(s))
	if err != nil {
		return nil, fmt.Errorf("proof: %w", err)
	}
	defer a.Close()
	b, err := safetensors.Open(at(o))
	if err != nil {
		return nil, fmt.Errorf("proof: %w", err)
	}
	defer b.Close()
	for _, tensor := range a.Names() {
		text, err := tensorDifference(a, b, tensor)
		if err != nil {
			return nil, fmt.Errorf("proof: %w", err)
		}
		if text != "" {
			whole.What = name + ": " + text
			return whole, nil
		}
	}
	return whole, nil
}

// tensorDifference describes how a tensor differs; "" if it does not.
func tensorDifference(a, b *safetensors.Reader, name string) (string, error) {
	p, _ := a.Info(name)
	q, ok := b.Info(name)
	if !ok || p.DType != q.DType || !slices.Equal(p.Shape, q.Shape) {
		return fmt.Sprintf("tensor %s has another type or shape, or exists once", name), nil
	}
	x, err := a.Bytes(name)
	if err != nil {
		return "", err
	}
	y, err := b.Bytes(name)
	if err != nil || bytes.Equal(x, y) {
		return "", err
	}
	v, err := a.Float32(name, nil)
	if err != nil {
		return fmt.Sprintf("tensor %s differs", name), nil // not of a floating-point type
	}
	w, err := b.Float32(name, nil)
	if err != nil {
		return "", err
	}
	differ, first := 0, -1
	for i := range v {
		if v[i] != w[i] {
			if differ++; first < 0 {
				first = i
			}
		}
	}
	if first < 0 {
		return fmt.Sprintf("tensor %s differs", name), nil
	}
	return fmt.Sprintf("tensor %s %v: %d of %d weights differ; the first, at %d, is %v and %v", name, p.Shape, differ,
		len(v), first, v[first], w[first]), nil
}
