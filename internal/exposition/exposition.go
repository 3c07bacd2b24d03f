// Package exposition writes Prometheus' text format, version 0.0.4.
package exposition

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// ContentType is the Content-Type of an HTTP response in this format.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// Writer collects the lines of one response. The zero value is empty.
type Writer struct{ strings.Builder }

// Family begins a metric: kind is gauge, counter or histogram.
func (w *Writer) Family(name, kind, help string) {
	fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

// Sample writes one number; labels are as in `a="b",c="d"`, or empty.
func (w *Writer) Sample(name, labels string, v float64) {
	w.WriteString(name)
	if labels != "" {
		w.WriteString("{" + labels + "}")
	}
	w.WriteString(" " + Number(v) + "\n")
}

// Number writes a number in the format's syntax.
func Number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// Counter writes a counter without labels.
func (w *Writer) Counter(name, help string, v uint64) {
	w.Family(name, "counter", help)
	w.Sample(name, "", float64(v))
}

// ByLabel writes a counter with one label, in the order of its values.
func (w *Writer) ByLabel(name, help, label string, values map[string]uint64) {
	w.Family(name, "counter", help)
	for _, k := range slices.Sorted(maps.Keys(values)) {
		w.Sample(name, Label(label, k), float64(values[k]))
	}
}

var escaper = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// Label writes one label with its value escaped.
func Label(name, value string) string { return name + `="` + escaper.Replace(value) + `"` }
