package vlm

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"vagen/internal/safetensors"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/weights"
	"vagen/policy/vlm/processor"
	"vagen/policy/vlm/tokenizer"
)

// Create writes the folder of a new model to dir: random weights from the seed, and a
// tokenizer with one token for each of the words. The folder must not hold a model yet.
// Open and transformers load it.
//
// Matrices are initialised normally with variance 1/(3·inputs), like PyTorch's linear
// layers, embeddings with standard deviation 0.05, norms so that they scale by 1, biases with 0, and the
// decay of a delta net like in transformers: dt_bias 1, A_log the logarithm of a uniform number in (0, 16].
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
	if err := weights.Write(dir, cfg, dtype, weights.NewModel(cfg, seed)); err != nil {
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
