//go:build !cgo

package backend

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/gomlx/compute"

	"vagen/policy/vlm/internal/plugin"
)

// xlaHint explains how to get XLA after the fallback to pure Go.
const xlaHint = "go needs no set-up but is 15 to 25 times slower than XLA: build with a C compiler and CGO_ENABLED=1"

func startPlugin(_ context.Context, kind plugin.Kind, _ int, _ plugin.Choices, _ *slog.Logger) (*engine, error) {
	return nil, noXLA("xla:" + string(kind))
}

// Describe returns an error: there is no XLA without cgo.
func Describe(compute.Backend, int) (kinds []string, version string, err error) {
	return nil, "", noXLA("xla")
}

func noXLA(name string) error {
	return fmt.Errorf("%w: %s: this program was built without cgo, which XLA needs; "+
		"build it with a C compiler and CGO_ENABLED=1", ErrUnavailable, name)
}
