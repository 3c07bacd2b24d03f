//go:build cgo

package backend

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/gomlx/compute"

	"vagen/policy/vlm/internal/plugin"
	"vagen/policy/vlm/internal/xla"
)

// xlaHint explains how to get XLA after the fallback to pure Go.
const xlaHint = "go needs no set-up but is 15 to 25 times slower than XLA: allow installing the XLA plugin (unset $" +
	plugin.NoInstall +
	" and $GOMLX_NO_AUTO_INSTALL, have network and pip once), or put a PJRT CPU plugin into a folder and name it in $" +
	plugin.SearchPath

// Describe returns the kinds of the first n devices of a backend of XLA, and the version of its plugin.
func Describe(b compute.Backend, n int) (kinds []string, version string, err error) {
	return xla.Describe(b, n)
}

func startPlugin(
	ctx context.Context, kind plugin.Kind, devices int, choices plugin.Choices, log *slog.Logger,
) (*engine, error) {
	name := "xla:" + string(kind)
	p, err := plugin.Ensure(ctx, kind, log)
	if errors.Is(err, plugin.ErrMissing) {
		return nil, fmt.Errorf("%w: %s: %w", ErrUnavailable, name, err)
	}
	if err != nil {
		return nil, fmt.Errorf("backend %s: %w", name, err)
	}
	b, err := xla.Start(p, kind, devices, choices, log)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: loading %s: %w", ErrUnavailable, name, p.Path, err)
	}
	return &engine{backend: b, name: name, detail: p.Path, plugin: p.Path}, nil
}
