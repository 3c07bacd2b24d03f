package learn_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/safetensors"
	"vagen/internal/testkit"
	"vagen/policy"
	"vagen/policy/vlm/internal/learn"
	"vagen/policy/vlm/internal/model"
	. "vagen/policy/vlm/internal/modeltest"
	"vagen/policy/vlm/internal/net"
	. "vagen/policy/vlm/internal/vlmtest"
)

// spoil puts x into a tensor of a file.
func spoil(t *testing.T, path, name string, at int, x float32) {
	t.Helper()
	Edit(t, path, func(f *File) {
		require.Contains(t, f.Values, name)
		f.Values[name][at] = x
	})
}

func TestEveryEntryIsLookedAt(t *testing.T) {
	for n := range 11 {
		x := make([]float32, n)
		for i := range x {
			x[i] = math.MaxFloat32
		}
		require.NoError(t, net.CheckFinite("x", x))
		for i := range x {
			for text, bad := range NotFinite {
				y := slices.Clone(x)
				y[i] = bad
				err := net.CheckFinite("x", y)
				testkit.Error(t, err, net.ErrNotFinite, fmt.Sprintf("x: entry %d is %s, must be finite", i, text))
			}
		}
	}
}

func TestWeightsThatAreNotFiniteAreNotLoaded(t *testing.T) {
	const name = "model.layers.1.mlp.up_proj.weight"
	for text, bad := range NotFinite {
		dir := Folder(t, model.Qwen3, nil)
		spoil(t, filepath.Join(dir, "model.safetensors"), name, 5, bad)
		_, err := TryOpen(t.Context(), dir, Options{})
		testkit.Error(t, err, net.ErrNotFinite, fmt.Sprintf("%s: entry 5 is %s, must be finite", name, text))
	}
	t.Run("of an adapter", func(t *testing.T) {
		dir := Folder(t, model.Qwen3, nil)
		saved := filepath.Join(Open(t, dir, Options{LoRA: Adapters()}).Saved(t), learn.ActorFolder)
		path := filepath.Join(saved, "adapter_model.safetensors")
		r, err := safetensors.Open(path)
		require.NoError(t, err)
		name := r.Names()[0]
		require.NoError(t, r.Close())
		spoil(t, path, name, 0, float32(math.NaN()))
		_, err = TryOpen(t.Context(), dir, Options{Adapter: saved})
		testkit.Error(t, err, net.ErrNotFinite, name)
	})
	t.Run("of a checkpoint", func(t *testing.T) {
		m := New(t, model.Qwen3, Options{})
		m.Train(t, 1)
		good := m.Saved(t)
		m.Train(t, 1)
		now := m.Saved(t)
		for path, name := range map[string]string{
			filepath.Join(learn.ActorFolder, "model.safetensors"):     name,
			filepath.Join(learn.OptimizerFolder, "actor.safetensors"): "v." + name,
		} {
			bad := filepath.Join(t.TempDir(), "bad")
			require.NoError(t, os.CopyFS(bad, os.DirFS(good)))
			spoil(t, filepath.Join(bad, path), name, 1, float32(math.Inf(1)))
			err := m.Restore(t.Context(), bad)
			require.ErrorIs(t, err, learn.ErrCheckpoint)
			testkit.Error(t, err, net.ErrNotFinite, name+": entry 1 is +Inf, must be finite")
			RequireSameFiles(t, now, m.Saved(t))
		}
	})
}

func TestScoresThatAreNotFiniteAreRefused(t *testing.T) {
	m := New(t, model.Qwen3, Options{Critic: learn.SharedCritic})
	rows, want := m.FourRows(t)
	for what, name := range map[string]string{"log-probs": "lm_head.weight", "values": "score.weight"} {
		all := func(model.Param) bool { return true }
		require.NoError(t, m.Sets.Actor.Weights.Replace(all, func(part model.Stored, old []float32) ([]float32, error) {
			if part.Name == name {
				return slices.Repeat([]float32{float32(math.NaN())}, len(old)), nil
			}
			return old, nil
		}))
		_, err := m.Score(t.Context(), &rows, want,
			policy.ScoreRequest{LogProbs: what == "log-probs", Values: what == "values"}, 1)
		testkit.Error(t, err, net.ErrNotFinite, "vlm: score: ", what+": entry ")
	}
}
