package model

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
)

// qwen35 is a config of Qwen3.5 with a vision tower.
func qwen35(text, vision object) object {
	t := object{
		"vocab_size": 100, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 4, "num_attention_heads": 2,
		"num_key_value_heads": 1, "head_dim": 16, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
		"linear_key_head_dim": 6, "linear_value_head_dim": 5, "rms_norm_eps": 1e-6, "eos_token_id": 7,
		"model_type":       "qwen3_5_text",
		"attn_output_gate": true, "mamba_ssm_dtype": "float32", "mtp_num_hidden_layers": 1, "mlp_only_layers": []int{},
		"rope_parameters": object{
			"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.5, "mrope_section": []int{2, 1, 1},
		},
	}
	tower := with(visionPart(), object{
		"window_size": nil, "fullatt_block_indexes": nil, "deepstack_visual_indexes": []int{},
		"hidden_act": "gelu_pytorch_tanh",
	})
	return object{
		"model_type": "qwen3_5", "image_token_id": 90, "text_config": with(t, text), "vision_config": with(tower, vision),
	}
}

func TestConfigsOfQwen35(t *testing.T) {
	c, err := parse(t, qwen35(nil, nil))
	require.NoError(t, err)
	require.Equal(t, &Linear{KeyHeads: 2, ValueHeads: 4, KeyDim: 6, ValueDim: 5, Kernel: 4}, c.Text.Linear)
	require.Equal(t, []string{"linear_attention", "linear_attention", "linear_attention", "full_attention"}, c.Text.Types)
	require.True(t, c.Text.Gated && c.Text.PlusOne && c.Text.QKNorm && c.Text.Interleaved)
	require.False(t, c.Text.QKVBias)
	require.Equal(t, 8, c.Text.Rotary)
	require.Equal(t, []int{0, 1, 2, 0}, c.Text.Axis())
	require.InDeltaSlice(t, []float64{1, 0.017783, 0.00031623, 0.0000056234}, c.Text.InvFreq(), 1e-6, "θ^(−2i/8)")

	listed, err := parse(t, qwen35(object{
		"layer_types":             []string{"full_attention", "linear_attention", "full_attention", "linear_attention"},
		"full_attention_interval": 2,
	}, nil))
	require.NoError(t, err)
	require.Equal(t, "full_attention", listed.Text.Types[0], "the list wins over the interval")

	flat := with(qwen35(nil, nil)["text_config"].(object), object{
		"head_dim": nil, "linear_num_key_heads": nil, "linear_num_value_heads": nil, "rope_parameters": nil,
		"partial_rotary_factor": 0.5, "rope_theta": 1e6, "full_attention_interval": 2, "tie_word_embeddings": true,
	})
	text, err := parse(t, flat)
	require.NoError(t, err)
	require.Equal(t, 256, text.Text.HeadDim)
	require.Equal(t, 128, text.Text.Rotary)
	require.Equal(t, 16, text.Text.Linear.KeyHeads)
	require.Equal(t, "full_attention", text.Text.Types[1])
	require.True(t, text.Tied)
	require.Nil(t, text.Vision)
	raw, err := json.Marshal(flat)
	require.NoError(t, err)
	marked, err := ParseConfig(append([]byte("\ufeff"), raw...))
	require.NoError(t, err)
	require.Equal(t, text.Text.Linear, marked.Text.Linear)
}

func TestNormsOfQwen35ScaleByOnePlusTheWeight(t *testing.T) {
	c, err := parse(t, qwen35(nil, nil))
	require.NoError(t, err)
	g := c.Groups()
	require.Empty(t, g.Deepstack)
	require.Equal(t, InitZero, g.Head.Params[0].Init)
	norm := slices.IndexFunc(g.Layers[0].Params, func(p Param) bool {
		return p.Parts[0].Name == "model.language_model.layers.0.linear_attn.norm.weight"
	})
	require.Equal(t, InitOne, g.Layers[0].Params[norm].Init, "this one does not")
}

func TestOtherFamiliesAreNotTakenForQwen35(t *testing.T) {
	for _, other := range []string{"qwen3_5_moe", "qwen3_next", "internvl_chat", "internvl", "glm4v", "glm46v",
		"glm4v_moe"} {
		_, err := parse(t, with(qwen35(nil, nil), object{"model_type": other}))
		testkit.Error(t, err, ErrConfig, `model_type "`+other+`"`, "supported are [qwen2_5_vl qwen3_vl")
	}
}
