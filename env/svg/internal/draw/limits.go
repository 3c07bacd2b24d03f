package draw

import "errors"

// ErrLimit is wrapped by errors about code that is larger, deeper or more work
// than Limits allow.
var ErrLimit = errors.New("limit exceeded")

// Limits bound what code may cost. DefaultLimits are far above what pictures need.
type Limits struct {
	Bytes    int // of code
	Elements int // of the document, and drawn of it; references count each time
	Depth    int // of nesting, references included
	Segments int // of one path
	Rules    int // of style sheets
	Work     int // crossings of outlines with sample lines, pixels of layers, and what takes as long
}

// DefaultLimits returns the limits that the environment uses. Code at the limit
// of work takes about a second.
func DefaultLimits() Limits {
	return Limits{Bytes: 1 << 18, Elements: 10_000, Depth: 64, Segments: 20_000, Rules: 500, Work: 40_000_000}
}
