package track

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
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
		e, err := ParseEvent(raw[at : at+n])
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

// ParseEvent reads a line of metrics.jsonl, without the line end. Its metrics are numbers or null, which is NaN.
func ParseEvent(line []byte) (Event, error) {
	var all map[string]any
	if err := json.Unmarshal(line, &all); err != nil {
		return Event{}, err
	}
	kind, ok := all["kind"].(string)
	step, ok2 := all["step"].(float64)
	if !ok || !ok2 {
		return Event{}, errors.New("kind or step is missing")
	}
	if step < 0 || step > math.MaxInt32 || step != math.Trunc(step) {
		return Event{}, fmt.Errorf("step is %v, must be a whole number", step)
	}
	e := Event{Kind: kind, Step: int(step), Metrics: Metrics{}}
	delete(all, "kind")
	delete(all, "step")
	for name, x := range all {
		switch x := x.(type) {
		case float64:
			e.Metrics[name] = x
		case nil:
			e.Metrics[name] = math.NaN()
		default:
			return e, fmt.Errorf("%q is not a number", name)
		}
	}
	return e, nil
}
