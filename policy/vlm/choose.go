package vlm

import (
	"context"
	"fmt"
	"log/slog"
)

// ChooseBackend returns the backend that a choice selects on this machine, as Open would:
// "xla:cpu", "xla:cuda" or "go". It installs XLA's plugin if Open would, and logs the
// backend and the reason.
func ChooseBackend(ctx context.Context, choice string, log *slog.Logger) (string, error) {
	d, err := openDevice(ctx, choice, log)
	if err != nil {
		return "", err
	}
	defer d.Close()
	return d.Name(), nil
}

// Plugin returns the path of the XLA plugin that runs models on a backend, as
// ChooseBackend and Model.Backend name it. It is "" for pure Go, and for a backend that
// this process has not opened.
func Plugin(ctx context.Context, backend string) (string, error) {
	path, err := processEngines.plugin(ctx, backend)
	if err != nil {
		return "", fmt.Errorf("vlm: %w", err)
	}
	return path, nil
}
