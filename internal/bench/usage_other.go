//go:build !unix

package bench

import "time"

// peakRSS is not known here.
func peakRSS() int64 { return 0 }

// cpuTime is not known here.
func cpuTime() time.Duration { return 0 }
