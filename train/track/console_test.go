package track

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// show sends events to a console, ten seconds apart, and returns what it wrote.
func show(t *testing.T, terminal bool, events ...Event) string {
	t.Helper()
	var out bytes.Buffer
	c := NewConsole(&out)
	c.terminal = terminal
	now := time.Date(2025, 1, 2, 3, 4, 5, 0, time.UTC)
	c.now = func() time.Time { return now }
	for _, e := range events {
		now = now.Add(10 * time.Second)
		require.NoError(t, c.Event(e))
	}
	require.NoError(t, c.Close())
	return out.String()
}

var shownEvents = []Event{
	{Kind: "imitate", Step: 16, Total: 32, Metrics: Metrics{"imitate/loss": 1.23456}},
	{Kind: "imitate", Step: 32, Total: 32, Metrics: Metrics{"imitate/loss": 0.5}},
	{
		Kind: "validate", Step: 0, Total: 3,
		Metrics: Metrics{"val/success": 0.25, "val/episodes": 256, "val/turns": 3.14, "val/format_correct": 0.999},
	},
	{
		Kind:  "step",
		Step:  1,
		Total: 3,
		Metrics: Metrics{
			"train/success": 0.3, "train/score": 0.51, "train/format_correct": 0.9,
			"actor/entropy": 0.7, "time/step": 9.96,
		},
	},
	{
		Kind: "step", Step: 2, Total: 3,
		Metrics: Metrics{"train/success": 0.4, "train/score": -0.5, "train/unusable": 3, "time/step": 10},
	},
	{
		Kind: "validate", Step: 2, Total: 3,
		Metrics: Metrics{"val/success": 0.5, "val/episodes": 256, "val/unusable": 16},
	},
	{Kind: "save", Step: 2, Total: 3},
	{Kind: "step", Step: 3, Total: 3, Metrics: Metrics{"train/success": 0.6}},
	{Kind: "other", Step: 3, Total: 3},
}

// TestConsoleWritesALinePerEvent pins what a log file shows.
func TestConsoleWritesALinePerEvent(t *testing.T) {
	require.Equal(t, `[████████████············] 16/32  left --  imitation  loss 1.235
[████████████████████████] 32/32  left 0s  imitation  loss 0.500
validation after step 0: success 0.25 on 256 unseen levels, 3.1 turns, format 1.00
[████████················] 1/3  left --  training  success 0.30  score +0.51  format 0.90  entropy 0.70  10.0 s/step
[████████████████········] 2/3  left 10s  training  success 0.40  score -0.50  format -  entropy -  10.0 s/step  3 unusable
validation after step 2: success 0.50 on 240 of 256 unseen levels, - turns, format -
[████████████████████████] 3/3  left 0s  training  success 0.60  score -  format -  entropy -  - s/step
`, show(t, false, shownEvents...))
}

// TestConsoleKeepsTheBarInPlace replays what a terminal does with "\r" and "\n"
// and looks at the screen that is left.
func TestConsoleKeepsTheBarInPlace(t *testing.T) {
	require.Equal(t, []string{
		"[████████████████████████] 32/32  left 0s  imitation  loss 0.500",
		"validation after step 0: success 0.25 on 256 unseen levels, 3.1 turns, format 1.00",
		"validation after step 2: success 0.50 on 240 of 256 unseen levels, - turns, format -",
		"[████████████████████████] 3/3  left 0s  training  success 0.60  score -  format -  entropy -  - s/step",
		"",
	}, screen(show(t, true, shownEvents...)))
}

// screen is what stands on a terminal, lines without trailing blanks.
func screen(raw string) []string {
	lines := [][]rune{nil}
	at := 0
	for _, r := range raw {
		last := len(lines) - 1
		switch r {
		case '\r':
			at = 0
		case '\n':
			lines, at = append(lines, nil), 0
		default:
			if at == len(lines[last]) {
				lines[last] = append(lines[last], r)
			} else {
				lines[last][at] = r
			}
			at++
		}
	}
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = strings.TrimRight(string(l), " ")
	}
	return out
}

func TestClosingTheConsoleEndsTheBarsLine(t *testing.T) {
	unfinished := Event{Kind: "step", Step: 1, Total: 2}
	require.True(t, strings.HasSuffix(show(t, true, unfinished), "\n"))
	require.Equal(t, 1, strings.Count(show(t, true, Event{Kind: "step", Step: 2, Total: 2}), "\n"))
	require.Equal(t, 1, strings.Count(show(t, false, unfinished), "\n"))
	require.Empty(t, show(t, true))
}

// TestTheTimeLeftComesFromTheStepsSeen: rounds may begin anywhere, report every so
// many steps, and begin again.
func TestTheTimeLeftComesFromTheStepsSeen(t *testing.T) {
	var events []Event
	for _, step := range []int{100, 110, 130} {
		events = append(events, Event{Kind: "imitate", Step: step, Total: 150})
	}
	for _, step := range []int{10, 20} {
		events = append(events, Event{Kind: "imitate", Step: step, Total: 40})
	}
	var left []string
	for line := range strings.Lines(show(t, false, events...)) {
		_, after, _ := strings.Cut(line, "left ")
		left = append(left, strings.Fields(after)[0])
	}
	// 10 s for 10 steps, 40 to go; 20 s for 30 steps, 20 to go; 10 s for 10, 20 to go
	require.Equal(t, []string{"--", "40s", "13s", "--", "20s"}, left)
}

func TestConsoleStandsOddEvents(t *testing.T) {
	for _, e := range []Event{{Kind: "step"}, {Kind: "step", Step: 5}, {Kind: "step", Step: 7, Total: 3},
		{Kind: "step", Step: -2, Total: 3}, {Kind: "imitate", Step: 1, Total: -1}} {
		require.NotEmpty(t, show(t, true, e, e))
	}
}

type deaf struct{}

var errDeaf = errors.New("output is closed")

func (deaf) Write([]byte) (int, error) { return 0, errDeaf }

func TestConsoleReportsWhatItCannotWrite(t *testing.T) {
	for _, terminal := range []bool{false, true} {
		c := NewConsole(deaf{})
		c.terminal = terminal
		require.ErrorIs(t, c.Event(Event{Kind: "step", Step: 1, Total: 2}), errDeaf)
		require.ErrorIs(t, c.Event(Event{Kind: "validate"}), errDeaf)
	}
}
