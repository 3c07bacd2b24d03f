package track

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// KeepLines returns the lines before the first event for which over is true, and their
// events. It drops a last line without a line end: the process stopped while writing it.
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

// parseEvent reads a line of metrics.jsonl; metrics that were not finite are omitted.
func parseEvent(line []byte) (Event, error) {
	var all map[string]any
	if err := json.Unmarshal(line, &all); err != nil {
		return Event{}, err
	}
	kind, ok := all["kind"].(string)
	step, ok2 := all["step"].(float64)
	if !ok || !ok2 {
		return Event{}, errors.New("kind or step is missing")
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
