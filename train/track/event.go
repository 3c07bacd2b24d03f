// Package track has the events of a training run and the sinks that receive them: JSON
// lines, the console and Prometheus. Sinks with dependencies are in packages below.
//
//	Event          what a run reports: kind, step and Metrics
//	Sink           receives events; SinkFunc makes one of a function
//	Ender          a Sink that records how a run ended
//	NewJSONLines   writes metrics.jsonl; KeepLines and ParseEvent read it
//	NewConsole     prints progress
//	Prometheus     serves the newest metrics
//	MetricOf       says of a metric in which stage it is computed, and whether it depends on the machine
package track

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"

	"vagen/internal/floats"
	"vagen/internal/regular"
	"vagen/internal/unmade"
)

// Metrics are the named numbers of an event. All except those of time and machine are
// equal in every run of the same configuration.
type Metrics map[string]float64

// Unequal returns the names of the metrics that differ from others, in order, except those of time and machine.
// Numbers that are not finite are equal, because files have null for all of them.
func (m Metrics) Unequal(others Metrics) []string {
	all := Metrics{}
	maps.Copy(all, m)
	maps.Copy(all, others)
	return slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(name string) bool {
		x, has := m[name]
		y, have := others[name]
		return MachineMetric(name) || has == have && (x == y || !floats.Finite(x) && !floats.Finite(y))
	})
}

// Kinds of events.
const (
	KindImitate  = "imitate"  // some batches of imitation were trained
	KindStep     = "step"     // a training step was done
	KindValidate = "validate" // the policy was validated
	KindSave     = "save"     // a checkpoint was written
	KindRollback = "rollback" // the events after Step are undone
)

// Event is an event of a run.
type Event struct {
	Kind    string // one of the above
	Step    int    // training steps done
	Total   int    // total training steps (or imitation steps)
	Metrics Metrics
}

// Sink receives the events of a run, one at a time, in order.
type Sink interface {
	Event(e Event) error
	// Close flushes the received events.
	Close() error
}

// The sinks of this package.
var (
	_ Sink = (*Console)(nil)
	_ Sink = (*JSONLines)(nil)
	_ Sink = (*Prometheus)(nil)
	_ Sink = SinkFunc(nil)
)

// Ender is implemented by sinks that record how a run ended. Ended is called once,
// before Close, with the error of Trainer.Run.
type Ender interface{ Ended(err error) }

// JSONLines writes events to a file, one JSON object per line: kind, step, and
// the metrics in the order of their names, null if not finite. A rollback removes the
// lines of the undone events.
type JSONLines struct {
	mu   sync.Mutex
	file *os.File // nil after Close
	buf  *bufio.Writer
}

// NewJSONLines appends to the file at path, which it creates if it does not exist.
func NewJSONLines(path string) (*JSONLines, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("track: metrics: %w", err)
	}
	return &JSONLines{file: f, buf: bufio.NewWriter(f)}, nil
}

// Event implements Sink. The line is written to the file before Event returns.
func (j *JSONLines) Event(e Event) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file == nil {
		return unmade.Closed("track.JSONLines", "NewJSONLines")
	}
	if e.Kind == KindRollback {
		return j.cut(e.Step)
	}
	for _, field := range []string{"kind", "step"} {
		if _, taken := e.Metrics[field]; taken {
			return fmt.Errorf("track: metrics: %s of step %d has a metric called %q, which is a field of every line: it needs another name",
				e.Kind, e.Step, field)
		}
	}
	j.buf.Write(Line(e, nil)) // an error stays until Flush
	j.buf.WriteByte('\n')
	if err := j.buf.Flush(); err != nil {
		return fmt.Errorf("track: metrics: %w", err)
	}
	return nil
}

// cut removes the events after a step.
func (j *JSONLines) cut(step int) error {
	raw, err := regular.ReadFile(j.file.Name())
	if err != nil {
		return fmt.Errorf("track: metrics: %w", err)
	}
	kept, _, err := KeepLines(raw, func(e Event) bool { return e.Kind != KindImitate && e.Step > step })
	if err == nil {
		// By its name: Windows truncates no file that is open for appending.
		err = os.Truncate(j.file.Name(), int64(len(kept)))
	}
	if err != nil {
		return fmt.Errorf("track: metrics: %s: %w", j.file.Name(), err)
	}
	return nil
}

// quoted returns a text as a JSON string; some names come from environments.
func quoted(text string) []byte {
	raw, _ := json.Marshal(text) // never fails for a text
	return raw
}

// Close implements Sink. Further calls do nothing.
func (j *JSONLines) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file == nil {
		return nil
	}
	err := errors.Join(j.buf.Flush(), j.file.Close())
	j.file = nil
	if err != nil {
		return fmt.Errorf("track: metrics: %w", err)
	}
	return nil
}

// SinkFunc is a function as a Sink.
type SinkFunc func(Event) error

// Event implements Sink.
func (f SinkFunc) Event(e Event) error {
	if f == nil {
		return errors.New("track: SinkFunc is nil, must be a function")
	}
	return f(e)
}

// Close implements Sink.
func (f SinkFunc) Close() error { return nil }
