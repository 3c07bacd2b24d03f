package rollout

// For tests of this package's arithmetic.
var (
	Room  = room
	CutTo = cutTo
)
