// Package modeldir checks the folders of models that configurations name.
package modeldir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"vagen/policy/vlm/hub"
	"vagen/train/config"
)

// Check checks that a path is a folder with a model or, for a critic, an adapter. For
// an id of the hub the error says how to download the model.
func Check(key, path string, needed bool) error {
	if path == "" && needed {
		return fmt.Errorf("%w: %s is empty, must be a folder with a model", config.ErrConfig, key)
	}
	if path == "" {
		return nil
	}
	_, err := os.Stat(filepath.Join(path, "config.json"))
	if _, adapter := os.Stat(filepath.Join(path, "adapter_config.json")); err == nil || adapter == nil {
		return nil
	}
	err = fmt.Errorf("%w: %s: %s is not a folder with a model: %w", config.ErrConfig, key, path, err)
	if _, there := os.Stat(path); there == nil || !hub.IsID(path) {
		return err
	}
	switch dir, ok, lost := hub.Cached(path, hub.Options{}); {
	case lost != nil:
		return errors.Join(err, lost)
	case ok:
		return fmt.Errorf("%w\nthis model of the hub has been downloaded: set %s=%s", err, key, dir)
	default:
		return fmt.Errorf("%w\nif it is a model of the hub, run\n  vagen model fetch %s\nand set %s to the folder that it prints, %s", err, path, key, dir)
	}
}
