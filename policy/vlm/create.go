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

// Create writes the folder of a new model to dir: random weights from the seed, and a
// tokenizer with one token for each of the words. The folder must not hold a model yet.
// Open and transformers load it.
//
// Matrices are initialised normally with variance 1/(3·inputs), like PyTorch's linear
// layers, embeddings with standard deviation 0.05, norms with 1 and biases with 0.
func Create(dir string, s Shape, words []string, seed uint64) error {
	tok, err := tokenizer.NewTiny(words)
	if err != nil {
		return fmt.Errorf("vlm: create: %w", err)
	}
	config, err := s.config(tok)
	if err != nil {
		return fmt.Errorf("vlm: create: %w", err)
	}
	raw, err := json.MarshalIndent(config, "", "  ")
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
	dtype := safetensors.F32
	if s.BFloat16 {
		dtype = safetensors.BF16
	}
	if err := writeWeights(dir, cfg, dtype, createSource(cfg, seed)); err != nil {
		return fmt.Errorf("vlm: create: %w", err)
	}
	if err := tok.Save(dir); err != nil {
		return fmt.Errorf("vlm: create: %w", err)
	}
	if cfg.Vision != nil {
		proc, err := processor.New(s.processor())
		if err != nil {
			return fmt.Errorf("vlm: create: %w", err)
		}
		if err := proc.Save(dir); err != nil {
			return fmt.Errorf("vlm: create: %w", err)
		}
	}
	generation, _ := json.MarshalIndent(map[string]any{"eos_token_id": cfg.EndOfTurn, "do_sample": true}, "", "  ")
	if err := os.WriteFile(filepath.Join(dir, "generation_config.json"), append(generation, '\n'), 0o644); err != nil {
		return fmt.Errorf("vlm: create: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), append(raw, '\n'), 0o644); err != nil {
		return fmt.Errorf("vlm: create: %w", err)
	}
	return nil
}

// writeWeights stores weights under the names of the first released layout.
func writeWeights(dir string, cfg *model.Config, dtype safetensors.DType, from source) error {
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
				x := make([]float32, part.Size())
				if err := from(g, p, part, x); err != nil {
					return err
				}
				if err := w.Float32(cfg.OldName(part.Name), x); err != nil {
					return err
				}
			}
		}
	}
	return w.Commit()
}

// createSource fills parameters with Create's initial values. Every part has its own random
// stream.
func createSource(cfg *model.Config, seed uint64) source {
	embed := cfg.Groups().Embed.Params[0].Parts[0].Name
	return func(_ *model.Group, p model.Param, part model.Part, dst []float32) error {
		switch p.Init {
		case model.InitOne:
			for i := range dst {
				dst[i] = 1
			}
		case model.InitNormal:
			std := 0.05
			if part.Name != embed {
				std = 1 / math.Sqrt(3*float64(part.Size()/part.Dims[0]))
			}
			r := rng.New(seed, rng.Init, hashName(part.Name))
			for i := range dst {
				dst[i] = float32(r.NormFloat64() * std)
			}
		}
		return nil
	}
}
