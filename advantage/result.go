package advantage

// Result receives what an estimator computes. The zero value is ready to use;
// reuse it from step to step and the memory is reused with it. It must not be
// used by two calls at a time, and a copy shares its memory. A batch that is made
// of its slices needs another Result to be estimated into (see ErrShared).
type Result struct {
	// Advantages has one entry per token. Positions outside the estimator's
	// mask are as documented by the estimator; they are not part of a loss.
	Advantages []float32
	// Returns has one entry per token: what the critic learns. IgnoreReturn
	// marks positions that it must not learn, for the estimators that publish
	// a value mask.
	Returns []float32
	// ValueMask marks the positions that train the critic. It is nil when the
	// estimator leaves that to the loss mask.
	ValueMask []bool
	// TurnID holds the turn of each token within its trajectory, -1 outside
	// turns. It is nil when the estimator does not publish turns.
	TurnID []int32
	// Raw describes the advantages before whitening, over the positions that
	// they were whitened over. It is zero for estimators that do not whiten.
	Raw Moments

	mem *memory
}

// memory is what a Result keeps between calls.
type memory struct {
	call      call[float32]
	scratch   scratch
	valueMask []bool
	turnID    []int32
}

// IgnoreReturn is the value of Returns at positions that the critic is not trained on.
const IgnoreReturn = -100

// resize returns a slice of length n, of the same memory when it is large
// enough. Its contents are unspecified.
func resize[E any](s []E, n int) []E {
	if cap(s) < n {
		return make([]E, n)
	}
	return s[:n]
}
