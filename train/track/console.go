package track

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"vagen/internal/term"
)

// Console prints the progress of a run: a bar with the time left and the main metrics.
// On a terminal the bar is redrawn in place; elsewhere every event is a line.
type Console struct {
	w        io.Writer
	terminal bool // moves its cursor to the start of the line on "\r"
	now      func() time.Time
	rounds   map[string]round // by kind of event
	width    int              // of the current text on the bar's line
}

// round is a sequence of increasing steps.
type round struct {
	begin       time.Time // time of its first event
	first, last int       // steps
}

// NewConsole returns a Console that writes to w, which must not be nil.
func NewConsole(w io.Writer) *Console {
	return &Console{w: term.Raw(w), terminal: term.IsTerminal(w), now: time.Now, rounds: map[string]round{}}
}

// Event implements Sink.
func (c *Console) Event(e Event) error {
	if c.w == nil {
		return errors.New("track: Console has no writer, must be made by NewConsole with one")
	}
	switch e.Kind {
	case KindImitate:
		return c.bar(e, "imitation  loss "+e.show("%.3f", "imitate/loss"))
	case KindStep:
		if _, ok := e.Metrics["sft/loss"]; ok {
			return c.bar(e, fmt.Sprintf("supervised  loss %s  %s tokens/s", e.show("%.3f", "sft/loss"),
				e.show("%.0f", "perf/throughput")))
		}
		text := fmt.Sprintf("training  success %s  score %s  format %s  entropy %s  %s s/step",
			e.show("%.2f", "train/success"), e.show("%+.2f", "train/score"), e.show("%.2f", "train/format_correct"),
			e.show("%.2f", "actor/entropy"), e.show("%.1f", "time/step"))
		if bad := e.Metrics["train/unusable"]; bad > 0 {
			text += fmt.Sprintf("  %d unusable", int(bad))
		}
		return c.bar(e, text)
	case KindValidate:
		if _, ok := e.Metrics["sft/val_loss"]; ok {
			return c.line(fmt.Sprintf("validation after step %d: loss %s, token accuracy %s on %d held-out tokens",
				e.Step, e.show("%.3f", "sft/val_loss"), e.show("%.3f", "sft/val_token_accuracy"), int(e.Metrics["sft/val_tokens"])))
		}
		all, bad := int(e.Metrics["val/episodes"]), int(e.Metrics["val/unusable"])
		levels := fmt.Sprint(all)
		if bad > 0 {
			levels = fmt.Sprintf("%d of %d", all-bad, all)
		}
		return c.line(fmt.Sprintf(
			"validation after step %d: success %s on %s unseen levels, %s turns, format %s", e.Step,
			e.show("%.2f", "val/success"), levels, e.show("%.1f", "val/turns"),
			e.show("%.2f", "val/format_correct"),
		))
	}
	return nil
}

// show formats a metric; "-" means that it was not measured.
func (e Event) show(format, name string) string {
	x, ok := e.Metrics[name]
	if !ok {
		return "-"
	}
	return fmt.Sprintf(format, x)
}

// bar draws progress and the time left.
func (c *Console) bar(e Event, text string) error {
	const cells = 24
	full := min(max(0, cells*e.Step/max(1, e.Total)), cells)
	line := fmt.Sprintf("[%s%s] %d/%d  left %s  %s", strings.Repeat("█", full), strings.Repeat("·", cells-full), e.Step,
		e.Total, c.remaining(e), text)
	if !c.terminal {
		_, err := fmt.Fprintln(c.w, line)
		return err
	}
	width := len([]rune(line))
	_, err := fmt.Fprintf(c.w, "\r%s%s", line, strings.Repeat(" ", max(0, c.width-width)))
	c.width = width
	if e.Step == e.Total {
		_, err = fmt.Fprintln(c.w)
		c.width = 0
	}
	return err
}

// remaining estimates the time of the remaining steps from that of the previous ones. The
// first event of a round only starts the clock.
func (c *Console) remaining(e Event) string {
	r, ok := c.rounds[e.Kind]
	if !ok || e.Step <= r.last { // the steps start again: a new round
		r = round{begin: c.now(), first: e.Step}
	}
	r.last = e.Step
	c.rounds[e.Kind] = r
	if e.Step == r.first {
		return "--"
	}
	per := c.now().Sub(r.begin) / time.Duration(e.Step-r.first)
	return (per * time.Duration(max(0, e.Total-e.Step))).Round(time.Second).String()
}

// line writes a separate line, on a terminal above the bar.
func (c *Console) line(text string) error {
	lead := ""
	if c.terminal && c.width > 0 {
		lead = "\r" + strings.Repeat(" ", c.width) + "\r"
		c.width = 0
	}
	_, err := fmt.Fprintln(c.w, lead+text)
	return err
}

// Close implements Sink.
func (c *Console) Close() error {
	if c.terminal && c.width > 0 {
		_, err := fmt.Fprintln(c.w)
		return err
	}
	return nil
}
