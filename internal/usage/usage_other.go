//go:build !unix

package usage

import "time"

// PeakResident returns 0: not supported here.
func PeakResident() int64 { return 0 }

// CPUTime returns 0: not supported here.
func CPUTime() time.Duration { return 0 }
