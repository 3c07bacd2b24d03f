package vlm

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"vagen/internal/rng"
	"vagen/internal/safetensors"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/processor"
	"vagen/policy/vlm/tokenizer"
)

// Shape is the size of a new Qwen2.5-VL model.
type Shape struct {
	Hidden, FF, Layers    int
	Heads, KVHeads        int
	HeadDim               int
	RopeTheta             float64
	RopeSections          [3]int // halves of the head's width that turn with t, h and w
	MaxPositions          int
	VisionHidden          int
	VisionFF, VisionDepth int
	VisionHeads           int
	Window                int   // side of an attention window in pixels
	FullBlocks            []int // vision blocks that attend over the whole image
	Patch                 int   // side of a patch; 2×2 of them are a token
	Mean, Std             [3]float64
	MaxPixels             int  // larger images are made smaller
	BFloat16              bool // store weights in bfloat16
}

// Small returns the shape of the quickstart: 0.5 million parameters that read
// pictures of 28-pixel tiles, one token to a tile.
func Small() Shape {
	return Shape{
		Hidden: 96, FF: 288, Layers: 3, Heads: 3, KVHeads: 1, HeadDim: 32, RopeTheta: 10000, RopeSections: [3]int{6, 5, 5},
		MaxPositions: 2048, VisionHidden: 64, VisionFF: 128, VisionDepth: 1, VisionHeads: 2, Window: 112, FullBlocks: []int{0},
		Patch: 14, Mean: [3]float64{0.675, 0.753, 0.973}, Std: [3]float64{0.25, 0.25, 0.25}, MaxPixels: 512 * 512,
	}
}

// Create writes the folder of a new model to dir: random weights from the seed,
// and a tokenizer to which each of the words is one token. The folder must not
// hold a model yet. Open, and transformers, load it.
//
// Matrices start normal with variance 1/(3·inputs), like PyTorch's linear
// layers, embeddings with deviation 0.05, norms with 1 and biases with 0.
func Create(dir string, s Shape, words []string, seed uint64) error {
	tok, err := tokenizer.NewTiny(words)
	if err != nil {
		return fmt.Errorf("vlm: create: %w", err)
	}
	proc, err := processor.New(s.processor())
	if err != nil {
		return fmt.Errorf("vlm: create: %w", err)
	}
	raw, err := json.MarshalIndent(s.config(tok), "", "  ")
	if err != nil {
		return fmt.Errorf("vlm: create: %w", err)
	}
	cfg, err := model.ParseConfig(raw)
	if err != nil {
		return fmt.Errorf("vlm: create: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("vlm: create: %w", err)
	}
	if err := writeWeights(dir, cfg, seed, s.BFloat16); err != nil {
		return fmt.Errorf("vlm: create: %w", err)
	}
	if err := tok.Save(dir); err != nil {
		return fmt.Errorf("vlm: create: %w", err)
	}
	if err := proc.Save(dir); err != nil {
		return fmt.Errorf("vlm: create: %w", err)
	}
	generation, _ := json.MarshalIndent(map[string]any{"eos_token_id": cfg.EndOfTurn, "do_sample": true}, "", "  ")
	if err := os.WriteFile(filepath.Join(dir, "generation_config.json"), append(generation, '\n'), 0o644); err != nil {
		return fmt.Errorf("vlm: create: %w", err)
	}
	return os.WriteFile(filepath.Join(dir, "config.json"), append(raw, '\n'), 0o644)
}

func (s Shape) processor() processor.Config {
	c := processor.Qwen25VL()
	c.PatchSize, c.Mean, c.Std = s.Patch, s.Mean, s.Std
	c.MinPixels = 4 * s.Patch * s.Patch
	c.MaxPixels = s.MaxPixels
	return c
}

// config is the flat config.json of Qwen2.5-VL.
func (s Shape) config(tok *tokenizer.Tokenizer) map[string]any {
	sp := tok.Special()
	dtype := "float32"
	if s.BFloat16 {
		dtype = "bfloat16"
	}
	return map[string]any{
		"architectures": []string{"Qwen2_5_VLForConditionalGeneration"}, "model_type": string(model.Qwen25VL), "torch_dtype": dtype,
		"vocab_size": tok.PaddedSize(32), "hidden_size": s.Hidden, "intermediate_size": s.FF, "num_hidden_layers": s.Layers,
		"num_attention_heads": s.Heads, "num_key_value_heads": s.KVHeads, "head_dim": s.HeadDim, "hidden_act": "silu", "rms_norm_eps": 1e-6,
		"rope_theta": s.RopeTheta, "rope_scaling": map[string]any{"type": "mrope", "mrope_section": s.RopeSections},
		"max_position_embeddings": s.MaxPositions, "use_sliding_window": false, "tie_word_embeddings": true,
		"initializer_range": 0.02, "attention_dropout": 0.0, "use_cache": true,
		"bos_token_id": sp.Pad, "eos_token_id": sp.TurnEnd, "pad_token_id": sp.Pad,
		"image_token_id": sp.ImagePad, "video_token_id": sp.VideoPad,
		"vision_start_token_id": sp.VisionStart, "vision_end_token_id": sp.VisionEnd,
		"vision_config": map[string]any{
			"model_type": string(model.Qwen25VL), "depth": s.VisionDepth, "hidden_size": s.VisionHidden, "intermediate_size": s.VisionFF,
			"num_heads": s.VisionHeads, "window_size": s.Window, "fullatt_block_indexes": s.FullBlocks, "out_hidden_size": s.Hidden,
			"hidden_act": "silu", "patch_size": s.Patch, "spatial_patch_size": s.Patch, "spatial_merge_size": 2,
			"temporal_patch_size": 2, "tokens_per_second": 2, "in_channels": 3, "in_chans": 3,
		},
	}
}

// writeWeights draws new weights and stores them under the names of the first
// released layout.
func writeWeights(dir string, cfg *model.Config, seed uint64, bf16 bool) error {
	dtype := safetensors.F32
	if bf16 {
		dtype = safetensors.BF16
	}
	var list []safetensors.Tensor
	groups := cfg.Groups().All()
	for _, g := range groups {
		for _, p := range g.Params {
			for _, part := range p.Parts {
				list = append(list, safetensors.Tensor{Name: cfg.OldName(part.Name), DType: dtype, Shape: part.Dims})
			}
		}
	}
	w, err := safetensors.CreateSharded(dir, list, nil, safetensors.DefaultShardBytes)
	if err != nil {
		return err
	}
	defer w.Close()
	for _, g := range groups {
		for _, p := range g.Params {
			for _, part := range p.Parts {
				if err := w.Float32(cfg.OldName(part.Name), drawPart(cfg, p, part, seed)); err != nil {
					return err
				}
			}
		}
	}
	return w.Commit()
}

// drawPart draws the values of one new tensor.
func drawPart(cfg *model.Config, p model.Param, part model.Part, seed uint64) []float32 {
	x := make([]float32, part.Size())
	switch p.Init {
	case model.InitOne:
		for i := range x {
			x[i] = 1
		}
	case model.InitNormal:
		std := 0.05
		if part.Name != cfg.Groups().Embed.Params[0].Parts[0].Name {
			std = 1 / math.Sqrt(3*float64(part.Size()/part.Dims[0]))
		}
		r := rng.New(seed, rng.Init, hashName(part.Name))
		for i := range x {
			x[i] = float32(r.NormFloat64() * std)
		}
	}
	return x
}
