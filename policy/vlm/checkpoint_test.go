package vlm

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/safetensors"
	"vagen/policy"
	"vagen/policy/vlm/internal/learn"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/vlmtest"
	"vagen/policy/vlm/internal/weights"
)

func TestEqualSeedsGiveEqualBytesAfterTraining(t *testing.T) {
	dir := vlmtest.Folder(t, model.Qwen25VL, nil)
	var saved []string
	for range 2 {
		m := openTiny(t, dir, Options{Critic: SeparateCritic, Seed: 2})
		vlmtest.Train(t, m.sets, m.text, 2)
		saved = append(saved, save(t, m))
	}
	vlmtest.RequireSameFiles(t, saved[0], saved[1])
}

// Saved and restored in a new process, training continues with the same bytes:
// weights, moments, number of steps, and masters of weights stored in bfloat16.
func TestRestoredTrainingContinuesBitForBit(t *testing.T) {
	for _, critic := range []Critic{NoCritic, SharedCritic, SeparateCritic} {
		for _, dtype := range []safetensors.DType{safetensors.F32, safetensors.BF16} {
			t.Run(fmt.Sprint(critic, " ", dtype), func(t *testing.T) {
				dir := vlmtest.Folder(t, model.Qwen25VL, nil)
				require.NoError(t, os.Remove(filepath.Join(dir, "model.safetensors")))
				require.NoError(t, weights.Write(dir, vlmtest.ConfigOf(t, dir), dtype, vlmtest.Spread(3)))
				o := Options{Critic: critic, Seed: 9}
				m := openTiny(t, dir, o)
				vlmtest.Train(t, m.sets, m.text, 2)
				half := save(t, m)
				vlmtest.Train(t, m.sets, m.text, 1)

				again := openTiny(t, dir, o)
				vlmtest.Train(t, again.sets, again.text, 1) // Restore must replace this state
				require.NoError(t, again.Restore(t.Context(), half))
				vlmtest.RequireSameFiles(t, half, save(t, again))
				vlmtest.Train(t, again.sets, again.text, 1)
				vlmtest.RequireSameFiles(t, save(t, m), save(t, again))
			})
		}
	}
}

func TestSavedPolicyOpensAsAModel(t *testing.T) {
	for _, family := range model.Families() {
		m := newTiny(t, family, Options{})
		vlmtest.Train(t, m.sets, m.text, 1)
		dir := save(t, m)
		again := openTiny(t, filepath.Join(dir, learn.ActorFolder), Options{})
		require.Equal(t, weightsOf(t, m.sets.Actor), weightsOf(t, again.sets.Actor), "%s", family)
		o := policy.Sampling{MaxTokens: 4}
		p := []policy.Prompt{{Conversation: 1, Messages: vlmtest.Say("left")}}
		require.Equal(t, vlmtest.Ask(t, m, o, p)[1].Tokens, vlmtest.Ask(t, again, o, p)[1].Tokens)
	}
}

func TestSavedCriticIsRestored(t *testing.T) {
	dir := vlmtest.Folder(t, model.Qwen25VL, nil)
	m := openTiny(t, dir, Options{Critic: SeparateCritic})
	vlmtest.Train(t, m.sets, m.text, 1)
	again := openTiny(t, dir, Options{Critic: SeparateCritic, CriticPath: filepath.Join(save(t, m), learn.CriticFolder), Seed: 77})
	require.Equal(t, weightsOf(t, m.sets.Critic), weightsOf(t, again.sets.Critic))
}

func TestCheckpointBeforeTheFirstStepRestoresToNoStep(t *testing.T) {
	m := newTiny(t, model.Qwen25VL, Options{})
	first := save(t, m)
	require.NoFileExists(t, filepath.Join(first, learn.OptimizerFolder, "actor.safetensors"))
	vlmtest.Train(t, m.sets, m.text, 1)
	require.NoError(t, m.Restore(t.Context(), first))
	require.Nil(t, m.sets.Actor.Adam)
	vlmtest.RequireSameFiles(t, first, save(t, m))
}

// edit rewrites a safetensors file: f may change what is in it.
func edit(t *testing.T, path string, f func(tensors map[string]safetensors.Tensor, values map[string][]float32)) {
	t.Helper()
	r, err := safetensors.Open(path)
	require.NoError(t, err)
	list, values := map[string]safetensors.Tensor{}, map[string][]float32{}
	for _, name := range r.Names() {
		list[name], _ = r.Info(name)
		values[name], err = r.Float32(name, nil)
		require.NoError(t, err)
	}
	meta := r.Metadata()
	require.NoError(t, r.Close())
	f(list, values)
	var tensors []safetensors.Tensor
	for _, name := range slices.Sorted(maps.Keys(list)) {
		x := list[name]
		x.Name = name
		tensors = append(tensors, x)
	}
	w, err := safetensors.Create(path, tensors, meta)
	require.NoError(t, err)
	for _, x := range tensors {
		require.NoError(t, w.Float32(x.Name, values[x.Name]))
	}
	require.NoError(t, w.Commit())
}

func TestCheckpointsThatDoNotFitAreRefusedWhole(t *testing.T) {
	dir := vlmtest.Folder(t, model.Qwen25VL, nil)
	m := openTiny(t, dir, Options{Critic: SeparateCritic})
	vlmtest.Train(t, m.sets, m.text, 1)
	good := save(t, m)
	vlmtest.Train(t, m.sets, m.text, 1)
	now := save(t, m)
	actor, moments := filepath.Join(learn.ActorFolder, "model.safetensors"), filepath.Join(learn.OptimizerFolder, "actor.safetensors")
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
			edit(t, path, func(tensors map[string]safetensors.Tensor, _ map[string][]float32) {
				for _, name := range names {
					require.Contains(t, tensors, name)
					delete(tensors, name)
				}
			})
		}
	}
	for name, c := range map[string]struct {
		path   string
		harm   func(t *testing.T, path string)
		wanted []string
	}{
		"torn weights":       {actor, cut(0.5), []string{learn.ActorFolder}},
		"torn header":        {actor, cut(0.001), []string{learn.ActorFolder}},
		"no weights":         {actor, remove, []string{learn.ActorFolder}},
		"torn moments":       {moments, cut(0.9), []string{moments}},
		"no critic":          {critic, remove, []string{learn.CriticFolder}},
		"a tensor is gone":   {actor, without("model.norm.weight", "visual.merger.ln_q.weight"), []string{"model.norm.weight", "visual.merger.ln_q.weight"}},
		"a head is gone":     {critic, without("score.bias"), []string{"score.bias"}},
		"a moment is gone":   {moments, without("m.model.language_model.norm.weight"), []string{"m.model.language_model.norm.weight"}},
		"no number of steps": {moments, func(t *testing.T, path string) { reset(t, path, "") }, []string{`adam_steps is ""`}},
		"steps before 0":     {moments, func(t *testing.T, path string) { reset(t, path, "-3") }, []string{`adam_steps is "-3"`}},
		"other shapes": {actor, func(t *testing.T, path string) {
			edit(t, path, func(tensors map[string]safetensors.Tensor, values map[string][]float32) {
				for _, name := range []string{"model.norm.weight", "model.layers.1.mlp.up_proj.weight"} {
					x := tensors[name]
					x.Shape, values[name] = []int{2, 3}, make([]float32, 6)
					tensors[name] = x
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
			vlmtest.RequireSameFiles(t, now, save(t, m))
		})
	}
	t.Run("another model", func(t *testing.T) {
		other := newTiny(t, model.Qwen3VL, Options{Critic: SeparateCritic})
		err := m.Restore(t.Context(), save(t, other))
		require.ErrorIs(t, err, ErrCheckpoint)
		vlmtest.RequireSameFiles(t, now, save(t, m))
	})
	t.Run("no folder", func(t *testing.T) {
		none := filepath.Join(t.TempDir(), "none")
		require.ErrorContains(t, m.Restore(t.Context(), none), none)
	})
	require.NoError(t, m.Restore(t.Context(), good), "and the good one still does")
	vlmtest.RequireSameFiles(t, good, save(t, m))
}

// reset writes another number of steps into an optimiser file.
func reset(t *testing.T, path, steps string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	r, err := safetensors.Open(path)
	require.NoError(t, err)
	defer r.Close()
	require.Contains(t, string(raw), `"adam_steps":"1"`)
	var list []safetensors.Tensor
	for _, name := range r.Names() {
		info, _ := r.Info(name)
		list = append(list, info)
	}
	w, err := safetensors.Create(path, list, map[string]string{learn.StepsKey: steps})
	require.NoError(t, err)
	for _, x := range list {
		v, err := r.Float32(x.Name, nil)
		require.NoError(t, err)
		require.NoError(t, w.Float32(x.Name, v))
	}
	require.NoError(t, w.Commit())
}

func TestSaveRefusesAFolderInUse(t *testing.T) {
	m := newTiny(t, model.Qwen2, Options{})
	dir := save(t, m)
	before := vlmtest.Files(t, dir)
	vlmtest.Train(t, m.sets, m.text, 1)
	require.ErrorIs(t, m.Save(t.Context(), dir), fs.ErrExist)
	require.Equal(t, before, vlmtest.Files(t, dir))
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	require.ErrorContains(t, m.Save(t.Context(), file), "vlm: save: ")
	require.ErrorContains(t, m.Save(t.Context(), filepath.Join(file, "below")), "vlm: save: ")
}

func TestCancelledSavesAndRestoresLeaveTheModel(t *testing.T) {
	m := newTiny(t, model.Qwen25VL, Options{Critic: SeparateCritic})
	vlmtest.Train(t, m.sets, m.text, 1)
	good := save(t, m)
	before, _ := m.dev.Live()
	for what, f := range map[string]func(ctx context.Context) error{
		"save":    func(ctx context.Context) error { return m.Save(ctx, filepath.Join(t.TempDir(), "x")) },
		"restore": func(ctx context.Context) error { return m.Restore(ctx, good) },
	} {
		done := false
		for looks := 0; !done; looks++ {
			err := f(vlmtest.Countdown(t.Context(), looks))
			if done = err == nil; done {
				require.Positive(t, looks, what)
			} else {
				require.ErrorIs(t, err, context.Canceled, what)
			}
			live, _ := m.dev.Live()
			require.Equal(t, before, live, what)
		}
		vlmtest.RequireSameFiles(t, good, save(t, m))
	}
}

// A folder with a model is not overwritten, in particular that of the model itself.
func TestExportRefusesTheFolderOfAModel(t *testing.T) {
	dir := vlmtest.Folder(t, model.Qwen2, nil)
	before := vlmtest.Files(t, dir)
	m := openTiny(t, dir, Options{})
	require.ErrorIs(t, m.Export(t.Context(), dir), safetensors.ErrExists)
	require.Equal(t, before, vlmtest.Files(t, dir))
}
