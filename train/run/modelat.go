package run

import (
	"fmt"
	"os"
	"path/filepath"

	"vagen/policy/vlm"
	"vagen/train/config"
)

// ModelAt tells the folder of a model from that of an adapter alone, such as actor in
// a checkpoint with LoRA: the model is then the one that the adapter was trained on.
// adapter is what was asked for beside the model, "" for nothing.
func ModelAt(path, adapter string) (model, with string, err error) {
	base, ok, err := vlm.AdapterBase(path)
	switch {
	case err != nil:
		return "", "", fmt.Errorf("%w: %w", config.ErrConfig, err)
	case !ok:
		return path, adapter, nil
	case adapter != "":
		return "", "", fmt.Errorf("%w: %s is an adapter, and %s is to be used with it, too: give the folder of a model and one adapter", config.ErrConfig, path, adapter)
	}
	if _, err := os.Stat(filepath.Join(base, "config.json")); err != nil {
		return "", "", fmt.Errorf("%w: %s is an adapter for the model in %q, which is not there: give that model's folder, and this one as lora_adapter_path with lora_rank 0: %w", config.ErrConfig, path, base, err)
	}
	return base, path, nil
}
