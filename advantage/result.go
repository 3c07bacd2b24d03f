package advantage

// Result receives the output of an estimator. The zero value is ready to use; its memory
// is reused from call to call. It must not be used by two calls at the same time, and a
// copy shares its memory. A batch that contains slices of a Result needs another Result
// (see ErrOverlap).
type Result struct {
	// Advantages has one entry per token. Positions outside the estimator's
	// mask are as documented by the estimator; they are not part of a loss.
	Advantages []float32
	// Returns has one entry per token, the target of the critic. Estimators with a
	// ValueMask set it to IgnoreReturn at positions that the critic is not trained on.
	Returns []float32
	// ValueMask marks the positions that train the critic. It is nil when the
	// estimator leaves that to the loss mask.
	ValueMask []bool
	// TurnID holds the turn of each token within its trajectory, -1 outside
	// turns. It is nil when the estimator does not publish turns.
	TurnID []int32
	// Running are the baselines after the batch, for Batch.Running of the next; nil for estimators without any.
	Running []float64
	// Raw describes the advantages before whitening, over the positions that
	// they were whitened over. It is zero for estimators that do not whiten.
	Raw Moments
	// Unread is the number of rewards other than 0 on tokens whose rewards the
	// estimator does not read (Rewards in its Spec). They have no effect.
	Unread int

	mem *memory
}

// Resize gives Advantages and Returns one entry per token, with unspecified contents, and
// empties everything else. Estimators of other packages call it first.
func (r *Result) Resize(tokens int) {
	if r.mem == nil {
		r.mem = new(memory)
	}
	tokens = max(0, tokens)
	r.Advantages, r.Returns = resize(r.Advantages, tokens), resize(r.Returns, tokens)
	r.ValueMask, r.TurnID, r.Running, r.Raw, r.Unread = nil, nil, nil, Moments{}, 0
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

// zeroed is resize with every entry zero.
func zeroed[E any](s []E, n int) []E {
	s = resize(s, n)
	clear(s)
	return s
}
