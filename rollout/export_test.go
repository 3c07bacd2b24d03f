package rollout

import "vagen/env"

// For tests of this package's arithmetic.
var (
	Room = room

	KeepLast = keepLast
)

// CutTo cuts from the end.
func CutTo(o env.Observation, limit int, count func(env.Observation) (int, error)) (env.Observation, bool, error) {
	return cutTo(o, limit, keepFirst, count)
}
