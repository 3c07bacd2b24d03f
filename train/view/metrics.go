package view

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"vagen/internal/clock"
	"vagen/train/rundir"
	"vagen/train/track"
)

const (
	// maxPoints is the largest number of lines of one kind in an answer. Of more, one is drawn from
	// each of maxPoints equal parts, so that metrics that only some lines have are in the answer, too.
	maxPoints = 2_000
	// checked is the number of lines at the start of a file that are decoded when they are indexed,
	// to count those that are not events. Of the others that is decided by their first bytes.
	checked = maxPoints / 2
	// maxLine limits a line of metrics.jsonl in bytes.
	maxLine = 4 << 20
	// maxRead is how much of metrics.jsonl is read at a time.
	maxRead = 8 << 20
	// tail is how many bytes before the end are compared to find out whether a file that
	// did not shrink was rewritten.
	tail = 512
)

// metricsFile follows metrics.jsonl, which is appended to, and cut by a rollback. It is an index of
// the lines: their metrics are read when they are asked for.
type metricsFile struct {
	read       stamp
	generation int // how many times the file was cut or replaced
	at         int64
	end        []byte // the last bytes before at
	lines      []line
	kinds      []string
	steps      int
	interval   float64 // seconds of the last step
	torn       bool    // the last line is not complete
	bad        int     // lines that are not events
	fault      string  // why the file cannot be read
}

// line is the place of an event.
type line struct {
	at   int64
	size int32 // with the line end
	kind int32 // index of metricsFile.kinds; -1 for a line that is not an event
}

// refresh reads the lines that were added.
func (m *metricsFile) refresh(root *os.Root) {
	f, info, err := openFile(root, rundir.MetricsName)
	if err != nil {
		m.restart()
		if m.fault = ""; !errors.Is(err, fs.ErrNotExist) {
			m.fault = sentence("metrics.jsonl cannot be read: %v", err)
		}
		return
	}
	defer f.Close()
	if stampOf(info) == m.read {
		return
	}
	m.fault = ""
	if !m.continues(f, info.Size()) {
		m.restart()
	}
	if err := m.append(f, info.Size()); err != nil {
		m.fault = sentence("metrics.jsonl cannot be read: %v", err)
	}
	m.read = stampOf(info)
}

// continues reports whether the lines that were read are still in the file.
func (m *metricsFile) continues(f *os.File, size int64) bool {
	if size < m.at {
		return false
	}
	now := make([]byte, len(m.end))
	_, err := f.ReadAt(now, m.at-int64(len(now)))
	return (err == nil || errors.Is(err, io.EOF)) && bytes.Equal(now, m.end)
}

func (m *metricsFile) restart() {
	if m.at > 0 {
		m.generation++
	}
	*m = metricsFile{generation: m.generation}
}

// append indexes the complete lines after m.at of a file of some size.
func (m *metricsFile) append(f *os.File, size int64) error {
	raw := make([]byte, min(maxRead, max(0, size-m.at)))
	var last []byte // line of the last step
	for {
		n, err := f.ReadAt(raw, m.at)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		whole := bytes.LastIndexByte(raw[:n], '\n') + 1
		for text := range bytes.Lines(raw[:whole]) {
			if m.index(text) {
				last = append(last[:0], text...)
			}
		}
		if whole > 0 {
			m.end = bytes.Clone(raw[max(0, whole-tail):whole])
		}
		m.torn = whole < n
		if n < maxRead {
			break
		}
		if whole == 0 {
			return errors.New("a line is longer than " + strconv.Itoa(maxRead) + " bytes")
		}
	}
	if e, ok := parse(last); ok {
		if m.interval = e.Metrics["time/step"]; math.IsNaN(m.interval) {
			m.interval = 0
		}
	}
	return nil
}

// index adds the next line, and reports whether it is that of a step. One that is not an event counts
// as a line, so that lines keep their numbers.
func (m *metricsFile) index(text []byte) (ofStep bool) {
	kind, step, ok := head(text)
	if !ok || len(m.lines) < checked {
		var e track.Event
		e, ok = parse(text)
		kind, step = e.Kind, e.Step
	}
	l := line{m.at, int32(len(text)), -1}
	m.at += int64(len(text))
	if l.kind = int32(slices.Index(m.kinds, kind)); ok && l.kind < 0 && len(m.kinds) < maxKinds {
		l.kind, m.kinds = int32(len(m.kinds)), append(m.kinds, kind)
	}
	if !ok || l.kind < 0 {
		l.kind = -1
		m.bad++
	}
	m.lines = append(m.lines, l)
	if ofStep = l.kind >= 0 && kind == track.KindStep; ofStep {
		m.steps = max(m.steps, step)
	}
	return ofStep
}

// maxKinds limits the kinds of events in a file.
const maxKinds = 64

// head reads kind and step of a line as runs write it. ok is false for another line.
func head(text []byte) (kind string, step int, ok bool) {
	rest, is := bytes.CutPrefix(text, []byte(`{"kind":"`))
	name, rest, is2 := bytes.Cut(rest[:min(len(rest), 128)], []byte(`","step":`))
	digits, _, is3 := bytes.Cut(rest, []byte(","))
	n, err := strconv.ParseUint(string(digits), 10, 31)
	whole := len(text) <= maxLine && bytes.HasSuffix(bytes.TrimRight(text, "\r\n"), []byte("}"))
	return string(name), int(n), is && is2 && is3 && err == nil && whole && !bytes.ContainsAny(name, `"\`)
}

// parse reads a line. ok is false if it is not an event.
func parse(text []byte) (e track.Event, ok bool) {
	if len(text) > maxLine {
		return e, false
	}
	e, err := track.ParseEvent(text)
	return e, err == nil
}

// addSeries adds the metrics of an event.
func addSeries(into map[string][]point, e *track.Event) {
	for name, x := range e.Metrics {
		// Every event has times; only those of steps are counted in training steps.
		if e.Kind == track.KindStep || !strings.HasPrefix(name, "time/") {
			into[name] = append(into[name], point{e.Step, number(x)})
		}
	}
}

// shown are the lines of an answer, of those after some.
func (m *metricsFile) shown(after int) []line {
	count := make([]int, len(m.kinds))
	for _, l := range m.lines[after:] {
		if l.kind >= 0 {
			count[l.kind]++
		}
	}
	seen := make([]int, len(m.kinds))
	var out []line
	for _, l := range m.lines[after:] {
		if l.kind < 0 {
			continue
		}
		i, n := seen[l.kind], count[l.kind]
		if seen[l.kind]++; n <= maxPoints || i == n-1 || drawn(i, n) {
			out = append(out, l)
		}
	}
	return out
}

// drawn reports whether the ith of n lines is the one that is drawn from its part. Which one of a
// part it is has no period: metrics that every tenth line has would be lost, or alone be left.
func drawn(i, n int) bool {
	part := i * maxPoints / n
	first := (part*n + maxPoints - 1) / maxPoints
	next := ((part+1)*n + maxPoints - 1) / maxPoints
	if part == 0 {
		return i == 0
	}
	mixed := uint32(part) * 2654435761
	return i-first == int(mixed>>16)%(next-first)
}

// problems says what is missing.
func (m *metricsFile) problems() (out []string) {
	if m.fault != "" {
		return []string{m.fault}
	}
	if m.torn {
		out = append(out, "The last line of metrics.jsonl is not complete; it is left out.")
	}
	if m.bad > 0 {
		out = append(out, sentence("%d lines of metrics.jsonl are not events; they are left out", m.bad))
	}
	return out
}

// live reports whether the run seems to train: its metrics changed within the time that
// a few steps take.
func (m *metricsFile) live(total int, now time.Time) bool {
	if m.read.time.IsZero() || total > 0 && m.steps >= total {
		return false
	}
	patience := time.Minute + clock.Seconds(min(max(0, 5*m.interval), 24*3600))
	return now.Sub(m.read.time) < patience
}

// metricsAnswer is what was appended after some lines.
type metricsAnswer struct {
	Lines      int                `json:"lines"`
	Generation int                `json:"generation"`
	Reset      bool               `json:"reset"`
	Series     map[string][]point `json:"series"`
}

func (r *run) metricsAnswer(_ context.Context, q url.Values) (a metricsAnswer, err error) {
	after, err := count(q.Get("after"), "after")
	if err != nil {
		return a, err
	}
	return r.metricsAfter(after, q.Get("generation")), nil
}

// metricsAfter reads what was appended after some lines of a generation of the file, "" of any.
func (r *run) metricsAfter(after int, generation string) metricsAnswer {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := &r.metrics
	root, err := r.openRoot()
	if err == nil {
		defer root.Close()
		m.refresh(root)
	} else {
		m.restart()
	}
	a := metricsAnswer{Lines: len(m.lines), Generation: m.generation, Series: map[string][]point{}}
	if after > len(m.lines) || after > 0 && generation != "" && generation != strconv.Itoa(m.generation) {
		a.Reset, after = true, 0
	}
	if err == nil {
		m.readSeries(root, after, a.Series)
	}
	return a
}

// readSeries reads the metrics of the lines after some. Lines that changed meanwhile are left out.
func (m *metricsFile) readSeries(root *os.Root, after int, into map[string][]point) {
	f, _, err := openFile(root, rundir.MetricsName)
	if err != nil {
		return // refresh says why
	}
	defer f.Close()
	var raw []byte
	for _, l := range m.shown(after) {
		raw = slices.Grow(raw[:0], int(l.size))[:l.size]
		if _, err := f.ReadAt(raw, l.at); err != nil {
			return // the file was cut
		}
		if e, ok := parse(raw); ok {
			addSeries(into, &e)
		}
	}
}

// count reads a whole number of a request; "" is 0.
func count(text, name string) (int, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > math.MaxInt32 {
		return 0, badRequest("%s: %q is not a whole number from 0 to %d", name, clip(text, 20), math.MaxInt32)
	}
	return n, nil
}
