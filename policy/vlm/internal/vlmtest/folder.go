// Package vlmtest has what tests of the parts of package vlm share: folders of tiny models, models with their parts,
// recorded conversations, and the executables of a test process, which are compiled once.
package vlmtest

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/rng"
	"vagen/internal/safetensors"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/weights"
	"vagen/policy/vlm/processor"
	"vagen/policy/vlm/tokenizer"
)

// Object is a JSON object.
type Object = map[string]any

// Words are texts that tiny models encode as one token each. The longer ones are the chat template's,
// so that rows are short.
var Words = []string{
	"left", "right", "goal", " box",
	"system\nYou are a helpful assistant.", "user\n", "assistant\n",
}

// Tokenizer has 256 bytes, the special tokens and Words.
func Tokenizer(t testing.TB) *tokenizer.Tokenizer {
	t.Helper()
	tok, err := tokenizer.NewTiny(Words)
	require.NoError(t, err)
	return tok
}

// Config is the config.json of a model of some thousand parameters: two
// decoder layers, and a vision tower of two blocks that reads patches of 4×4
// pixels, 2×2 of which are a token, in windows of 2×2 tokens. Changes replace
// keys; nil removes one.
func Config(t testing.TB, family model.Family, changes Object) Object {
	t.Helper()
	sp := Tokenizer(t).Special()
	c := Object{
		"architectures": []string{string(family)}, "model_type": string(family), "vocab_size": 272, "hidden_size": 16,
		"intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
		"hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 10000, "max_position_embeddings": 2048,
		"initializer_range": 0.15, "eos_token_id": []int32{sp.TurnEnd, sp.Pad},
		"tie_word_embeddings": family == model.Qwen25VL || family == model.Qwen2,
	}
	if family == model.Qwen35 || family == model.Qwen35Text {
		maps.Copy(c, Object{
			"full_attention_interval": 2, "linear_num_key_heads": 1, "linear_num_value_heads": 2, "linear_key_head_dim": 8,
			"linear_value_head_dim": 6, "linear_conv_kernel_dim": 3, "head_dim": 16, "partial_rotary_factor": 0.5,
		})
	}
	if family.HasVision() {
		vision := Object{
			"depth": 2, "hidden_size": 16, "intermediate_size": 24, "num_heads": 2, "patch_size": 4, "spatial_merge_size": 2,
			"temporal_patch_size": 2, "in_channels": 3, "out_hidden_size": 16,
		}
		if family == model.Qwen25VL {
			maps.Copy(vision, Object{"window_size": 16, "fullatt_block_indexes": []int{1}, "hidden_act": "silu"})
		} else {
			maps.Copy(vision, Object{"num_position_embeddings": 9, "hidden_act": "gelu_pytorch_tanh"})
			if family == model.Qwen3VL {
				vision["deepstack_visual_indexes"] = []int{0}
			}
		}
		maps.Copy(c, Object{
			"image_token_id": sp.ImagePad, "video_token_id": sp.VideoPad,
			"vision_start_token_id": sp.VisionStart, "vision_end_token_id": sp.VisionEnd,
			"rope_scaling": Object{"type": "default", "mrope_section": []int{2, 1, 1}}, "vision_config": vision,
		})
	}
	for k, v := range changes {
		if v == nil {
			delete(c, k)
		} else {
			c[k] = v
		}
	}
	return c
}

// Folder writes the folder of a model with random weights.
func Folder(t testing.TB, family model.Family, changes Object) string {
	t.Helper()
	dir := t.TempDir()
	raw, err := json.Marshal(Config(t, family, changes))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), raw, 0o644))
	cfg, err := model.ParseConfig(raw)
	require.NoError(t, err)
	require.NoError(t, weights.Write(dir, cfg, safetensors.F32, Spread(3)))
	require.NoError(t, Tokenizer(t).Save(dir))
	if cfg.Vision != nil {
		c := processor.Qwen25VL()
		c.PatchSize, c.MinPixels, c.MaxPixels = 4, 64, 4096
		require.NoError(t, c.Save(dir))
	}
	return dir
}

// Spread draws weights with which attention is sharp and the distributions over tokens
// are far from uniform, so that errors become visible. Norms and biases are random, too.
func Spread(seed uint64) weights.Source {
	return func(p model.Param, part model.Stored, dst []float32) error {
		r := rng.New(seed, rng.Init, weights.HashName(part.Name))
		for i := range dst {
			dst[i] = float32(0.3 * r.NormFloat64())
			if p.Init == model.InitOne {
				dst[i]++
			}
		}
		return nil
	}
}
