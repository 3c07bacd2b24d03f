//go:build !cgo

package devicetest

import (
	"fmt"

	"github.com/gomlx/gomlx/backends"
)

func xlaBackend() (backends.Backend, error) {
	return nil, fmt.Errorf("%w: this test was built without cgo", errMissing)
}
