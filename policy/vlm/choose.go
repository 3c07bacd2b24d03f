package vlm

import (
	"context"
	"log/slog"
)

// ChooseBackend settles which backend a choice leads to on this machine, as Open
// would: "xla:cpu", "xla:cuda" or "go". It installs XLA's plugin where Open
// would, and tells log which backend it is and why.
func ChooseBackend(ctx context.Context, choice string, log *slog.Logger) (string, error) {
	d, err := openDevice(ctx, choice, log)
	if err != nil {
		return "", err
	}
	defer d.Close()
	return d.Name(), nil
}
