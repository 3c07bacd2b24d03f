package view

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"math"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"vagen/train/track"
)

const (
	// maxLines is the largest number of lines in an answer; the page asks for the next.
	maxLines = 20_000
	// maxLine limits a line of metrics.jsonl in bytes.
	maxLine = 4 << 20
	// maxRead is how much of metrics.jsonl is read at a time.
	maxRead = 64 << 20
	// tail is how many bytes before the end are compared to find out whether a file that
	// did not shrink was rewritten.
	tail = 512
)

// metricsFile follows metrics.jsonl, which is appended to, and cut by a rollback.
type metricsFile struct {
	read       stamp
	generation int // how many times the file was cut or replaced
	at         int64
	end        []byte // the last bytes before at
	lines      []line
	steps      int
	interval   float64 // seconds of the last step
	torn       bool    // the last line is not complete
	bad        int     // lines that are not events
	fault      string  // why the file cannot be read
}

// line is an event.
type line struct {
	step   int
	series map[string]number
}

// refresh reads the lines that were added.
func (m *metricsFile) refresh(root *os.Root) {
	f, info, err := openFile(root, metricsName)
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

// append reads the complete lines after m.at of a file of some size.
func (m *metricsFile) append(f *os.File, size int64) error {
	for {
		raw := make([]byte, min(maxRead, max(0, size-m.at)))
		n, err := f.ReadAt(raw, m.at)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		raw = raw[:n]
		whole := bytes.LastIndexByte(raw, '\n') + 1
		for text := range bytes.Lines(raw[:whole]) {
			m.event(bytes.TrimSpace(text))
		}
		m.at += int64(whole)
		if whole > 0 {
			m.end = bytes.Clone(raw[max(0, whole-tail):whole])
		}
		m.torn = whole < n
		if n < maxRead {
			return nil
		}
		if whole == 0 {
			return errors.New("a line is longer than " + strconv.Itoa(maxRead) + " bytes")
		}
	}
}

// event adds a line. One that is not an event counts as a line, so that lines keep their
// numbers.
func (m *metricsFile) event(text []byte) {
	l := line{series: map[string]number{}}
	defer func() { m.lines = append(m.lines, l) }()
	var all map[string]any
	if len(text) > maxLine || json.Unmarshal(text, &all) != nil {
		m.bad++
		return
	}
	kind, ok := all["kind"].(string)
	step, ok2 := all["step"].(float64)
	if !ok || !ok2 || step < 0 || step > math.MaxInt32 || step != math.Trunc(step) {
		m.bad++
		return
	}
	l.step = int(step)
	if kind == track.KindStep {
		m.steps = max(m.steps, l.step)
		m.interval, _ = all["time/step"].(float64)
	}
	for name, x := range all {
		// Every event has times; only those of steps are counted in training steps.
		if name == "kind" || name == "step" || kind != track.KindStep && strings.HasPrefix(name, "time/") {
			continue
		}
		switch x := x.(type) {
		case float64:
			l.series[name] = number(x)
		case nil:
			l.series[name] = number(math.NaN())
		}
	}
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
	patience := time.Minute + time.Duration(min(max(0, 5*m.interval), 24*3600)*float64(time.Second))
	return now.Sub(m.read.time) < patience
}

// metricsAnswer is what was appended after some lines.
type metricsAnswer struct {
	Lines      int                `json:"lines"`
	Generation int                `json:"generation"`
	Reset      bool               `json:"reset"`
	More       bool               `json:"more"`
	Series     map[string][]point `json:"series"`
}

func (r *run) metricsAnswer(req *http.Request) (any, error) {
	q := req.URL.Query()
	after, err := count(q.Get("after"), "after")
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	m := &r.metrics
	if root, err := r.openRoot(); err == nil {
		defer root.Close()
		m.refresh(root)
	} else {
		m.restart()
	}
	a := metricsAnswer{Generation: m.generation, Series: map[string][]point{}}
	if g := q.Get("generation"); after > len(m.lines) || after > 0 && g != "" && g != strconv.Itoa(m.generation) {
		a.Reset, after = true, 0
	}
	a.Lines = min(len(m.lines), after+maxLines)
	a.More = a.Lines < len(m.lines)
	for _, l := range m.lines[after:a.Lines] {
		for name, x := range l.series {
			a.Series[name] = append(a.Series[name], point{l.step, x})
		}
	}
	return a, nil
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
