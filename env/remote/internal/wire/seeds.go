package wire

import (
	"sync/atomic"

	"vagen/internal/rng"
)

// Seeds draws seeds for resets without one.
type Seeds struct{ drawn atomic.Uint64 }

// Next returns the next seed of a service, which is not negative.
func (s *Seeds) Next(service uint64) int64 {
	return int64(rng.Derive(service, rng.Level, s.drawn.Add(1)) >> 33)
}
