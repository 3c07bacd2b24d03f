package evaluation

import (
	"fmt"
	"os"
	"path/filepath"

	"vagen/policy/vlm"
	"vagen/train/config"
)

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
