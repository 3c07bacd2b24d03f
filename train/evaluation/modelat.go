package evaluation

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"vagen/policy/vlm"
	"vagen/train/config"
	"vagen/train/proof"
)

// Weights identifies the model in a folder with that of an adapter, "" for none, by the SHA-256
// of their files.
func Weights(ctx context.Context, model, adapter string) (string, error) {
	paths := map[string]string{"model": model}
	if adapter != "" {
		paths["adapter"] = adapter
	}
	sums, err := proof.SumInputs(ctx, paths)
	return fmt.Sprint(sums), err
}

// Identity tells the policy of the plan from others of the same name: by its weights, or by what
// the requests to its service contain. It reads all weights of a local model.
func (e *Plan) Identity(ctx context.Context) (string, error) {
	b := &e.Backend
	if b.API != local {
		return fmt.Sprintf("%q %q %q %q %v %d %d %q %q", b.API, b.Model, b.BaseURL, b.Omit, b.Extra, b.JPEG, b.MaxSide,
			b.Detail, b.Opens), nil
	}
	model, adapter, err := e.localModel()
	if err != nil {
		return "", err
	}
	sums, err := Weights(ctx, model, adapter)
	return fmt.Sprint(sums, b.BFloat16), err
}

// localModel returns the folders of the plan's model and adapter, "" for none.
func (e *Plan) localModel() (model, adapter string, err error) {
	if adapter = e.Backend.Adapter; adapter != "" {
		adapter = e.at(adapter)
	}
	return ModelAt(e.at(e.Backend.Model), adapter)
}

// ModelAt returns the folders of model and adapter for a path that may be the folder of an
// adapter, such as actor in a checkpoint with LoRA. The model is then the one that the
// adapter was trained on. adapter is the configured adapter, "" for none.
func ModelAt(path, adapter string) (model, with string, err error) {
	base, ok, err := vlm.AdapterBase(path)
	switch {
	case err != nil:
		return "", "", fmt.Errorf("%w: %w", config.ErrConfig, err)
	case !ok:
		return path, adapter, nil
	case adapter != "":
		return "", "", fmt.Errorf("%w: %s is an adapter, and %s is set, too: set the folder of a model and one adapter",
			config.ErrConfig, path, adapter)
	}
	if _, err := os.Stat(filepath.Join(base, "config.json")); err != nil {
		return "", "", fmt.Errorf("%w: %s is an adapter for the model in %q, which does not exist: set the path to that model's folder, and lora_adapter_path to the adapter with lora_rank 0: %w", config.ErrConfig, path, base, err)
	}
	return base, path, nil
}

// modelOptions returns the options of a local model with an adapter, "" for none.
func (e *Plan) modelOptions(adapter string, log *slog.Logger) vlm.Options {
	b := &e.Backend
	o := vlm.Options{
		Backend: b.Engine, BFloat16: b.BFloat16, CacheTokens: b.CacheTokens, AutotuneSHA256: b.AutotuneSum, TokensPerCall: b.PerCall,
		Adapter: adapter, Seed: e.Config.Run.Seed, Log: log,
	}
	if b.Autotune != "" {
		o.Autotune = e.at(b.Autotune)
	}
	return o
}
