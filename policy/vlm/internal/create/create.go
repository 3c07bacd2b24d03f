// Package create writes the folders of new models.
package create

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

// Model writes the folder of a new model: see Create of package vlm.
func Model(dir string, s Shape, words []string, seed uint64) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("vlm: create: %w", err)
		}
	}()
	tok, err := tokenizer.NewTiny(words)
	if err != nil {
		return err
	}
	config, err := Config(s, tok)
	if err != nil {
		return err
	}
	raw, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return err
	}
	cfg, err := model.ParseConfig(raw)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrShape, err)
	}
	var proc *processor.Processor
	if cfg.Vision != nil {
		if proc, err = processor.New(s.processor()); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	dtype := safetensors.F32
	if s.BFloat16 {
		dtype = safetensors.BF16
	}
	if err := weights.Write(dir, cfg, dtype, weights.NewModel(cfg, seed)); err != nil {
		return err
	}
	if err := tok.Save(dir); err != nil {
		return err
	}
	if proc != nil {
		if err := proc.Save(dir); err != nil {
			return err
		}
	}
	generation, _ := json.MarshalIndent(map[string]any{"eos_token_id": cfg.EndOfTurn, "do_sample": true}, "", "  ")
	if err := os.WriteFile(filepath.Join(dir, "generation_config.json"), append(generation, '\n'), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "config.json"), append(raw, '\n'), 0o644)
}
