package vlmtest

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/regular"
	"vagen/internal/safetensors"
	"vagen/policy"
	"vagen/policy/vlm/internal/learn"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/net"
	"vagen/policy/vlm/internal/weights"
)

// Imitate runs one step of imitation.
func (p *Model) Imitate(t testing.TB, rows policy.Rows, want []bool, rate float64) policy.Stats {
	t.Helper()
	opt := policy.DefaultOptimizer()
	opt.Rate = rate
	stats, err := p.Update(t.Context(), &policy.Batch{Rows: rows, Weight: Evenly(want)},
		policy.Objective{Imitate: true, Temperature: 1}, opt)
	require.NoError(t, err)
	require.False(t, stats.Skipped)
	return stats
}

// ConfigOf reads a folder's config.json.
func ConfigOf(t testing.TB, dir string) *model.Config {
	t.Helper()
	cfg, err := model.ReadConfig(dir)
	require.NoError(t, err)
	return cfg
}

// Files reads a folder.
func Files(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	require.NoError(t, fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := regular.ReadFile(filepath.Join(dir, path))
		out[path] = string(raw)
		return err
	}))
	return out
}

// RequireSameFiles compares all files of two folders.
func RequireSameFiles(t testing.TB, want, got string) {
	t.Helper()
	a, b := Files(t, want), Files(t, got)
	require.Equal(t, slices.Sorted(maps.Keys(a)), slices.Sorted(maps.Keys(b)))
	require.NotEmpty(t, a)
	for name := range a {
		require.True(t, a[name] == b[name], "%s differs", name)
	}
}

// digestOf is the SHA-256 of tensors.
func digestOf(all ...*weights.Tensors) (string, error) {
	h := sha256.New()
	for _, x := range all {
		if err := x.Each(nil, func(part model.Stored, values []float32) error {
			_, err := io.WriteString(h, part.Name)
			return errors.Join(err, binary.Write(h, binary.LittleEndian, values))
		}); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// StateOf digests weights and moments. It also checks that all devices have the same weights.
func (p *Model) StateOf(t testing.TB) map[string]string {
	t.Helper()
	out, err := Digests(p.Sets)
	require.NoError(t, err)
	return out
}

// Digests is StateOf for goroutines that may not end a test.
func Digests(s *learn.Sets) (map[string]string, error) {
	out := map[string]string{}
	for name, l := range map[string]*learn.Learner{"actor": s.Actor, "critic": s.Critic, "reference": s.Ref} {
		if l == nil {
			continue
		}
		err := l.OnDevices(false, func() (err error) {
			out[name], err = digestOf(l.Weights)
			for i, r := range l.Replicas {
				if replica, errR := digestOf(r.Weights); err == nil && replica != out[name] {
					err = errors.Join(errR, fmt.Errorf("%s on device %d differs", name, i))
				}
			}
			if l.Adam == nil || err != nil {
				return err
			}
			moments, err := digestOf(l.Adam.M, l.Adam.V)
			out[name+" moments"] = fmt.Sprint(moments, l.Adam.Steps)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// GradLimit is the tolerance of a gradient: a share of its tensor's largest entry.
const GradLimit = 1e-4

// Largest is the largest absolute number.
func Largest(x []float32) float64 {
	top := 0.0
	for _, v := range x {
		top = max(top, math.Abs(float64(v)))
	}
	return top
}

// OpenSums are the gradients on the first device.
func OpenSums(t *learn.TreeStep) *weights.Tensors {
	return &weights.Tensors{Groups: net.TrainedGroups(t.Weights.Groups), Arrays: t.Sums[0]}
}

// File is the content of a safetensors file.
type File struct {
	Tensors map[string]safetensors.Tensor
	Values  map[string][]float32
	Meta    map[string]string
}

// Edit rewrites a safetensors file: change may change what is in it.
func Edit(t testing.TB, path string, change func(f *File)) {
	t.Helper()
	r, err := safetensors.Open(path)
	require.NoError(t, err)
	f := File{map[string]safetensors.Tensor{}, map[string][]float32{}, r.Metadata()}
	for _, name := range r.Names() {
		f.Tensors[name], _ = r.Info(name)
		f.Values[name], err = r.Float32(name, nil)
		require.NoError(t, err)
	}
	require.NoError(t, r.Close())
	change(&f)
	var tensors []safetensors.Tensor
	for _, name := range slices.Sorted(maps.Keys(f.Tensors)) {
		x := f.Tensors[name]
		x.Name = name
		tensors = append(tensors, x)
	}
	w, err := safetensors.Create(path, tensors, f.Meta)
	require.NoError(t, err)
	for _, x := range tensors {
		require.NoError(t, w.Float32(x.Name, f.Values[x.Name]))
	}
	require.NoError(t, w.Commit())
}
