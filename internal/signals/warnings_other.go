//go:build !unix

package signals

import "os"

var warnings []os.Signal
