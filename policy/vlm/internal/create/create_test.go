package create_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"vagen/internal/safetensors"
	"vagen/policy"
	"vagen/policy/vlm"
	"vagen/policy/vlm/internal/backend"
	"vagen/policy/vlm/internal/create"
)

// smallShape is a model of some thousand parameters of a family.
func smallShape(family string) create.Shape {
	s := create.Shape{Family: family, Hidden: 16, FF: 24, Layers: 2, Heads: 4, KVHeads: 2, HeadDim: 8, Vocab: 300,
		RopeTheta: 10000, MaxPositions: 256}
	if strings.HasPrefix(family, "qwen3_5") {
		s.Linear = create.LinearShape{KeyHeads: 1, ValueHeads: 2, HeadDim: 4, Kernel: 3, Interval: 2}
		s.HeadDim = 32
	}
	if strings.HasSuffix(family, "vl") || family == "qwen3_5" {
		small := create.Small()
		s.RopeSections, s.Patch, s.Mean, s.Std, s.MaxPixels = [3]int{2, 1, 1}, small.Patch, small.Mean, small.Std,
			small.MaxPixels
		s.VisionHidden, s.VisionFF, s.VisionDepth, s.VisionHeads, s.Window, s.FullBlocks = 16, 24, 2, 2, 56, []int{1}
	}
	return s
}

func TestCreatedModelsOfEveryFamilyGenerateInEveryStorage(t *testing.T) {
	for _, family := range []string{"llama", "qwen2", "qwen3", "qwen2_5_vl", "qwen3_5", "qwen3_5_text"} {
		for _, bf16 := range []bool{false, true} {
			for _, untied := range []bool{false, true} {
				s := smallShape(family)
				s.BFloat16, s.Untied = bf16, untied
				dir := t.TempDir()
				require.NoError(t, create.Model(dir, s, []string{"left", "right"}, 1))
				r, err := safetensors.OpenSharded(dir)
				require.NoError(t, err)
				_, ok := r.Info("lm_head.weight")
				assert.Equal(t, untied, ok, "%s: the head is stored when it is not tied", family)
				embed := "model.embed_tokens.weight"
				if family == "qwen3_5" {
					embed = "model.language_model.embed_tokens.weight"
				}
				info, _ := r.Info(embed)
				assert.Equal(t, []int{300, 16}, info.Shape)
				assert.Equal(t, bf16, info.DType == safetensors.BF16)
				require.NoError(t, r.Close())

				m, err := vlm.Open(t.Context(), dir, vlm.Options{Backend: backend.Go})
				require.NoError(t, err, family)
				out, err := m.Generate(t.Context(), []policy.Prompt{{Conversation: 1, Messages: []policy.Message{{Role: policy.User,
					Text: "go left"}}}},
					policy.Sampling{Temperature: 1, MaxTokens: 3})
				require.NoError(t, err, family)
				assert.NotEmpty(t, out[0].Tokens)
				require.NoError(t, m.Close())
			}
		}
	}
}

func TestCreateIsDecidedByTheSeed(t *testing.T) {
	weights := func(seed uint64) string {
		dir := t.TempDir()
		require.NoError(t, create.Model(dir, smallShape("qwen3"), nil, seed))
		raw, err := os.ReadFile(filepath.Join(dir, "model.safetensors"))
		require.NoError(t, err)
		return string(raw)
	}
	assert.Equal(t, weights(1), weights(1))
	assert.NotEqual(t, weights(1), weights(2))
}

func TestCreateNamesWhatIsNotPositive(t *testing.T) {
	err := create.Model(t.TempDir(), create.Shape{Family: "llama", Hidden: 8, MaxPositions: 1}, nil, 1)
	require.ErrorIs(t, err, create.ErrShape)
	for _, name := range []string{"intermediate_size is 0", "num_hidden_layers is 0", "num_attention_heads is 0"} {
		assert.ErrorContains(t, err, name)
	}
	assert.NotContains(t, err.Error(), "vision")
	require.ErrorContains(t, create.Model(t.TempDir(), create.Shape{}, nil, 1), "MaxPositions is 0, must be positive")
	err = create.Model(t.TempDir(), create.Shape{Family: "gpt2"}, nil, 1)
	require.ErrorIs(t, err, create.ErrShape)
	assert.ErrorContains(t, err, "qwen2_5_vl")
	s := smallShape("llama")
	s.Linear.KeyHeads = 2
	require.ErrorContains(t, create.Model(t.TempDir(), s, nil, 1), "llama has no delta nets")
}

func TestARefusedShapeLeavesNoFolder(t *testing.T) {
	s := smallShape("qwen2_5_vl")
	s.Std[1] = -1
	dir := filepath.Join(t.TempDir(), "model")
	require.ErrorContains(t, create.Model(dir, s, nil, 1), "image_std[1] is -1")
	require.NoDirExists(t, dir)
}
