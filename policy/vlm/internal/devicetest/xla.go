//go:build cgo

package devicetest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/gomlx/gomlx/backends"
	xlabackend "github.com/gomlx/gomlx/backends/xla"

	"vagen/internal/plugin"
)

// xlaBackend starts the plugin once for the process.
var xlaBackend = sync.OnceValues(func() (b backends.Backend, err error) {
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
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("starting %s: %v", p.Path, r)
		}
	}()
	plugin.PrepareEnv(p, Kind())
	if Kind() == plugin.CUDA {
		return xlabackend.New(p.Path)
	}
	return xlabackend.New(p.Path + ",shared_buffers")
})
