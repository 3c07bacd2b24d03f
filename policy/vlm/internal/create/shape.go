package create

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/processor"
	"vagen/policy/vlm/tokenizer"
)

// ErrShape is wrapped by errors about an invalid Shape.
var ErrShape = errors.New("bad model shape")

// Shape is the size of a new model. Errors name the keys of config.json that its fields become.
type Shape struct {
	// Family is the architecture: qwen2_5_vl, which is the default, or qwen3_5, or a text-only one:
	// llama, qwen2, qwen3 or qwen3_5_text.
	Family string

	Hidden, FF, Layers int
	Heads, KVHeads     int
	HeadDim            int
	// rows of the embedding; if below the tokenizer's number of ids, that number rounded up to a multiple of 32
	Vocab     int
	Untied    bool
	Eps       float64 // of RMSNorm; 0 means 1e-6
	RopeTheta float64
	// frequencies that use the t, h and w positions; 0 for qwen3_5 divides them like the released models
	RopeSections [3]int
	MaxPositions int
	BFloat16     bool // store weights in bfloat16
	Linear       LinearShape

	// The other fields are for families with a vision tower.

	VisionHidden          int
	VisionFF, VisionDepth int
	VisionHeads           int
	Window                int   // side of an attention window in pixels; of qwen2_5_vl
	FullBlocks            []int // vision blocks that attend over the whole image; of qwen2_5_vl
	Patch                 int   // side of a patch; 2×2 of them form a token
	Mean, Std             [3]float64
	MinPixels             int // smaller images are enlarged; 0 means one token
	MaxPixels             int // larger images are shrunk
}

// LinearShape is the size of qwen3_5's layers with a gated delta net.
type LinearShape struct {
	KeyHeads, ValueHeads int // value heads are a multiple of key heads
	HeadDim              int
	Kernel               int // tokens that the convolution before it sees
	Interval             int // every so many layers one has attention instead
}

// Small returns the shape of the quickstart.
func Small() Shape {
	return Shape{
		Hidden: 96, FF: 288, Layers: 3, Heads: 3, KVHeads: 1, HeadDim: 32, RopeTheta: 10000, RopeSections: [3]int{6, 5, 5},
		MaxPositions: 2048, VisionHidden: 64, VisionFF: 128, VisionDepth: 1, VisionHeads: 2, Window: 112,
		FullBlocks: []int{0},
		Patch:      14, Mean: [3]float64{0.675, 0.753, 0.973}, Std: [3]float64{0.25, 0.25, 0.25}, MaxPixels: 512 * 512,
	}
}

// namedShapes are shapes for measurements and experiments. Those of released models have
// their names.
var namedShapes = map[string]Shape{
	"quickstart": Small(),
	// SmolLM-135M
	"llama-135m": {Family: "llama", Hidden: 576, FF: 1536, Layers: 30, Heads: 9, KVHeads: 3, HeadDim: 64, Vocab: 49152,
		Eps: 1e-5, RopeTheta: 10000, MaxPositions: 2048},
	"qwen2-0_5b": {Family: "qwen2", Hidden: 896, FF: 4864, Layers: 24, Heads: 14, KVHeads: 2, HeadDim: 64,
		Vocab: 151936, RopeTheta: 1e6, MaxPositions: 32768, BFloat16: true},
	"qwen3-0_6b": {Family: "qwen3", Hidden: 1024, FF: 3072, Layers: 28, Heads: 16, KVHeads: 8, HeadDim: 128,
		Vocab: 151936, RopeTheta: 1e6, MaxPositions: 40960, BFloat16: true},
	// the decoder of Qwen2-0.5B with a tower of half the width; not released
	"qwen2_5_vl-0_5b": qwenVision(12, 640, 1712, 8, Shape{Hidden: 896, FF: 4864, Layers: 24, Heads: 14, KVHeads: 2,
		HeadDim: 64, RopeSections: [3]int{8, 12, 12}}),
	"qwen2_5_vl-3b": qwenVision(32, 1280, 3420, 16, Shape{Hidden: 2048, FF: 11008, Layers: 36, Heads: 16, KVHeads: 2,
		HeadDim: 128, RopeSections: [3]int{16, 24, 24}}),
	"qwen3_5-0_8b":      qwen35("qwen3_5"),
	"qwen3_5_text-0_8b": qwen35("qwen3_5_text"),
}

// qwen35 is the released Qwen3.5-0.8B, or its decoder.
func qwen35(family string) Shape {
	c := processor.Qwen3VL()
	return Shape{
		Family: family, Hidden: 1024, FF: 3584, Layers: 24, Heads: 8, KVHeads: 2, HeadDim: 256, Vocab: 248320,
		RopeTheta: 1e7, MaxPositions: 262144, BFloat16: true,
		Linear:       LinearShape{KeyHeads: 16, ValueHeads: 16, HeadDim: 128, Kernel: 4, Interval: 4},
		VisionHidden: 768, VisionFF: 3072, VisionDepth: 12, VisionHeads: 12, Patch: c.PatchSize,
		Mean: c.Mean, Std: c.Std, MinPixels: c.MinPixels, MaxPixels: c.MaxPixels,
	}
}

// qwenVision adds the common part of the released Qwen2.5-VL models, with a tower of the
// given size in which every fourth part ends with full attention, to a decoder.
func qwenVision(depth, hidden, ff, heads int, s Shape) Shape {
	c := processor.Qwen25VL()
	s.Vocab, s.RopeTheta, s.MaxPositions, s.BFloat16 = 151936, 1e6, 128000, true
	s.VisionHidden, s.VisionFF, s.VisionDepth, s.VisionHeads = hidden, ff, depth, heads
	s.Window, s.Patch, s.Mean, s.Std, s.MinPixels, s.MaxPixels = 112, 14, c.Mean, c.Std, c.MinPixels, c.MaxPixels
	for i := 1; i <= 4; i++ {
		s.FullBlocks = append(s.FullBlocks, i*depth/4-1)
	}
	return s
}

// ShapeNames returns the names that Named accepts.
func ShapeNames() []string { return slices.Sorted(maps.Keys(namedShapes)) }

// Named returns a shape by its name.
func Named(name string) (Shape, error) {
	s, ok := namedShapes[name]
	if !ok {
		return Shape{}, fmt.Errorf("vlm: %w: found %q, must be one of %s", ErrShape, name, strings.Join(ShapeNames(), ", "))
	}
	s.FullBlocks = slices.Clone(s.FullBlocks)
	return s, nil
}

func (s Shape) processor() processor.Config {
	c := processor.Qwen25VL()
	if s.Family == string(model.Qwen35) {
		c = processor.Qwen3VL()
	}
	c.PatchSize, c.Mean, c.Std = s.Patch, s.Mean, s.Std
	c.MinPixels = 4 * s.Patch * s.Patch
	if s.MinPixels > 0 {
		c.MinPixels = s.MinPixels
	}
	c.MaxPixels = s.MaxPixels
	return c
}

// architectures are transformers' classes by family.
var architectures = map[model.Family]string{
	model.Qwen25VL: "Qwen2_5_VLForConditionalGeneration", model.Llama: "LlamaForCausalLM",
	model.Qwen2: "Qwen2ForCausalLM", model.Qwen3: "Qwen3ForCausalLM",
	model.Qwen35: "Qwen3_5ForConditionalGeneration", model.Qwen35Text: "Qwen3_5ForCausalLM",
}

// Config is the config.json of a model of a shape.
func Config(s Shape, tok *tokenizer.Tokenizer) (map[string]any, error) {
	family := model.Family(s.Family)
	if family == "" {
		family = model.Qwen25VL
	}
	class, ok := architectures[family]
	if !ok {
		return nil, fmt.Errorf("%w: family is %q, must be one of %q", ErrShape, s.Family,
			slices.Sorted(maps.Keys(architectures)))
	}
	if s.Linear != (LinearShape{}) && family != model.Qwen35 && family != model.Qwen35Text {
		return nil, fmt.Errorf("%w: Linear is %+v, must be empty: %s has no delta nets", ErrShape, s.Linear, family)
	}
	if s.MaxPositions < 1 { // in a config it would mean no limit
		return nil, fmt.Errorf("%w: MaxPositions is %d, must be positive", ErrShape, s.MaxPositions)
	}
	dtype, eps := "float32", s.Eps
	if s.BFloat16 {
		dtype = "bfloat16"
	}
	if eps == 0 {
		eps = 1e-6
	}
	sp := tok.Special()
	c := map[string]any{
		"architectures": []string{class}, "model_type": string(family), "torch_dtype": dtype,
		"vocab_size": max(s.Vocab, tok.PaddedSize(32)), "hidden_size": s.Hidden, "intermediate_size": s.FF,
		"num_hidden_layers":   s.Layers,
		"num_attention_heads": s.Heads, "num_key_value_heads": s.KVHeads, "head_dim": s.HeadDim, "hidden_act": "silu",
		"rms_norm_eps": eps,
		"rope_theta":   s.RopeTheta, "max_position_embeddings": s.MaxPositions, "tie_word_embeddings": !s.Untied,
		"initializer_range": 0.02, "attention_dropout": 0.0, "use_cache": true,
		"bos_token_id": sp.Pad, "eos_token_id": sp.TurnEnd, "pad_token_id": sp.Pad,
	}
	switch family {
	case model.Llama:
	case model.Qwen35, model.Qwen35Text:
		return s.qwen35Config(c, sp), nil
	default:
		c["use_sliding_window"] = false
	}
	if family == model.Qwen25VL {
		maps.Copy(c, imageTokens(sp))
		c["rope_scaling"] = map[string]any{"type": "mrope", "mrope_section": s.RopeSections}
		c["vision_config"] = s.visionConfig(map[string]any{
			"model_type": string(model.Qwen25VL), "hidden_act": "silu", "window_size": s.Window,
			"fullatt_block_indexes": s.FullBlocks, "spatial_patch_size": s.Patch, "tokens_per_second": 2, "in_chans": 3,
		})
	}
	return c, nil
}

// qwen35Config is the config.json of Qwen3.5: text, or a decoder of that config and a vision tower.
func (s Shape) qwen35Config(text map[string]any, sp tokenizer.Special) map[string]any {
	delete(text, "rope_theta")
	sections, turned := s.RopeSections, s.HeadDim/8 // of a head's features a quarter turns, in pairs
	if sections == [3]int{} {
		sections[2] = turned / 3
		sections[1] = (turned - sections[2]) / 2
		sections[0] = turned - sections[1] - sections[2]
	}
	maps.Copy(text, map[string]any{
		"linear_num_key_heads": s.Linear.KeyHeads, "linear_num_value_heads": s.Linear.ValueHeads,
		"linear_key_head_dim": s.Linear.HeadDim, "linear_value_head_dim": s.Linear.HeadDim,
		"linear_conv_kernel_dim": s.Linear.Kernel, "full_attention_interval": s.Linear.Interval,
		"attn_output_gate": true, "mamba_ssm_dtype": "float32", "attention_bias": false,
		"rope_parameters": map[string]any{
			"rope_type": "default", "rope_theta": s.RopeTheta, "partial_rotary_factor": 0.25,
			"mrope_section": sections, "mrope_interleaved": true,
		},
	})
	if text["model_type"] != string(model.Qwen35) {
		return text
	}
	c := map[string]any{"architectures": text["architectures"], "model_type": text["model_type"],
		"torch_dtype": text["torch_dtype"], "tie_word_embeddings": text["tie_word_embeddings"], "text_config": text}
	delete(text, "architectures")
	text["model_type"] = string(model.Qwen35Text)
	maps.Copy(c, imageTokens(sp))
	c["vision_config"] = s.visionConfig(map[string]any{
		"model_type": string(model.Qwen35), "hidden_act": "gelu_pytorch_tanh", "num_position_embeddings": 2304,
		"deepstack_visual_indexes": []int{},
	})
	return c
}

// imageTokens are the keys of the tokens of a model with a vision tower.
func imageTokens(sp tokenizer.Special) map[string]any {
	return map[string]any{
		"image_token_id": sp.ImagePad, "video_token_id": sp.VideoPad,
		"vision_start_token_id": sp.VisionStart, "vision_end_token_id": sp.VisionEnd,
	}
}

// visionConfig adds the keys of the vision tower that all families have.
func (s Shape) visionConfig(c map[string]any) map[string]any {
	maps.Copy(c, map[string]any{
		"depth": s.VisionDepth, "hidden_size": s.VisionHidden, "intermediate_size": s.VisionFF,
		"num_heads": s.VisionHeads, "out_hidden_size": s.Hidden, "patch_size": s.Patch, "spatial_merge_size": 2, "temporal_patch_size": 2,
		"in_channels": 3,
	})
	return c
}
