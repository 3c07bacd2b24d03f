package vlm

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/peft"
	"vagen/policy/vlm/internal/vlmtest"
	"vagen/policy/vlm/processor"
)

// A critic's weights are read by the policy's programs, which would compute other values than its config.json means.
func TestCriticsThatComputeOtherwiseAreRefused(t *testing.T) {
	dir, critic := vlmtest.Folder(t, model.Qwen25VL, nil), vlmtest.Folder(t, model.Qwen25VL, nil)
	o := Options{Critic: SeparateCritic, CriticPath: critic}
	_, err := Check(t.Context(), dir, o)
	require.NoError(t, err)
	c := processor.Qwen25VL()
	c.PatchSize, c.MinPixels, c.MaxPixels, c.Mean[1] = 4, 64, 4096, 0.5
	require.NoError(t, c.Save(critic))
	raw, err := json.Marshal(vlmtest.Config(t, model.Qwen25VL, vlmtest.Object{
		"rope_theta": 5000, "rms_norm_eps": 1e-5, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16,
		"rope_scaling": vlmtest.Object{"type": "default", "mrope_section": []int{4, 2, 2}},
	}))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(critic, "config.json"), raw, 0o600))
	_, opened := Open(t.Context(), dir, o)
	require.ErrorIs(t, opened, ErrOption)
	for _, says := range []string{
		"rope_theta is 5000, must be the policy's, 10000", "rms_norm_eps is 1e-05, must be the policy's, 1e-06",
		"num_attention_heads is 2, must be the policy's, 4", "mrope_section is [4 2 2], must be the policy's, [2 1 1]",
		"image_mean is [0.48145466 0.5 0.40821073], must be",
	} {
		require.ErrorContains(t, opened, says)
	}
	_, err = Check(t.Context(), dir, o)
	require.EqualError(t, err, opened.Error())
}

func TestCheckReadsTheShapesOfAnAdapter(t *testing.T) {
	dir, adapter := vlmtest.Folder(t, model.Qwen2, nil), filepath.Join(t.TempDir(), "adapter")
	m := openTiny(t, dir, Options{LoRA: &LoRA{Rank: 2, Alpha: 4, Targets: []string{"q_proj"}}})
	require.NoError(t, m.ExportAdapter(t.Context(), adapter))
	_, err := Check(t.Context(), dir, Options{Adapter: adapter})
	require.NoError(t, err)
	const a, b = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight",
		"base_model.model.model.layers.1.self_attn.q_proj.lora_B.weight"
	vlmtest.Edit(t, filepath.Join(adapter, peft.WeightsFile), func(f *vlmtest.File) {
		delete(f.Tensors, a)
		x := f.Tensors[b]
		x.Shape = []int{2, 32}
		f.Tensors[b] = x
	})
	_, err = Check(t.Context(), dir, Options{Adapter: adapter})
	testkit.Error(t, err, ErrWeights, a+" [2 16] is missing", b+" has shape [2 32], must be [32 2]")
}
