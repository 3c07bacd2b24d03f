package vlm

import (
	"context"
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
