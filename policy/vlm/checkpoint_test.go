package vlm

import (
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
	"vagen/policy/loss"
	"vagen/policy/vlm/internal/learn"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/weights"
)

// train takes n steps with policy, critic and all terms.
func train(t *testing.T, m *Model, n int) {
	t.Helper()
	rows, want := fourRows(t, m)
	b := &policy.Batch{Rows: rows, Weight: evenly(want), Advantages: make([]float32, len(want)), OldLogProbs: make([]float32, len(want))}
	o := policy.Objective{Temperature: 1, Policy: loss.PPO{Low: 1, High: 10, Clamp: true}, EntropyCoef: 0.01}
	if m.opts.Critic != NoCritic {
		b.ValueWeight, b.Returns, o.ValueCoef = b.Weight, make([]float32, len(want)), 0.5
	}
	for i := range want {
		b.Advantages[i], b.OldLogProbs[i] = float32(i%5)-2, -5
		if b.Returns != nil {
			b.Returns[i] = float32(i % 3)
		}
	}
	opt := policy.DefaultOptimizer()
	opt.Rate, opt.CriticRate = 1e-3, 2e-3
	for range n {
		s, err := m.Update(t.Context(), b, o, opt)
		require.NoError(t, err)
		require.False(t, s.Skipped)
	}
}

// configOf reads a folder's config.json.
func configOf(t *testing.T, dir string) *model.Config {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "config.json"))
	require.NoError(t, err)
	cfg, err := model.ParseConfig(raw)
	require.NoError(t, err)
	return cfg
}

// files reads a folder.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	require.NoError(t, fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(filepath.Join(dir, path))
		out[path] = string(raw)
		return err
	}))
	return out
}

func save(t *testing.T, m *Model) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "checkpoint")
	require.NoError(t, m.Save(t.Context(), dir))
	return dir
}

func requireSameFiles(t *testing.T, want, got string) {
	t.Helper()
	a, b := files(t, want), files(t, got)
	require.Equal(t, slices.Sorted(maps.Keys(a)), slices.Sorted(maps.Keys(b)))
	require.NotEmpty(t, a)
	for name := range a {
		require.True(t, a[name] == b[name], "%s differs", name)
	}
}

func TestEqualSeedsGiveEqualBytesAfterTraining(t *testing.T) {
	dir := tinyFolder(t, model.Qwen25VL, nil)
	var saved []string
	for range 2 {
		m := openTiny(t, dir, Options{Critic: SeparateCritic, Seed: 2})
		train(t, m, 2)
		saved = append(saved, save(t, m))
	}
	requireSameFiles(t, saved[0], saved[1])
}

// Saved and restored in a new process, training continues with the same bytes:
// weights, moments, number of steps, and masters of weights stored in bfloat16.
func TestRestoredTrainingContinuesBitForBit(t *testing.T) {
	for _, critic := range []Critic{NoCritic, SharedCritic, SeparateCritic} {
		for _, dtype := range []safetensors.DType{safetensors.F32, safetensors.BF16} {
			t.Run(fmt.Sprint(critic, " ", dtype), func(t *testing.T) {
				dir := tinyFolder(t, model.Qwen25VL, nil)
				require.NoError(t, os.Remove(filepath.Join(dir, "model.safetensors")))
				require.NoError(t, weights.Write(dir, configOf(t, dir), dtype, spread(3)))
				o := Options{Critic: critic, Seed: 9}
				m := openTiny(t, dir, o)
				train(t, m, 2)
				half := save(t, m)
				train(t, m, 1)

				again := openTiny(t, dir, o)
				train(t, again, 1) // Restore must replace this state
				require.NoError(t, again.Restore(t.Context(), half))
				requireSameFiles(t, half, save(t, again))
				train(t, again, 1)
				requireSameFiles(t, save(t, m), save(t, again))
			})
		}
	}
}

func TestSavedPolicyOpensAsAModel(t *testing.T) {
	for _, family := range model.Families() {
		m := newTiny(t, family, Options{})
		train(t, m, 1)
		dir := save(t, m)
		again := openTiny(t, filepath.Join(dir, learn.ActorFolder), Options{})
		require.Equal(t, weightsOf(t, m.sets.Actor), weightsOf(t, again.sets.Actor), "%s", family)
		o := policy.Sampling{MaxTokens: 4}
		p := []policy.Prompt{{Conversation: 1, Messages: say("left")}}
		require.Equal(t, ask(t, m, o, p)[1].Tokens, ask(t, again, o, p)[1].Tokens)
	}
}

func TestSavedCriticIsRestored(t *testing.T) {
	dir := tinyFolder(t, model.Qwen25VL, nil)
	m := openTiny(t, dir, Options{Critic: SeparateCritic})
	train(t, m, 1)
	again := openTiny(t, dir, Options{Critic: SeparateCritic, CriticPath: filepath.Join(save(t, m), learn.CriticFolder), Seed: 77})
	require.Equal(t, weightsOf(t, m.sets.Critic), weightsOf(t, again.sets.Critic))
}

func TestCheckpointBeforeTheFirstStepRestoresToNoStep(t *testing.T) {
	m := newTiny(t, model.Qwen25VL, Options{})
	first := save(t, m)
	require.NoFileExists(t, filepath.Join(first, learn.OptimizerFolder, "actor.safetensors"))
	train(t, m, 1)
	require.NoError(t, m.Restore(t.Context(), first))
	require.Nil(t, m.sets.Actor.Adam)
	requireSameFiles(t, first, save(t, m))
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
	dir := tinyFolder(t, model.Qwen25VL, nil)
	m := openTiny(t, dir, Options{Critic: SeparateCritic})
	train(t, m, 1)
	good := save(t, m)
	train(t, m, 1)
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
			requireSameFiles(t, now, save(t, m))
		})
	}
	t.Run("another model", func(t *testing.T) {
		other := newTiny(t, model.Qwen3VL, Options{Critic: SeparateCritic})
		err := m.Restore(t.Context(), save(t, other))
		require.ErrorIs(t, err, ErrCheckpoint)
		requireSameFiles(t, now, save(t, m))
	})
	t.Run("no folder", func(t *testing.T) {
		none := filepath.Join(t.TempDir(), "none")
		require.ErrorContains(t, m.Restore(t.Context(), none), none)
	})
	require.NoError(t, m.Restore(t.Context(), good), "and the good one still does")
	requireSameFiles(t, good, save(t, m))
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
	before := files(t, dir)
	train(t, m, 1)
	require.ErrorIs(t, m.Save(t.Context(), dir), fs.ErrExist)
	require.Equal(t, before, files(t, dir))
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	require.ErrorContains(t, m.Save(t.Context(), file), "vlm: save: ")
	require.ErrorContains(t, m.Save(t.Context(), filepath.Join(file, "below")), "vlm: save: ")
}

func TestCancelledSavesAndRestoresLeaveTheModel(t *testing.T) {
	m := newTiny(t, model.Qwen25VL, Options{Critic: SeparateCritic})
	train(t, m, 1)
	good := save(t, m)
	before, _ := m.dev.Live()
	for what, f := range map[string]func(ctx *countdown) error{
		"save":    func(ctx *countdown) error { return m.Save(ctx, filepath.Join(t.TempDir(), "x")) },
		"restore": func(ctx *countdown) error { return m.Restore(ctx, good) },
	} {
		done := false
		for looks := 0; !done; looks++ {
			err := f(&countdown{t.Context(), looks})
			if done = err == nil; done {
				require.Positive(t, looks, what)
			} else {
				require.ErrorIs(t, err, (&countdown{}).Err(), what)
			}
			live, _ := m.dev.Live()
			require.Equal(t, before, live, what)
		}
		requireSameFiles(t, good, save(t, m))
	}
}

// A folder with a model is not overwritten, in particular that of the model itself.
func TestExportRefusesTheFolderOfAModel(t *testing.T) {
	dir := tinyFolder(t, model.Qwen2, nil)
	before := files(t, dir)
	m := openTiny(t, dir, Options{})
	require.ErrorIs(t, m.Export(t.Context(), dir), safetensors.ErrExists)
	require.Equal(t, before, files(t, dir))
}
