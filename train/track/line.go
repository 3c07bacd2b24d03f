package track

import (
	"encoding/json"
	"maps"
	"slices"
)

// Line returns the line of metrics.jsonl for an event, without the line end: kind, step,
// and the metrics in the order of their names, null if not finite. Metrics for which omit
// returns true are left out; omit may be nil.
func Line(e Event, omit func(name string) bool) []byte {
	line := append([]byte(`{"kind":`), quoted(e.Kind)...)
	step, _ := json.Marshal(e.Step) // never fails for an integer
	line = append(append(line, `,"step":`...), step...)
	for _, name := range slices.Sorted(maps.Keys(e.Metrics)) {
		if omit != nil && omit(name) {
			continue
		}
		value, err := json.Marshal(e.Metrics[name])
		if err != nil { // NaN and infinities have no JSON form
			value = []byte("null")
		}
		line = append(append(line, ','), quoted(name)...)
		line = append(append(line, ':'), value...)
	}
	return append(line, '}')
}
