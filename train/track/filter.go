package track

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// KeepLines returns the lines before the first event that is over, and what they say. A
// last line without an end was being written when the process died.
func KeepLines(raw []byte, over func(Event) bool) ([]byte, []Event, error) {
	var events []Event
	at := 0
	for line := 1; ; line++ {
		n := bytes.IndexByte(raw[at:], '\n')
		if n < 0 {
			return raw[:at], events, nil
		}
		e, err := parseEvent(raw[at : at+n])
		if err != nil {
			return nil, nil, fmt.Errorf("line %d: %w", line, err)
		}
		if over(e) {
			return raw[:at], events, nil
		}
		events = append(events, e)
		at += n + 1
	}
}

// parseEvent reads a line of metrics.jsonl; numbers that were not finite are left out.
func parseEvent(line []byte) (Event, error) {
	var all map[string]any
	if err := json.Unmarshal(line, &all); err != nil {
		return Event{}, err
	}
	kind, ok := all["kind"].(string)
	step, ok2 := all["step"].(float64)
	if !ok || !ok2 {
		return Event{}, errors.New("no kind, or no step")
	}
	e := Event{Kind: kind, Step: int(step), Metrics: Metrics{}}
	delete(all, "kind")
	delete(all, "step")
	for name, x := range all {
		if x, ok := x.(float64); ok {
			e.Metrics[name] = x
		}
	}
	return e, nil
}
