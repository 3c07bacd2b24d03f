//go:build cgo

package devicetest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/gomlx/compute"

	"vagen/policy/vlm/internal/plugin"
	"vagen/policy/vlm/internal/xla"
)

// xlaBackend starts the plugin once for the process.
var xlaBackend = sync.OnceValues(func() (b compute.Backend, err error) {
	find := plugin.Find
	if Required() {
		find = func(ctx context.Context, kind plugin.Kind) (plugin.Plugin, error) {
			return plugin.Ensure(ctx, kind, nil)
		}
	}
	p, err := find(context.Background(), Kind())
	if errors.Is(err, plugin.ErrMissing) {
		return nil, fmt.Errorf("%w: %w", errMissing, err)
	}
	if err != nil {
		return nil, err
	}
	if b, err = xla.Start(p, Kind(), 0, plugin.Choices{}, slog.New(slog.DiscardHandler)); err != nil {
		return nil, fmt.Errorf("starting %s: %w", p.Path, err)
	}
	return b, nil
})
