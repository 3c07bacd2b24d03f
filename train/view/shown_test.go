package view_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/rollout"
	"vagen/rollout/store"
)

// hostile are texts that open a dialog or make an element if they are parsed as HTML.
var hostile = []string{
	`<img src=x onerror="alert(1)">`, `<script>alert(2)</script>`, `"><svg onload=alert(3)>`,
	`</script><script>alert(4)</script>`,
	`<!--<script>`, `javascript:alert(5)`, `<iframe srcdoc="<script>alert(6)</script>">`, `<style>*{display:none}</style>`,
	`{{constructor.constructor('alert(7)')()}}`, "\u2028alert(8)\u2029",
}

// shownRuns serves two runs to the page: r0 has hostile texts and an episode that was measured, r1 a name
// that is hostile, too. Both have the metrics of 40 steps.
func shownRuns(t *testing.T) (served, *trained) {
	browserPath(t)
	f, other := hostileRun(t), trainRunAs(t, hostile[0], 1)
	f.measured(t, 1, f.episodes[1][1])
	for step := 1; step <= 40; step++ {
		f.line(t, step)
		other.line(t, step)
	}
	return serveRuns(t, "", f.dir, other.dir), f
}

// shownPage is a browser for the page of shownRuns.
func shownPage(t *testing.T) (served, *trained, *tab) {
	s, f := shownRuns(t)
	return s, f, browse(t, 1280, 900, "light")
}

// line appends the metrics of a step, and of a validation after every tenth.
func (f *trained) line(t *testing.T, step int) {
	path := filepath.Join(f.dir, "metrics.jsonl")
	appendTo(t, path, fmt.Sprintf(`{"kind":"step","step":%d,"train/score":%v,"actor/entropy":%v}`+"\n", step,
		float64(step%7)/7, 1/float64(step)))
	if step%10 == 0 {
		appendTo(t, path, fmt.Sprintf(`{"kind":"validate","step":%d,"val/success":%v}`+"\n", step, float64(step)/100))
	}
}

// tenThousand adds episodes of 32 steps to the 48 that a run has.
func (f *trained) tenThousand(t *testing.T) {
	for step := 3; step < 35; step++ {
		for i := range 311 {
			e := *f.episodes[1][i%24]
			e.Group, e.Index, e.Env = i/4, i%4, []string{"frozenlake", "sokoban"}[i%2]
			f.episodes[step] = append(f.episodes[step], &e)
		}
		require.NoError(t, store.Save(filepath.Join(f.rollouts, fmt.Sprintf("step_%d.parquet", step)), step, f.episodes[step]))
	}
}

// counted is the condition that the page's list holds the episodes that a filter keeps.
func (f *trained) counted(t *testing.T, keep func(*rollout.Trajectory) bool) string {
	n, all := 0, 0
	for _, ts := range f.episodes {
		for _, e := range ts {
			if all++; keep(e) {
				n++
			}
		}
	}
	require.True(t, 0 < n && n < all, "%d of %d", n, all)
	text := fmt.Sprint(n)
	if n > 999 {
		text = text[:len(text)-3] + "," + text[len(text)-3:]
	}
	return fmt.Sprintf("document.getElementById('count').textContent === '%s episodes'", text)
}

// evil are the hostile texts in one.
var evil = strings.Join(hostile, "\n")
