package advantage

import "errors"

// Estimator computes advantages and returns from the rewards, values and masks of
// a batch.
//
// Implementations in this package are small values whose fields are their
// hyperparameters, used as written. They keep no state between calls, so one
// value may serve many goroutines; a Result serves one call at a time.
type Estimator interface {
	// Estimate fills dst for all tokens of b. It resizes dst as needed and
	// allocates nothing when dst was used for a batch of this size before. It
	// reads b and keeps no reference to it. After an error dst is unspecified.
	//
	// The slices of dst share no memory with b or with each other: the estimators
	// of this package refuse that with ErrOverlap.
	Estimate(dst *Result, b *Batch) error
}

// Errors for callers to distinguish. Errors of Estimate wrap one of them and name
// estimator, field, row and position.
var (
	// ErrLength means that a slice of the batch has the wrong length, or that
	// Offsets do not describe rows.
	ErrLength = errors.New("wrong length")
	// ErrNil means that a batch, a result or a sequence is a nil pointer.
	ErrNil = errors.New("is nil")
	// ErrNotFinite means that an input is NaN or infinite, or that a result
	// does not fit its storage.
	ErrNotFinite = errors.New("not a finite number")
	// ErrParameter means that a hyperparameter is out of range.
	ErrParameter = errors.New("parameter out of range")
	// ErrEmptyMask means that there are fewer than two positions to whiten
	// over, so that mean and variance are undefined.
	ErrEmptyMask = errors.New("fewer than two positions to whiten over")
	// ErrNoCritic means that the estimator needs Values and the batch has none.
	ErrNoCritic = errors.New("needs a critic's values")
	// ErrNoMask means that the estimator needs a mask that the batch lacks.
	ErrNoMask = errors.New("needs a mask that the batch does not have")
	// ErrNoTurnEnd means that model tokens are not closed by a turn end.
	ErrNoTurnEnd = errors.New("no turn end")
	// ErrNoGroup means that a column of the batch (groups, trajectories, baselines,
	// states) that the estimator needs is missing.
	ErrNoGroup = errors.New("required by the estimator, but missing in the batch")
	// ErrUnknown means that no estimator has this name.
	ErrUnknown = errors.New("unknown name")
	// ErrDuplicate means that a name is already registered.
	ErrDuplicate = errors.New("the name is already registered")
	// ErrOverlap means that a Result would overwrite the batch, or itself.
	ErrOverlap = errors.New("slices of the result overlap each other or the batch")
	// ErrConflict means that two different rows have the same identity in a
	// trajectory.
	ErrConflict = errors.New("two different rows with one identity")
)
