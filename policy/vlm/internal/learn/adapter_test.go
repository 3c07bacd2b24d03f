package learn_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/policy"
	"vagen/policy/vlm"
	"vagen/policy/vlm/internal/backend"
	"vagen/policy/vlm/internal/learn"
	"vagen/policy/vlm/internal/model"
	. "vagen/policy/vlm/internal/modeltest"
	"vagen/policy/vlm/internal/peft"
	. "vagen/policy/vlm/internal/vlmtest"
)

func TestTrainingAnAdapterChangesNothingElse(t *testing.T) {
	for _, family := range []model.Family{model.Qwen25VL, model.Qwen3VL, model.Llama, model.Qwen35} {
		o := Options{LoRA: Adapters(), Reference: true}
		if family == model.Qwen35 {
			o.LoRA = &LoRA{Rank: 3, Alpha: 6} // on all of the decoder
		}
		m := New(t, family, o)
		rows, want := m.FourRows(t)
		before := Read(t, m.Sets.Actor.Weights)
		both := policy.ScoreRequest{LogProbs: true, Reference: true}
		first := scored(t, m, &rows, want, both)
		require.Equal(t, first.Reference, first.LogProbs, "a new adapter adds nothing")
		m.Train(t, 2)
		for _, name := range changed(before, Read(t, m.Sets.Actor.Weights)) {
			require.Contains(t, name, ".lora_")
		}
		trained := 0
		for name, x := range before {
			if strings.HasSuffix(name, model.LoraA) || strings.HasSuffix(name, model.LoraB) {
				trained += len(x)
			}
			if strings.HasSuffix(name, model.LoraB) {
				require.Contains(t, changed(before, Read(t, m.Sets.Actor.Weights)), name, "every adapter is trained")
			}
		}
		require.Equal(t, trained, m.Sets.Actor.Size(), "frozen parameters are not counted")
		after := scored(t, m, &rows, want, both)
		require.Equal(t, first.Reference, after.Reference)
		require.NotEqual(t, first.LogProbs, after.LogProbs)
	}
}

func TestAdaptedModelsWriteWhatTheyScore(t *testing.T) {
	m := New(t, model.Qwen25VL, Options{LoRA: Adapters()})
	m.Train(t, 3)
	played := PlayOn(t, m, m.Cfg.Vision != nil, policy.Sampling{Temperature: 1})
	rows, written, logProbs := played.Rows(played.Keys())
	got := logProbsOf(t, m, rows, written)
	for i, w := range written {
		if w {
			require.InDelta(t, got[i], logProbs[i], Drift)
		}
	}
}

func logProbsOf(t *testing.T, m *Model, rows policy.Rows, want []bool) []float32 {
	t.Helper()
	return scored(t, m, &rows, want, policy.ScoreRequest{LogProbs: true}).LogProbs
}

// A critic on the same base is not exported.
func TestExportedAdaptersArePartOfTheWeights(t *testing.T) {
	m := New(t, model.Qwen25VL, Options{LoRA: Adapters(), Critic: learn.SeparateCritic})
	m.Train(t, 3)
	rows, want := m.FourRows(t)
	dir := filepath.Join(t.TempDir(), "merged")
	require.NoError(t, m.Sets.Actor.SaveModel(t.Context(), m.Sets.Dir, dir, false))
	plain := Open(t, dir, Options{})
	RequireNear(t, logProbsOf(t, m, rows, want), logProbsOf(t, plain, rows, want), Drift, "log-probs")
	names := sortedNames(Read(t, plain.Sets.Actor.Weights))
	require.Len(t, names, len(sortedNames(Read(t, New(t, model.Qwen25VL, Options{}).Sets.Actor.Weights))))
}

func sortedNames(m map[string][]float32) []string { return slices.Sorted(maps.Keys(m)) }

func TestSavedAdaptersOpenWithTheirModel(t *testing.T) {
	dir := Folder(t, model.Qwen2, nil)
	m := Open(t, dir, Options{LoRA: Adapters()})
	m.Train(t, 2)
	saved := filepath.Join(m.Saved(t), learn.ActorFolder)
	again := Open(t, dir, Options{Adapter: saved})
	require.Equal(t, Read(t, m.Sets.Actor.Weights), Read(t, again.Sets.Actor.Weights))

	fail := func(want string, o Options) {
		_, err := TryOpen(t.Context(), dir, o)
		require.ErrorContains(t, err, want)
	}
	fail("both set", Options{Adapter: saved, LoRA: Adapters()})
	raw, err := os.ReadFile(filepath.Join(saved, peft.ConfigFile))
	require.NoError(t, err)
	c, err := peft.Parse(raw)
	require.NoError(t, err)
	c.Targets = []string{"q_proj"}
	require.NoError(t, os.WriteFile(filepath.Join(saved, peft.ConfigFile), c.JSON(), 0o644))
	fail("do not cover", Options{Adapter: saved})
	c.Targets = append(Adapters().Targets, "k_proj")
	require.NoError(t, os.WriteFile(filepath.Join(saved, peft.ConfigFile), c.JSON(), 0o644))
	fail("k_proj.lora_A.weight", Options{Adapter: saved})
}

func TestAdaptersThatFitNoMapAreRefused(t *testing.T) {
	dir := Folder(t, model.Qwen25VL, nil)
	for want, l := range map[string]LoRA{
		"rank is 0":                     {Alpha: 1},
		"alpha is 0":                    {Rank: 1},
		"rank is 1099511":               {Rank: 1 << 40, Alpha: 1},
		`"nothing"], only ["down_proj"`: {Rank: 1, Alpha: 1, Targets: []string{"nothing"}},
		"no linear layer":               {Rank: 1, Alpha: 1, Pattern: "nothing"},
		`the model's blocks have no linear layer ["x_proj" "gate"], only ["down_proj" "gate_proj" "k_proj"`: {Rank: 1,
			Alpha: 1, Targets: []string{"q_proj", "x_proj", "gate"}},
		"lm_head":         {Rank: 1, Alpha: 1, Targets: []string{"q_proj", "lm_head"}},
		"mlp.0":           {Rank: 1, Alpha: 1, Pattern: ".*"},
		"the same in all": {Rank: 1, Alpha: 1, Pattern: `.*layers\.0\..*q_proj`},
		"pattern":         {Rank: 1, Alpha: 1, Pattern: "("},
		"exactly one of":  {Rank: 1, Alpha: 1, Pattern: ".*q_proj", Targets: []string{"q_proj"}},
	} {
		if want == "lm_head" {
			dir = Folder(t, model.Qwen25VL, Object{"tie_word_embeddings": false})
		}
		_, err := TryOpen(t.Context(), dir, Options{LoRA: &l})
		testkit.Error(t, err, backend.ErrOption, want)
	}
}

// Gradients of trained weights do not change when other weights are frozen.
func TestFrozenWeightsStayAndTheOthersLearnAsBefore(t *testing.T) {
	ends := []string{"model.visual.patch_embed*", "*.merger.*"}
	most := []string{"model.visual.*", "*.embed_tokens.weight", "*.layers.0.*"}
	for family, freezes := range map[model.Family][][]string{
		model.Qwen25VL: {{"model.visual.*"}, ends},
		model.Qwen3VL:  {{"model.visual.*"}, {"*.embed_tokens.weight"}, most, ends},
		model.Qwen35:   {{"*norm*"}, most, {"model.language_model.*"}},
	} {
		dir := Folder(t, family, nil)
		free := Open(t, dir, Options{})
		b := playedBatch(t, free)
		aim := policy.Objective{Imitate: true, Temperature: 1}
		all, _, _ := gradientsOf(t, free, b, aim)
		for _, freeze := range freezes {
			m := Open(t, dir, Options{Freeze: freeze})
			got, _, _ := gradientsOf(t, m, b, aim)
			require.NotEmpty(t, got)
			require.Less(t, len(got), len(all))
			for name, x := range got {
				require.False(t, m.Cfg.Frozen(name), name)
				RequireNear(t, all[name], x, 1e-5*max(1, Largest(all[name])), name)
			}
			before := Read(t, m.Sets.Actor.Weights)
			m.Train(t, 1)
			moved := changed(before, Read(t, m.Sets.Actor.Weights))
			require.NotEmpty(t, moved)
			for _, name := range moved {
				require.False(t, m.Cfg.Frozen(name), name)
			}
		}
	}
}

func TestFreezingThatFitsNothingIsRefused(t *testing.T) {
	dir := Folder(t, model.Qwen2, nil)
	for want, freeze := range map[string][]string{
		`"model.visual.*"`: {"*.embed_tokens.weight", "model.visual.*"},
		"q, k and v":       {"*.q_proj.weight"},
	} {
		_, err := TryOpen(t.Context(), dir, Options{Freeze: freeze})
		testkit.Error(t, err, backend.ErrOption, want)
	}
}

// Weights that training does not change are in the checkpoint, too: with another seed or
// another initial adapter they would be different.
func TestFrozenPartsOfAdaptersAreRestored(t *testing.T) {
	dir := Folder(t, model.Qwen2, nil)
	for _, critic := range []vlm.Critic{learn.SharedCritic, learn.SeparateCritic} {
		o := Options{LoRA: Adapters(), Critic: critic, Freeze: []string{"*.lora_A.weight"}, Seed: 4}
		m := Open(t, dir, o)
		m.Train(t, 1)
		o.Seed = 5
		again := Open(t, dir, o)
		require.NotEqual(t, Read(t, m.Sets.Actor.Weights), Read(t, again.Sets.Actor.Weights))
		require.NoError(t, again.Restore(t.Context(), m.Saved(t)))
		require.Equal(t, Read(t, m.Sets.Actor.Weights), Read(t, again.Sets.Actor.Weights), critic)
		if critic == learn.SeparateCritic {
			require.Equal(t, Read(t, m.Sets.Critic.Weights), Read(t, again.Sets.Critic.Weights))
		}
	}
}

func TestCheckpointsWithMoreAdaptersAreRefused(t *testing.T) {
	dir := Folder(t, model.Qwen2, nil)
	saved := Open(t, dir, Options{LoRA: Adapters()}).Saved(t)
	fewer := *Adapters()
	fewer.Targets = fewer.Targets[:1]
	m := Open(t, dir, Options{LoRA: &fewer})
	err := m.Restore(t.Context(), saved)
	require.ErrorIs(t, err, learn.ErrCheckpoint)
	require.ErrorContains(t, err, Adapters().Targets[1]+
		".lora_A.weight is in the checkpoint, but the model does not have this adapter")
}
