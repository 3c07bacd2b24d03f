package vlm

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/safetensors"
	"vagen/policy"
	"vagen/policy/vlm/internal/backend"
	"vagen/policy/vlm/internal/learn"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/net"
)

var notFinite = map[string]float32{"NaN": float32(math.NaN()), "+Inf": float32(math.Inf(1)), "-Inf": float32(math.Inf(-1))}

// spoil puts x into a tensor of a file.
func spoil(t *testing.T, path, name string, at int, x float32) {
	t.Helper()
	edit(t, path, func(_ map[string]safetensors.Tensor, values map[string][]float32) {
		require.Contains(t, values, name)
		values[name][at] = x
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
			for text, bad := range notFinite {
				y := slices.Clone(x)
				y[i] = bad
				err := net.CheckFinite("x", y)
				require.ErrorIs(t, err, ErrNotFinite)
				require.ErrorContains(t, err, fmt.Sprintf("x: entry %d is %s, must be finite", i, text))
			}
		}
	}
}

func TestWeightsThatAreNotFiniteAreNotLoaded(t *testing.T) {
	const name = "model.layers.1.mlp.up_proj.weight"
	for text, bad := range notFinite {
		dir := tinyFolder(t, model.Qwen3, nil)
		spoil(t, filepath.Join(dir, "model.safetensors"), name, 5, bad)
		_, err := Open(t.Context(), dir, Options{Backend: backend.Go})
		require.ErrorIs(t, err, ErrNotFinite)
		require.ErrorContains(t, err, fmt.Sprintf("%s: entry 5 is %s, must be finite", name, text))
	}
	t.Run("of an adapter", func(t *testing.T) {
		dir := tinyFolder(t, model.Qwen3, nil)
		saved := filepath.Join(save(t, openTiny(t, dir, Options{LoRA: lora()})), learn.ActorFolder)
		path := filepath.Join(saved, "adapter_model.safetensors")
		r, err := safetensors.Open(path)
		require.NoError(t, err)
		name := r.Names()[0]
		require.NoError(t, r.Close())
		spoil(t, path, name, 0, float32(math.NaN()))
		_, err = Open(t.Context(), dir, Options{Backend: backend.Go, Adapter: saved})
		require.ErrorIs(t, err, ErrNotFinite)
		require.ErrorContains(t, err, name)
	})
	t.Run("of a checkpoint", func(t *testing.T) {
		m := newTiny(t, model.Qwen3, Options{})
		train(t, m, 1)
		good := save(t, m)
		train(t, m, 1)
		now := save(t, m)
		for path, name := range map[string]string{
			filepath.Join(learn.ActorFolder, "model.safetensors"):     name,
			filepath.Join(learn.OptimizerFolder, "actor.safetensors"): "v." + name,
		} {
			bad := filepath.Join(t.TempDir(), "bad")
			require.NoError(t, os.CopyFS(bad, os.DirFS(good)))
			spoil(t, filepath.Join(bad, path), name, 1, float32(math.Inf(1)))
			err := m.Restore(t.Context(), bad)
			require.ErrorIs(t, err, ErrCheckpoint)
			require.ErrorIs(t, err, ErrNotFinite)
			require.ErrorContains(t, err, name+": entry 1 is +Inf, must be finite")
			requireSameFiles(t, now, save(t, m))
		}
	})
}

// poisonRow fills a row of a tensor on the device with x.
func poisonRow(t *testing.T, m *Model, name string, row int32, x float32) {
	t.Helper()
	found := false
	require.NoError(t, m.sets.Actor.Set(func(part model.Part, old []float32) ([]float32, error) {
		if part.Name == name {
			found = true
			for i := range part.Dims[1] {
				old[int(row)*part.Dims[1]+i] = x
			}
		}
		return old, nil
	}))
	require.True(t, found, name)
}

// One logit that is NaN makes every probability NaN: no token is sampled.
func TestNoTokenIsDrawnFromLogitsThatAreNotNumbers(t *testing.T) {
	t.Parallel()
	check := func(m *Model, name string, o policy.Sampling) {
		t.Helper()
		o.MaxTokens = 4
		watched := 0
		prompts := []policy.Prompt{{Conversation: 1, Messages: say("go left")}, {Conversation: 2, Messages: say("where is it?")}}
		got, err := m.Stream(t.Context(), prompts, o, func(int, int32) { watched++ })
		require.NoError(t, err)
		for i, c := range got {
			require.ErrorIs(t, c.Err, ErrNotFinite, name)
			require.Empty(t, c.Tokens)
			require.ErrorContains(t, c.Err, "vlm: generate: token 0 of the response: log-prob is ")
			again, err := m.Generate(t.Context(), []policy.Prompt{{Conversation: prompts[i].Conversation, Messages: say("and?")}}, o)
			require.NoError(t, err)
			require.ErrorIs(t, again[0].Err, ErrNotFinite, "the conversation is over")
			m.Forget(prompts[i].Conversation)
		}
		require.Zero(t, watched)
	}
	const row = 77 // a token that the prompts do not have
	m := newTiny(t, model.Qwen3, Options{})
	for text, bad := range notFinite {
		poisonRow(t, m, "lm_head.weight", row, bad) // Inf − Inf, too, is NaN
		for name, o := range map[string]policy.Sampling{
			"greedy": {}, "drawn": {Temperature: 1}, "top-k": {Temperature: 1, TopK: 3}, "top-p": {Temperature: 1, TopP: 0.5}, "min-p": {Temperature: 1, MinP: 0.1},
		} {
			check(m, text+" "+name, o)
		}
	}
	compiled := newTiny(t, model.Qwen3, Options{Backend: testBackend()})
	poisonRow(t, compiled, "lm_head.weight", row, notFinite["NaN"])
	check(compiled, "compiled", policy.Sampling{Temperature: 1, TopK: 3, TopP: 0.5, MinP: 0.1})
}

// A conversation whose numbers are not finite ends; the others of its batch get
// bit-identical results.
func TestNumbersThatAreNotFiniteEndTheirConversationAlone(t *testing.T) {
	t.Parallel()
	m := newTiny(t, model.Qwen3, Options{Backend: testBackend()})
	o := policy.Sampling{Temperature: 1, MaxTokens: 6}
	prompts := []policy.Prompt{
		{Conversation: 1, Messages: say("go left"), Seed: 1}, {Conversation: 2, Messages: say("the goal"), Seed: 2}, {Conversation: 3, Messages: say("go up"), Seed: 3},
	}
	want, err := m.Generate(t.Context(), prompts, o)
	require.NoError(t, err)
	m.Forget(1, 2, 3)
	goal, err := m.Tokenizer().Encode("goal")
	require.NoError(t, err)
	require.Len(t, goal, 1)
	for _, i := range []int{0, 2} {
		require.NotContains(t, append(want[i].Context, want[i].Tokens...), goal[0])
	}
	poisonRow(t, m, "model.embed_tokens.weight", goal[0], float32(math.NaN()))
	got, err := m.Generate(t.Context(), prompts, o)
	require.NoError(t, err)
	require.ErrorIs(t, got[1].Err, ErrNotFinite)
	require.Equal(t, want[0], got[0])
	require.Equal(t, want[2], got[2])
}

func TestScoresThatAreNotFiniteAreRefused(t *testing.T) {
	m := newTiny(t, model.Qwen3, Options{Critic: SharedCritic})
	rows, want := fourRows(t, m)
	for what, name := range map[string]string{"log-probs": "lm_head.weight", "values": "score.weight"} {
		require.NoError(t, m.sets.Actor.Set(func(part model.Part, old []float32) ([]float32, error) {
			if part.Name == name {
				return slices.Repeat([]float32{float32(math.NaN())}, len(old)), nil
			}
			return old, nil
		}))
		_, err := m.Score(t.Context(), &rows, want, policy.ScoreRequest{LogProbs: what == "log-probs", Values: what == "values"}, 1)
		require.ErrorIs(t, err, ErrNotFinite)
		require.ErrorContains(t, err, "vlm: score: ")
		require.ErrorContains(t, err, what+": entry ")
	}
}
