package nodes

import (
	"errors"
	"fmt"
	"strconv"
)

// Fact is a setting that must be the same on all nodes.
type Fact struct{ Name, Value string }

// allFacts are the facts of the group beside the caller's.
func (s *server) allFacts() []Fact {
	return append([]Fact{{"protocol", "2 " + byteOrder()}, {"number of nodes", strconv.Itoa(s.Nodes)}}, s.Facts...)
}

func byteOrder() string {
	if floatBytes([]float32{1})[3] == 0x3f {
		return "little-endian"
	}
	return "big-endian"
}

// compare lists the facts in which nodes differ.
func compare(theirs, ours []Fact, them, us int) error {
	values := map[string]string{}
	for _, f := range theirs {
		values[f.Name] = f.Value
	}
	var bad []error
	for _, f := range ours {
		value, ok := values[f.Name]
		if !ok {
			value = "nothing"
		}
		if value != f.Value {
			bad = append(bad, fmt.Errorf("%s is %s on node %d and %s on node %d, must be the same", f.Name, f.Value, us, value, them))
		}
	}
	if err := errors.Join(bad...); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return nil
}
