package weights

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/safetensors"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/peft"
)

// textConfig is a text-only model of Qwen3.5 with one layer of each type.
func textConfig(t *testing.T) *model.Config {
	t.Helper()
	raw, err := json.Marshal(map[string]any{
		"model_type": "qwen3_5_text", "vocab_size": 40, "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2,
		"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8, "linear_num_key_heads": 1,
		"linear_num_value_heads": 2, "linear_key_head_dim": 4, "linear_value_head_dim": 3, "full_attention_interval": 2,
		"tie_word_embeddings": true,
	})
	require.NoError(t, err)
	c, err := model.ParseConfig(raw)
	require.NoError(t, err)
	return c
}

// A text model taken out of one with a vision tower has that model's names, and may lie beside its tower and the head
// that predicts further tokens.
func TestTextModelsTakenOutOfQwen35Load(t *testing.T) {
	c, dir, other := textConfig(t), t.TempDir(), t.TempDir()
	require.NoError(t, Write(dir, c, safetensors.BF16, NewModel(c, 1)))
	r, err := safetensors.OpenSharded(dir)
	require.NoError(t, err)
	defer r.Close()
	found, unused, err := Resolve(r, c)
	require.NoError(t, err)
	require.Empty(t, unused)
	require.Equal(t, "model.layers.0.linear_attn.A_log", found["model.layers.0.linear_attn.A_log"].Name)
	decay, err := r.Float32("model.layers.0.linear_attn.A_log", nil)
	require.NoError(t, err)
	for _, x := range decay {
		require.LessOrEqual(t, float64(x), math.Log(16)*(1+1e-2))
	}
	norm, err := r.Float32("model.layers.1.self_attn.q_norm.weight", nil)
	require.NoError(t, err)
	require.Equal(t, make([]float32, 8), norm, "norms scale by 1 + weight")

	list := []safetensors.Tensor{
		{Name: "mtp.fc.weight", DType: safetensors.F32, Shape: []int{1}},
		{Name: "model.visual.merger.norm.weight", DType: safetensors.F32, Shape: []int{1}},
	}
	for _, name := range r.Names() {
		info, _ := r.Info(name)
		info.Name = strings.Replace(name, "model.", "model.language_model.", 1)
		list = append(list, info)
	}
	w, err := safetensors.CreateSharded(other, list, nil, safetensors.DefaultShardBytes)
	require.NoError(t, err)
	defer w.Close()
	for _, x := range list {
		values := make([]float32, 1)
		if at := strings.Replace(x.Name, "model.language_model.", "model.", 1); at != x.Name {
			values, err = r.Float32(at, nil)
			require.NoError(t, err)
		}
		require.NoError(t, w.Float32(x.Name, values))
	}
	require.NoError(t, w.Commit())
	taken, err := safetensors.OpenSharded(other)
	require.NoError(t, err)
	defer taken.Close()
	found, unused, err = Resolve(taken, c)
	require.NoError(t, err)
	require.Empty(t, unused)
	require.Equal(t, "model.language_model.norm.weight", found["model.norm.weight"].Name, "it is saved under this name")
}

// Layers of different types may have different adapters, layers of one type may not.
func TestAdaptersOfHybridModels(t *testing.T) {
	for _, target := range []string{"q_proj", "in_proj_a", "out_proj", "down_proj"} {
		c := textConfig(t)
		config := peft.Config{Rank: 2, Targets: []string{target}}
		require.NoError(t, absentTargets(c, config.Targets))
		c.LoRA = &model.LoRA{Rank: 2, Scale: 1, Match: config.Match()}
		require.NoError(t, checkTargets(c), target)
	}
	require.ErrorContains(t, absentTargets(textConfig(t), []string{"conv1d"}),
		`no linear layer ["conv1d"], only ["down_proj"`)

	c := textConfig(t)
	c.Text.Layers, c.Text.Types = 3, []string{"linear_attention", "full_attention", "linear_attention"}
	c.LoRA = &model.LoRA{Rank: 2, Scale: 1, Match: func(module string) bool {
		return module == "model.layers.2.linear_attn.in_proj_z"
	}}
	require.ErrorContains(t, checkTargets(c), "layer 2 and layer 0 have different adapters")
}
