package model

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
	"vagen/internal/safetensors"
)

type object = map[string]any

// textPart and visionPart are small valid configs; with returns a copy in which
// keys are replaced, or removed where the value is nil.
func textPart() object {
	return object{
		"vocab_size": 100, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
		"num_key_value_heads": 2, "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 5e5,
		"max_position_embeddings": 256,
		"rope_scaling":            object{"type": "mrope", "mrope_section": []int{1, 1, 2}}, "eos_token_id": 7,
		"initializer_range": 0.01,
	}
}

func visionPart() object {
	return object{
		"depth": 3, "hidden_size": 24, "intermediate_size": 40, "num_heads": 2, "patch_size": 14, "spatial_merge_size": 2,
		"temporal_patch_size": 2, "in_chans": 3, "window_size": 56, "fullatt_block_indexes": []int{1}, "out_hidden_size": 32,
		"hidden_act": "silu", "num_position_embeddings": 16, "deepstack_visual_indexes": []int{0, 2},
	}
}

func with(base object, changes object) object {
	out := maps.Clone(base)
	for k, v := range changes {
		if v == nil {
			delete(out, k)
		} else {
			out[k] = v
		}
	}
	return out
}

// flat is a config of the first released layout.
func flat(changes, vision object) object {
	c := with(textPart(), object{"model_type": "qwen2_5_vl",
		"architectures":  []string{"Qwen2_5_VLForConditionalGeneration"},
		"image_token_id": 90, "video_token_id": 91, "vision_start_token_id": 92, "vision_end_token_id": 93,
		"vision_config": with(visionPart(), vision)})
	return with(c, changes)
}

func parse(t testing.TB, c object) (*Config, error) {
	t.Helper()
	raw, err := json.Marshal(c)
	require.NoError(t, err)
	return ParseConfig(raw)
}

func TestFlatAndNestedConfigsAreTheSame(t *testing.T) {
	want, err := parse(t, flat(nil, nil))
	require.NoError(t, err)
	text := with(textPart(), object{"rope_scaling": nil, "rope_theta": nil,
		"rope_parameters": object{"rope_type": "default", "rope_theta": 5e5, "mrope_section": []int{1, 1, 2}}})
	nested := object{"model_type": "qwen2_5_vl", "text_config": text, "image_token_id": 90, "video_token_id": 91,
		"vision_start_token_id": 92, "vision_end_token_id": 93,
		"vision_config": with(visionPart(), object{"in_chans": nil, "in_channels": 3})}
	got, err := parse(t, nested)
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Equal(t, Text{Vocab: 100, Hidden: 32, FF: 48, Layers: 2, Heads: 4, KVHeads: 2, HeadDim: 8, Eps: 1e-5,
		Theta:    5e5,
		Sections: []int{1, 1, 2}, QKVBias: true, MaxPositions: 256, Rotary: 8}, got.Text)
	require.Equal(t, &Vision{Depth: 3, Hidden: 24, FF: 40, Heads: 2, Patch: 14, Merge: 2, Temporal: 2, Channels: 3,
		Window:     56,
		FullBlocks: []int{1}, Out: 32}, got.Vision)
	require.Equal(t, []int32{7}, got.EndOfTurn)
	require.EqualValues(t, 90, got.ImageToken)
	require.False(t, got.Tied)
}

func TestConfigsOfEveryFamily(t *testing.T) {
	base := with(textPart(), object{"rope_scaling": nil})
	for name, c := range map[string]struct {
		in   object
		want func(t *testing.T, c *Config)
	}{
		"qwen2": {with(base, object{"model_type": "qwen2", "num_key_value_heads": nil, "tie_word_embeddings": true,
			"eos_token_id": []int{3, 4}}), func(t *testing.T, c *Config) {
			require.True(t, c.Text.QKVBias)
			require.False(t, c.Text.OutBias || c.Text.QKNorm)
			require.Equal(t, 4, c.Text.KVHeads, "missing: as many as heads")
			require.True(t, c.Tied)
			require.Equal(t, []int32{3, 4}, c.EndOfTurn)
			require.Nil(t, c.Vision)
		}},
		"qwen3": {with(base, object{"model_type": "qwen3", "head_dim": 10}), func(t *testing.T, c *Config) {
			require.True(t, c.Text.QKNorm)
			require.False(t, c.Text.QKVBias)
			require.Equal(t, 10, c.Text.HeadDim, "not hidden_size over heads")
			require.EqualValues(t, -1, c.ImageToken)
		}},
		"llama with biases": {with(base, object{"model_type": "llama", "attention_bias": true, "mlp_bias": true}),
			func(t *testing.T, c *Config) {
				require.True(t, c.Text.QKVBias && c.Text.OutBias && c.Text.MLPBias)
			}},
		"llama 3": {with(base, object{"model_type": "llama", "rope_scaling": object{"rope_type": "llama3", "factor": 8.0,
			"low_freq_factor":  1.0,
			"high_freq_factor": 4.0, "original_max_position_embeddings": 8192}}), func(t *testing.T, c *Config) {
			require.Equal(t, &RopeScaling{8, 1, 4, 8192}, c.Text.Scaling)
			require.False(t, c.Text.QKVBias)
		}},
		"qwen3_vl": {flat(object{"model_type": "qwen3_vl"}, object{"hidden_act": "gelu_pytorch_tanh"}),
			func(t *testing.T, c *Config) {
				require.True(t, c.Text.Interleaved && c.Text.QKNorm)
				require.Zero(t, c.Vision.Window)
				require.True(t, c.Vision.Full(0) && c.Vision.Full(2))
				require.Equal(t, 16, c.Vision.Positions)
				require.Equal(t, []int{0, 2}, c.Vision.Deepstack)
			}},
		"a critic": {flat(object{"architectures": []string{"Qwen2_5_VLForTokenClassification"}, "tie_word_embeddings": true},
			nil), func(t *testing.T, c *Config) {
			require.True(t, c.Critic)
			require.False(t, c.Tied, "there is no head to tie")
			require.False(t, c.Vision.Full(0))
			require.True(t, c.Vision.Full(1))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parse(t, c.in)
			require.NoError(t, err)
			c.want(t, got)
		})
	}
}

// TestMissingKeysHaveTransformersDefaults of the text configuration of each family (release 5.24).
func TestMissingKeysHaveTransformersDefaults(t *testing.T) {
	for _, c := range []struct {
		family   Family
		theta    float64
		eps      float64
		dim      int
		sections []int
		axis     []int // of the first frequencies
	}{
		{Qwen2, 1e4, 1e-6, 8, nil, []int{0, 0, 0, 0}},
		{Qwen3, 1e4, 1e-6, 128, nil, []int{0, 0, 0, 0}},
		{Llama, 1e4, 1e-6, 8, nil, []int{0, 0, 0, 0}},
		{Qwen25VL, 1e6, 1e-5, 128, []int{16, 24, 24}, []int{0, 0, 0, 0}},
		{Qwen3VL, 5e5, 1e-6, 128, []int{24, 20, 20}, []int{0, 1, 2, 0}},
	} {
		in := with(textPart(), object{"model_type": string(c.family)})
		if c.family.HasVision() {
			in = flat(object{"model_type": string(c.family), "hidden_size": 512},
				object{"hidden_act": nil, "out_hidden_size": 512})
		}
		got, err := parse(t, with(in, object{"rope_scaling": nil, "rope_theta": nil, "rms_norm_eps": nil}))
		require.NoError(t, err, c.family)
		x := got.Text
		require.Equal(t, []any{c.theta, c.eps, c.dim, c.sections}, []any{x.Theta, x.Eps, x.HeadDim, x.Sections}, c.family)
		require.Equal(t, c.axis, x.Axis()[:4], c.family)
	}
	small, err := parse(t, flat(object{"model_type": "qwen3_vl", "head_dim": 8, "rope_scaling": nil},
		object{"hidden_act": nil}))
	require.NoError(t, err, "sections beyond the frequencies have no effect")
	require.Equal(t, []int{0, 1, 2, 0}, small.Text.Axis())
}

func TestTiedIsReadFromEitherPlace(t *testing.T) {
	text := with(textPart(), object{"rope_scaling": object{"type": "default", "mrope_section": []int{1, 1, 2}}})
	for _, inner := range []any{nil, true, false} {
		for _, outer := range []any{nil, true, false} {
			c := object{"model_type": "qwen2_5_vl", "image_token_id": 90, "vision_config": visionPart(),
				"text_config": with(text, object{"tie_word_embeddings": inner})}
			got, err := parse(t, with(c, object{"tie_word_embeddings": outer}))
			require.NoError(t, err)
			require.Equal(t, inner == true || outer == true, got.Tied)
		}
	}
}

func TestBadConfigsSayWhatIsWrong(t *testing.T) {
	for _, c := range golden.Table[[]struct {
		Name         string
		Qwen35       bool
		Text, Vision object
		Want         []string
	}](t, "badconfigs.yaml") {
		t.Run(c.Name, func(t *testing.T) {
			in := flat(c.Text, c.Vision)
			if c.Qwen35 {
				in = qwen35(c.Text, c.Vision)
			}
			_, err := parse(t, in)
			require.ErrorIs(t, err, ErrConfig)
			for _, w := range c.Want {
				require.ErrorContains(t, err, w)
			}
		})
	}
	_, err := ParseConfig([]byte("{"))
	require.ErrorIs(t, err, ErrConfig)
}

// recordedConfigs are the configs of the recorded models.
func recordedConfigs(t testing.TB) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for _, dir := range golden.Models(t) {
		var err error
		dir = filepath.Join(dir, "checkpoint")
		out[dir], err = os.ReadFile(filepath.Join(dir, "config.json"))
		require.NoError(t, err)
	}
	return out
}

// The parameters that a config asks for are the tensors of its checkpoint, in
// name and shape, no more and no less.
func TestParametersAreTheTensorsOfRecordedCheckpoints(t *testing.T) {
	for dir, raw := range recordedConfigs(t) {
		c, err := ParseConfig(raw)
		require.NoError(t, err, dir)
		r, err := safetensors.OpenSharded(dir)
		require.NoError(t, err)
		defer r.Close()
		if _, ok := r.Info("score.weight"); ok {
			c.Critic, c.Tied = true, false // which its config does not say
		}
		names := map[string]bool{}
		for _, name := range r.Names() {
			names[name] = !c.Unused(name)
		}
		for _, g := range c.Groups().All() {
			for _, p := range g.Params {
				rows := 0
				for _, part := range p.Parts {
					name := part.Name
					info, ok := r.Info(name)
					if !ok {
						name = c.OtherName(part.Name)
						info, ok = r.Info(name)
					}
					require.True(t, ok, "%s: %s", dir, part.Name)
					require.Equal(t, info.Shape, part.Dims, "%s: %s", dir, part.Name)
					delete(names, name)
					rows += part.Dims[0]
				}
				require.Equal(t, p.Dims[0], rows, "%s: parts of a parameter lie under each other", dir)
			}
		}
		maps.DeleteFunc(names, func(_ string, used bool) bool { return !used })
		require.Empty(t, names, "%s: tensors without a parameter", dir)
	}
}

// A block's weights in the graphs are the parameters of its group.
func TestGroupsHaveTheParametersThatBlocksTake(t *testing.T) {
	for _, family := range Families() {
		for _, biases := range []bool{false, true} {
			in := with(textPart(), object{"model_type": string(family), "attention_bias": biases, "mlp_bias": biases,
				"rope_scaling": nil})
			if family.HasVision() {
				in = flat(object{"model_type": string(family), "attention_bias": biases}, object{"hidden_act": nil})
			}
			if family.isQwen35() {
				in = with(in, object{"full_attention_interval": 2, "rope_scaling": nil, "vision_config": with(visionPart(),
					object{"hidden_act": nil, "deepstack_visual_indexes": nil})})
			}
			c, err := parse(t, in)
			require.NoError(t, err)
			g := c.Groups()
			check := func(b *Block, group Group) {
				t.Helper()
				w := &blockWeights{}
				require.Len(t, group.Params, len(b.slots(w)), "%s: %s", family, group.Name)
				want := blockParams(newSource(1), b)
				for i, p := range group.Params {
					require.Equal(t, want[i].dims, p.Dims, "%s: %s", family, p.Parts[0].Name)
				}
			}
			check(c.TextBlock(dtypes.Float32), g.Layers[1])
			if c.Vision != nil {
				check(c.VisionBlock(dtypes.Float32), g.Blocks[1])
			}
		}
	}
}

func TestOtherNames(t *testing.T) {
	c, err := parse(t, flat(nil, nil))
	require.NoError(t, err)
	for now, old := range map[string]string{
		"model.visual.merger.ln_q.weight":        "visual.merger.ln_q.weight",
		"model.language_model.norm.weight":       "model.norm.weight",
		"lm_head.weight":                         "lm_head.weight",
		"model.language_model.layers.3.x.weight": "model.layers.3.x.weight",
	} {
		require.Equal(t, old, c.OtherName(now))
	}
	text, err := parse(t, with(textPart(), object{"model_type": "qwen2", "rope_scaling": nil}))
	require.NoError(t, err)
	require.Equal(t, "model.norm.weight", text.OtherName("model.norm.weight"))
	taken := &Config{Family: Qwen35Text}
	require.Equal(t, "model.language_model.norm.weight", taken.OtherName("model.norm.weight"))
	require.Equal(t, "lm_head.weight", taken.OtherName("lm_head.weight"))
}

// Whatever the bytes are, ParseConfig returns, and what it accepts can be built:
// sizes neither overflow nor contradict each other.
func FuzzParseConfig(f *testing.F) {
	for _, raw := range recordedConfigs(f) {
		f.Add(raw)
	}
	for _, c := range []object{flat(nil, nil), flat(object{"model_type": "qwen3_vl"}, object{"hidden_act": nil})} {
		raw, err := json.Marshal(c)
		require.NoError(f, err)
		f.Add(raw)
	}
	for _, family := range Families() {
		f.Add(fmt.Appendf(nil, `{"model_type":%q,"vocab_size":9223372036854775807,"hidden_size":4611686018427387904}`,
			family))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := ParseConfig(raw)
		if err != nil {
			require.ErrorIs(t, err, ErrConfig)
			require.Nil(t, c)
			return
		}
		total := 0
		for _, g := range c.Groups().All() {
			for _, p := range g.Params {
				size := p.Size()
				require.Positive(t, size)
				require.LessOrEqual(t, size, int(maxParameters))
				total += size
			}
		}
		require.LessOrEqual(t, total, int(maxParameters))
		require.Len(t, c.Text.InvFreq(), c.Text.Rotary/2)
		for _, axis := range c.Text.Axis() {
			require.Contains(t, []int{0, 1, 2}, axis)
		}
		_ = c.TextBlock(dtypes.Float32)
		if c.Vision != nil {
			require.Positive(t, c.VisionBlock(dtypes.Float32).HeadDim)
			require.LessOrEqual(t, int(c.ImageToken), c.Text.Vocab)
		}
	})
}

func TestALargeConfigIsNotRead(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), nil, 0o644))
	require.NoError(t, os.Truncate(filepath.Join(dir, "config.json"), 1<<25))
	_, err := ReadConfig(dir)
	require.ErrorContains(t, err, "at most 16777216 bytes")
}
