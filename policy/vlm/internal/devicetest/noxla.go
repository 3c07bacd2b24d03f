//go:build !cgo

package devicetest

import (
	"fmt"

	"github.com/gomlx/compute"
)

func xlaBackend() (compute.Backend, error) {
	return nil, fmt.Errorf("%w: this test was built without cgo", errMissing)
}
