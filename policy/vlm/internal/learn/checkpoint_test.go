package learn_test

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/safetensors"
	"vagen/internal/testkit"
	"vagen/policy"
	"vagen/policy/vlm"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/learn"
	"vagen/policy/vlm/internal/model"
	. "vagen/policy/vlm/internal/modeltest"
	"vagen/policy/vlm/internal/peft"
	. "vagen/policy/vlm/internal/vlmtest"
	"vagen/policy/vlm/internal/weights"
)

// Saved and restored in a new process, training continues with the same bytes:
// weights, moments, number of steps, and masters of weights stored in bfloat16.
func TestRestoredTrainingContinuesBitForBit(t *testing.T) {
	for critic, names := range map[vlm.Critic][]string{learn.NoCritic: {"F32"}, learn.SharedCritic: {"BF16"},
		learn.SeparateCritic: {"BF16", "adapter"}} {
		for _, name := range names {
			t.Run(string(critic)+" "+name, func(t *testing.T) {
				var o Options
				if name == "adapter" {
					o.LoRA = Adapters()
				}
				dir := Folder(t, model.Qwen25VL, nil)
				if name == "BF16" {
					require.NoError(t, os.Remove(filepath.Join(dir, "model.safetensors")))
					require.NoError(t, weights.Write(dir, ConfigOf(t, dir), safetensors.BF16, Spread(3)))
				}
				o.Critic, o.Seed = critic, 9
				m := Open(t, dir, o)
				m.Train(t, 2)
				half := m.Saved(t)
				m.Train(t, 1)

				again := Open(t, dir, o)
				again.Train(t, 1) // Restore must replace this state
				require.NoError(t, again.Restore(t.Context(), half))
				RequireSameFiles(t, half, again.Saved(t))
				again.Train(t, 1)
				RequireSameFiles(t, m.Saved(t), again.Saved(t))
				if o.LoRA == nil {
					return
				}
				require.FileExists(t, filepath.Join(half, learn.ActorFolder, peft.ConfigFile))
				require.NoFileExists(t, filepath.Join(half, learn.ActorFolder, "model.safetensors"))
				other := *o.LoRA
				other.Alpha++
				o.LoRA = &other
				require.ErrorIs(t, Open(t, dir, o).Restore(t.Context(), half), learn.ErrCheckpoint, "another scale")
			})
		}
	}
}

func TestSavedPolicyOpensAsAModel(t *testing.T) {
	for _, family := range model.Families() {
		m := New(t, family, Options{})
		m.Train(t, 1)
		dir := m.Saved(t)
		again := Open(t, filepath.Join(dir, learn.ActorFolder), Options{})
		require.Equal(t, Read(t, m.Sets.Actor.Weights), Read(t, again.Sets.Actor.Weights), "%s", family)
		o := policy.Sampling{MaxTokens: 4}
		p := []policy.Prompt{{Conversation: 1, Messages: Say("left")}}
		require.Equal(t, Ask(t, m, o, p)[1].Tokens, Ask(t, again, o, p)[1].Tokens)
	}
}

// TestSavingNeedsTheFilesOfAModel: a checkpoint without them would not open.
func TestSavingNeedsTheFilesOfAModel(t *testing.T) {
	for _, name := range []string{"config.json", "tokenizer.json"} {
		dir := Folder(t, model.Qwen2, nil)
		m := Open(t, dir, Options{})
		require.NoError(t, os.Remove(filepath.Join(dir, name)))
		err := m.Sets.Save(t.Context(), filepath.Join(t.TempDir(), "checkpoint"))
		testkit.Error(t, err, fs.ErrNotExist, "vlm: save: open "+filepath.Join(dir, name))
	}
}

func TestCheckpointBeforeTheFirstStepRestoresToNoStep(t *testing.T) {
	m := New(t, model.Qwen25VL, Options{})
	first := m.Saved(t)
	require.NoFileExists(t, filepath.Join(first, learn.OptimizerFolder, "actor.safetensors"))
	m.Train(t, 1)
	require.NoError(t, m.Restore(t.Context(), first))
	require.Nil(t, m.Sets.Actor.Adam)
	RequireSameFiles(t, first, m.Saved(t))
}

func TestCheckpointsThatDoNotFitAreRefusedWhole(t *testing.T) {
	dir := Folder(t, model.Qwen25VL, nil)
	m := Open(t, dir, Options{Critic: learn.SeparateCritic})
	m.Train(t, 1)
	good := m.Saved(t)
	m.Train(t, 1)
	now := m.Saved(t)
	actor, moments := filepath.Join(learn.ActorFolder, "model.safetensors"),
		filepath.Join(learn.OptimizerFolder, "actor.safetensors")
	critic := filepath.Join(learn.CriticFolder, "model.safetensors")
	cut := func(share float64) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			info, err := os.Stat(path)
			require.NoError(t, err)
			require.NoError(t, os.Truncate(path, int64(share*float64(info.Size()))))
		}
	}
	remove := func(t *testing.T, path string) { require.NoError(t, os.Remove(path)) }
	without := func(names ...string) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			Edit(t, path, func(f *File) {
				for _, name := range names {
					require.Contains(t, f.Tensors, name)
					delete(f.Tensors, name)
				}
			})
		}
	}
	steps := func(n string) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			Edit(t, path, func(f *File) {
				require.Equal(t, "1", f.Meta[learn.StepsKey])
				f.Meta[learn.StepsKey] = n
			})
		}
	}
	for name, c := range map[string]struct {
		path   string
		harm   func(t *testing.T, path string)
		wanted []string
	}{
		"torn weights": {actor, cut(0.5), []string{learn.ActorFolder}},
		"torn header":  {actor, cut(0.001), []string{learn.ActorFolder}},
		"no weights":   {actor, remove, []string{learn.ActorFolder}},
		"torn moments": {moments, cut(0.9), []string{moments}},
		"no critic":    {critic, remove, []string{learn.CriticFolder}},
		"a tensor is gone": {actor, without("model.norm.weight", "visual.merger.ln_q.weight"),
			[]string{"model.norm.weight", "visual.merger.ln_q.weight"}},
		"a head is gone": {critic, without("score.bias"), []string{"score.bias"}},
		"a moment is gone": {moments, without("m.model.language_model.norm.weight"),
			[]string{"m.model.language_model.norm.weight"}},
		"no number of steps": {moments, steps(""), []string{`adam_steps is ""`}},
		"steps before 0":     {moments, steps("-3"), []string{`adam_steps is "-3"`}},
		"other shapes": {actor, func(t *testing.T, path string) {
			Edit(t, path, func(f *File) {
				for _, name := range []string{"model.norm.weight", "model.layers.1.mlp.up_proj.weight"} {
					x := f.Tensors[name]
					x.Shape, f.Values[name] = []int{2, 3}, make([]float32, 6)
					f.Tensors[name] = x
				}
			})
		}, []string{"model.norm.weight has shape [2 3], must be [16]", "up_proj.weight has shape [2 3]"}},
	} {
		t.Run(name, func(t *testing.T) {
			bad := filepath.Join(t.TempDir(), "bad")
			require.NoError(t, os.CopyFS(bad, os.DirFS(good)))
			c.harm(t, filepath.Join(bad, c.path))
			err := m.Restore(t.Context(), bad)
			require.ErrorContains(t, err, "vlm: restore: ")
			require.ErrorContains(t, err, bad)
			for _, part := range c.wanted {
				require.ErrorContains(t, err, part)
			}
			RequireSameFiles(t, now, m.Saved(t))
		})
	}
	t.Run("another model", func(t *testing.T) {
		other := New(t, model.Qwen3VL, Options{Critic: learn.SeparateCritic})
		err := m.Restore(t.Context(), other.Saved(t))
		require.ErrorIs(t, err, learn.ErrCheckpoint)
		RequireSameFiles(t, now, m.Saved(t))
	})
	t.Run("no folder", func(t *testing.T) {
		none := filepath.Join(t.TempDir(), "none")
		require.ErrorContains(t, m.Restore(t.Context(), none), none)
	})
	require.NoError(t, m.Restore(t.Context(), good), "and the good one still does")
	RequireSameFiles(t, good, m.Saved(t))
}

// Weights in float32 are their own masters: saving the moments does not read them.
func TestSavingMomentsReadsNoOtherWeights(t *testing.T) {
	m := New(t, model.Qwen2, Options{})
	m.Train(t, 1)
	device.FreeAll(slices.Concat(m.Sets.Actor.Weights.Arrays...)...)
	require.NoError(t, m.Sets.Actor.SaveOptimizer(t.Context(), filepath.Join(t.TempDir(), "actor.safetensors")))
}

func TestSaveRefusesAFolderInUse(t *testing.T) {
	m := New(t, model.Qwen2, Options{})
	dir := m.Saved(t)
	before := Files(t, dir)
	m.Train(t, 1)
	require.ErrorIs(t, m.Save(t.Context(), dir), fs.ErrExist)
	t.Chdir(dir)
	require.ErrorIs(t, m.Save(t.Context(), ""), fs.ErrExist)
	require.Equal(t, before, Files(t, dir))
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	require.ErrorContains(t, m.Save(t.Context(), file), "vlm: save: ")
	require.ErrorContains(t, m.Save(t.Context(), filepath.Join(file, "below")), "vlm: save: ")
}

func TestCancelledSavesAndRestoresLeaveTheModel(t *testing.T) {
	m := New(t, model.Qwen25VL, Options{Critic: learn.SeparateCritic})
	m.Train(t, 1)
	good := m.Saved(t)
	before, _ := m.Dev.Live()
	for what, f := range map[string]func(ctx context.Context) error{
		"save":    func(ctx context.Context) error { return m.Save(ctx, filepath.Join(t.TempDir(), "x")) },
		"restore": func(ctx context.Context) error { return m.Restore(ctx, good) },
	} {
		done := false
		for looks := 0; !done; looks++ {
			err := f(Countdown(t.Context(), looks))
			if done = err == nil; done {
				require.Positive(t, looks, what)
			} else {
				require.ErrorIs(t, err, context.Canceled, what)
			}
			live, _ := m.Dev.Live()
			require.Equal(t, before, live, what)
		}
		RequireSameFiles(t, good, m.Saved(t))
	}
}
