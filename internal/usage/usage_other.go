//go:build !unix

package usage

import "time"

// PeakResident is not known here.
func PeakResident() int64 { return 0 }

// CPUTime is not known here.
func CPUTime() time.Duration { return 0 }
