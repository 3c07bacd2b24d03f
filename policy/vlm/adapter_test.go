package vlm

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/vlm/internal/backend"
	"vagen/policy/vlm/internal/learn"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/peft"
)

// lora is an adapter on maps of every kind, in the vision tower too.
func lora() *LoRA {
	return &LoRA{Rank: 3, Alpha: 6, Targets: []string{"q_proj", "v_proj", "o_proj", "up_proj", "down_proj"}}
}

// changed lists the weights that differ.
func changed(before, after map[string][]float32) []string {
	var out []string
	for name, x := range before {
		if !slices.Equal(x, after[name]) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func TestTrainingAnAdapterChangesNothingElse(t *testing.T) {
	for _, family := range []model.Family{model.Qwen25VL, model.Qwen3VL, model.Llama, model.Qwen35} {
		o := Options{LoRA: lora(), Reference: true}
		if family == model.Qwen35 {
			o.LoRA = &LoRA{Rank: 3, Alpha: 6} // on all of the decoder
		}
		m := newTiny(t, family, o)
		rows, want := fourRows(t, m)
		before := weightsOf(t, m.sets.Actor)
		first, err := m.Score(t.Context(), &rows, want, policy.ScoreRequest{LogProbs: true, Reference: true}, 1)
		require.NoError(t, err)
		require.Equal(t, first.Reference, first.LogProbs, "a new adapter adds nothing")
		train(t, m, 2)
		for _, name := range changed(before, weightsOf(t, m.sets.Actor)) {
			require.Contains(t, name, ".lora_")
		}
		for name := range before {
			if strings.HasSuffix(name, model.LoraB) {
				require.Contains(t, changed(before, weightsOf(t, m.sets.Actor)), name, "every adapter is trained")
			}
		}
		after, err := m.Score(t.Context(), &rows, want, policy.ScoreRequest{LogProbs: true, Reference: true}, 1)
		require.NoError(t, err)
		require.Equal(t, first.Reference, after.Reference)
		require.NotEqual(t, first.LogProbs, after.LogProbs)
	}
}

func TestAdaptedModelsWriteWhatTheyScore(t *testing.T) {
	m := newTiny(t, model.Qwen25VL, Options{LoRA: lora()})
	train(t, m, 3)
	played := playOn(t, m, policy.Sampling{Temperature: 1})
	rows, written, logProbs := played.rows(sortedKeys(played))
	got := logProbsOf(t, m, rows, written)
	for i, w := range written {
		if w {
			require.InDelta(t, got[i], logProbs[i], rowDrift)
		}
	}
}

func logProbsOf(t *testing.T, m *Model, rows policy.Rows, want []bool) []float32 {
	t.Helper()
	s, err := m.Score(t.Context(), &rows, want, policy.ScoreRequest{LogProbs: true}, 1)
	require.NoError(t, err)
	return s.LogProbs
}

func TestExportedAdaptersArePartOfTheWeights(t *testing.T) {
	m := newTiny(t, model.Qwen25VL, Options{LoRA: lora()})
	train(t, m, 3)
	rows, want := fourRows(t, m)
	dir := filepath.Join(t.TempDir(), "merged")
	require.NoError(t, m.Export(t.Context(), dir))
	plain := openTiny(t, dir, Options{})
	requireNear(t, logProbsOf(t, m, rows, want), logProbsOf(t, plain, rows, want), rowDrift, "log-probs")
	names := sortedNames(weightsOf(t, plain.sets.Actor))
	require.Len(t, names, len(sortedNames(weightsOf(t, newTiny(t, model.Qwen25VL, Options{}).sets.Actor))))
}

func sortedNames(m map[string][]float32) []string { return slices.Sorted(maps.Keys(m)) }

func TestRestoredAdapterTrainingContinuesBitForBit(t *testing.T) {
	for _, critic := range []Critic{NoCritic, SharedCritic, SeparateCritic} {
		dir := tinyFolder(t, model.Qwen25VL, nil)
		o := Options{LoRA: lora(), Critic: critic, Seed: 4}
		whole := openTiny(t, dir, o)
		train(t, whole, 2)
		saved := save(t, whole)
		require.FileExists(t, filepath.Join(saved, learn.ActorFolder, peft.ConfigFile))
		require.NoFileExists(t, filepath.Join(saved, learn.ActorFolder, "model.safetensors"))
		train(t, whole, 2)
		resumed := openTiny(t, dir, o)
		require.NoError(t, resumed.Restore(t.Context(), saved))
		train(t, resumed, 2)
		require.Equal(t, weightsOf(t, whole.sets.Actor), weightsOf(t, resumed.sets.Actor), critic)
		if critic == SeparateCritic {
			require.Equal(t, weightsOf(t, whole.sets.Critic), weightsOf(t, resumed.sets.Critic))
		}
		other := *lora()
		other.Alpha++
		o.LoRA = &other
		require.ErrorIs(t, openTiny(t, dir, o).Restore(t.Context(), saved), ErrCheckpoint, "another scale")
	}
}

func TestSavedAdaptersOpenWithTheirModel(t *testing.T) {
	dir := tinyFolder(t, model.Qwen2, nil)
	m := openTiny(t, dir, Options{LoRA: lora()})
	train(t, m, 2)
	saved := filepath.Join(save(t, m), learn.ActorFolder)
	again := openTiny(t, dir, Options{Adapter: saved})
	require.Equal(t, weightsOf(t, m.sets.Actor), weightsOf(t, again.sets.Actor))

	fail := func(want string, o Options) {
		o.Backend = backend.Go
		_, err := Open(t.Context(), dir, o)
		require.ErrorContains(t, err, want)
	}
	fail("both set", Options{Adapter: saved, LoRA: lora()})
	raw, err := os.ReadFile(filepath.Join(saved, peft.ConfigFile))
	require.NoError(t, err)
	c, err := peft.Parse(raw)
	require.NoError(t, err)
	c.Targets = []string{"q_proj"}
	require.NoError(t, os.WriteFile(filepath.Join(saved, peft.ConfigFile), c.JSON(), 0o644))
	fail("do not cover", Options{Adapter: saved})
	c.Targets = append(lora().Targets, "k_proj")
	require.NoError(t, os.WriteFile(filepath.Join(saved, peft.ConfigFile), c.JSON(), 0o644))
	fail("k_proj.lora_A.weight", Options{Adapter: saved})
}

func TestAdaptersThatFitNoMapAreRefused(t *testing.T) {
	dir := tinyFolder(t, model.Qwen25VL, nil)
	for want, l := range map[string]LoRA{
		"rank is 0":                     {Alpha: 1},
		"alpha is 0":                    {Rank: 1},
		"rank is 1099511":               {Rank: 1 << 40, Alpha: 1},
		`"nothing"], only ["down_proj"`: {Rank: 1, Alpha: 1, Targets: []string{"nothing"}},
		"no linear layer":               {Rank: 1, Alpha: 1, Pattern: "nothing"},
		`the model's blocks have no linear layer ["x_proj" "gate"], only ["down_proj" "gate_proj" "k_proj"`: {Rank: 1, Alpha: 1, Targets: []string{"q_proj", "x_proj", "gate"}},
		"lm_head":         {Rank: 1, Alpha: 1, Targets: []string{"q_proj", "lm_head"}},
		"mlp.0":           {Rank: 1, Alpha: 1, Pattern: ".*"},
		"the same in all": {Rank: 1, Alpha: 1, Pattern: `.*layers\.0\..*q_proj`},
		"pattern":         {Rank: 1, Alpha: 1, Pattern: "("},
		"exactly one of":  {Rank: 1, Alpha: 1, Pattern: ".*q_proj", Targets: []string{"q_proj"}},
	} {
		if want == "lm_head" {
			dir = tinyFolder(t, model.Qwen25VL, object{"tie_word_embeddings": false})
		}
		_, err := Open(t.Context(), dir, Options{Backend: backend.Go, LoRA: &l})
		require.ErrorIs(t, err, ErrOption)
		require.ErrorContains(t, err, want)
	}
}

// Gradients of trained weights do not change when other weights are frozen.
func TestFrozenWeightsStayAndTheOthersLearnAsBefore(t *testing.T) {
	for _, family := range []model.Family{model.Qwen25VL, model.Qwen3VL, model.Qwen35} {
		dir := tinyFolder(t, family, nil)
		free := openTiny(t, dir, Options{})
		b := playedBatch(t, free)
		aim := policy.Objective{Imitate: true, Temperature: 1}
		all, _, _ := gradientsOf(t, free, b, aim)
		for _, freeze := range [][]string{
			{"model.visual.*"},
			{"*.embed_tokens.weight"},
			{"*norm*"},
			{"model.visual.*", "*.embed_tokens.weight", "*.layers.0.*"},
			{"model.visual.patch_embed*", "*.merger.*"},
			{"model.language_model.*"},
		} {
			m := openTiny(t, dir, Options{Freeze: freeze})
			got, _, _ := gradientsOf(t, m, b, aim)
			require.NotEmpty(t, got)
			require.Less(t, len(got), len(all))
			for name, x := range got {
				require.False(t, m.cfg.Frozen(name), name)
				requireNear(t, all[name], x, 1e-5*max(1, largest(all[name])), name)
			}
			before := weightsOf(t, m.sets.Actor)
			train(t, m, 1)
			moved := changed(before, weightsOf(t, m.sets.Actor))
			require.NotEmpty(t, moved)
			for _, name := range moved {
				require.False(t, m.cfg.Frozen(name), name)
			}
		}
	}
}

func TestFreezingThatFitsNothingIsRefused(t *testing.T) {
	dir := tinyFolder(t, model.Qwen2, nil)
	for want, freeze := range map[string][]string{
		`"model.visual.*"`: {"*.embed_tokens.weight", "model.visual.*"},
		"q, k and v":       {"*.q_proj.weight"},
	} {
		_, err := Open(t.Context(), dir, Options{Backend: backend.Go, Freeze: freeze})
		require.ErrorIs(t, err, ErrOption)
		require.ErrorContains(t, err, want)
	}
}

// Weights that training does not change are in the checkpoint, too: with another seed or
// another initial adapter they would be different.
func TestFrozenPartsOfAdaptersAreRestored(t *testing.T) {
	dir := tinyFolder(t, model.Qwen2, nil)
	for _, critic := range []Critic{SharedCritic, SeparateCritic} {
		o := Options{LoRA: lora(), Critic: critic, Freeze: []string{"*.lora_A.weight"}, Seed: 4}
		m := openTiny(t, dir, o)
		train(t, m, 1)
		o.Seed = 5
		again := openTiny(t, dir, o)
		require.NotEqual(t, weightsOf(t, m.sets.Actor), weightsOf(t, again.sets.Actor))
		require.NoError(t, again.Restore(t.Context(), save(t, m)))
		require.Equal(t, weightsOf(t, m.sets.Actor), weightsOf(t, again.sets.Actor), critic)
		if critic == SeparateCritic {
			require.Equal(t, weightsOf(t, m.sets.Critic), weightsOf(t, again.sets.Critic))
		}
	}
}

func TestCheckpointsWithMoreAdaptersAreRefused(t *testing.T) {
	dir := tinyFolder(t, model.Qwen2, nil)
	saved := save(t, openTiny(t, dir, Options{LoRA: lora()}))
	fewer := *lora()
	fewer.Targets = fewer.Targets[:1]
	m := openTiny(t, dir, Options{LoRA: &fewer})
	err := m.Restore(t.Context(), saved)
	require.ErrorIs(t, err, ErrCheckpoint)
	require.ErrorContains(t, err, lora().Targets[1]+".lora_A.weight is in the checkpoint, but the model does not have this adapter")
}
