package safetensors

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrFormat reports a file or an index that violates the format.
	ErrFormat = errors.New("not a valid safetensors file")
	// ErrNotFound reports a tensor or a shard that does not exist.
	ErrNotFound = errors.New("not found")
	// ErrDType reports a conversion that the element type does not allow.
	ErrDType = errors.New("wrong dtype")
	// ErrClosed reports the use of a closed Reader or Writer.
	ErrClosed = errors.New("already closed")
	// ErrExists reports a folder that already contains weights.
	ErrExists = errors.New("already exists")
)

// maxProblems is the maximum number of problems listed in one error.
const maxProblems = 10

// problems collects the problems of an input for one error.
type problems struct {
	list []string
	more int
}

func (p *problems) addf(format string, args ...any) {
	if len(p.list) == maxProblems {
		p.more++
		return
	}
	p.list = append(p.list, fmt.Sprintf(format, args...))
}

// err returns nil if nothing was added, otherwise an error that wraps kind.
func (p *problems) err(kind error) error {
	if len(p.list) == 0 {
		return nil
	}
	text := strings.Join(p.list, "; ")
	if p.more > 0 {
		text += fmt.Sprintf("; and %d more", p.more)
	}
	return fmt.Errorf("%w: %s", kind, text)
}
