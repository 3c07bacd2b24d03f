//go:build cgo

package vlm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/gomlx/gomlx/backends"
	"github.com/gomlx/gomlx/backends/xla"

	"vagen/internal/plugin"
)

// xlaHint says how to get XLA where pure Go has been chosen.
const xlaHint = "go needs no set-up but is 15 to 25 times slower than XLA: allow installing the XLA plugin (unset $" + plugin.NoInstall +
	" and $GOMLX_NO_AUTO_INSTALL, have network and pip once), or put a PJRT CPU plugin into a folder and name it in $" + plugin.SearchPath

// openXLA finds or installs the CPU plugin and starts it.
//
// The plugin is named by its path, and shared buffers, which GoMLX ties to the
// name "cpu", are asked for. By name, GoMLX would load every plugin on the
// search path to see whether it can be loaded, also those that nobody checked,
// and might start an installation of its own.
func openXLA(ctx context.Context, log *slog.Logger) (*engine, error) {
	return startPlugin(ctx, plugin.CPU, "xla:cpu", ",shared_buffers", log)
}

// openCUDA finds or installs the CUDA plugin and starts it.
func openCUDA(ctx context.Context, log *slog.Logger) (*engine, error) {
	return startPlugin(ctx, plugin.CUDA, "xla:cuda", "", log)
}

func startPlugin(ctx context.Context, kind plugin.Kind, name, options string, log *slog.Logger) (*engine, error) {
	p, err := plugin.Ensure(ctx, kind, log)
	if errors.Is(err, plugin.ErrMissing) {
		return nil, fmt.Errorf("%w: %s: %w", errNoEngine, name, err)
	}
	if err != nil {
		return nil, fmt.Errorf("backend %s: %w", name, err)
	}
	if strings.Contains(p.Path, ",") {
		return nil, fmt.Errorf("%w: %s: GoMLX cannot load a plugin from a path with a comma: %s", errNoEngine, name, p.Path)
	}
	plugin.PrepareEnv(p, kind)
	b, err := construct(func() (backends.Backend, error) { return xla.New(p.Path + options) })
	if err != nil {
		return nil, fmt.Errorf("%w: %s: loading %s: %w", errNoEngine, name, p.Path, err)
	}
	return &engine{backend: b, name: name, detail: p.Path}, nil
}
