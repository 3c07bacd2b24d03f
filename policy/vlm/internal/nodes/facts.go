package nodes

import (
	"encoding/json"
	"fmt"

	"vagen/internal/field"
)

// Fact is a setting that must be the same on all ranks.
type Fact struct{ Name, Value string }

// protocol is the fact of the group beside the caller's.
func protocol() Fact {
	order := "big-endian"
	if floatBytes([]float32{1})[3] == 0x3f {
		order = "little-endian"
	}
	return Fact{"protocol", "3 " + order}
}

// compare lists the facts in which ranks differ from rank 0, given those of all as JSON.
func compare(all [][]byte) error {
	facts := make([][]Fact, len(all))
	var bad field.Checks
	for rank, raw := range all {
		if err := json.Unmarshal(raw, &facts[rank]); err != nil {
			return fmt.Errorf("settings of rank %d: %w: %w", rank, ErrProtocol, err)
		}
		values := map[string]string{}
		for _, f := range facts[rank] {
			values[f.Name] = f.Value
		}
		for _, f := range facts[0] {
			value, ok := values[f.Name]
			if !ok {
				value = "nothing"
			}
			if value != f.Value {
				bad.Say("%s is %s on rank 0 and %s on rank %d, must be the same",
					f.Name, f.Value, value, rank)
			}
		}
	}
	if err := bad.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return nil
}
