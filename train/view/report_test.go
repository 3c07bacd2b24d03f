package view_test

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/rollout"
	"vagen/rollout/store"
	"vagen/train/view"
)

// hostileRun is a run whose responses, observations and name would do harm if they were
// parsed.
func hostileRun(t *testing.T) *trained {
	f := trainRun(t, 2)
	gallery, err := store.OpenGallery(f.rollouts, store.GalleryOptions{})
	require.NoError(t, err)
	for step, ts := range f.episodes {
		for _, e := range ts {
			for i := range e.Turns {
				e.Turns[i].Response += evil
				e.Turns[i].Observation.Text += evil
			}
		}
		name := map[int]string{1: "step_1.parquet", 2: "step_2.parquet"}[step]
		require.NoError(t, os.Remove(filepath.Join(f.rollouts, name)))
		require.NoError(t, gallery.Save(name, step, ts))
	}
	return f
}

// TestAReportOpensWithoutAServerAndANetwork: it is one file that shows metrics, episodes,
// images and credit, and makes no request. Texts in it stay texts.
func TestAReportOpensWithoutAServerAndANetwork(t *testing.T) {
	f := hostileRun(t)
	path := filepath.Join(t.TempDir(), "report.html")
	var page bytes.Buffer
	require.NoError(t, (&view.Report{Runs: []string{f.dir}, Episodes: 3}).Write(&page))
	require.Equal(t, 2, strings.Count(page.String(), "</script"), "texts end no script")
	require.NotContains(t, page.String(), "<!--")
	testkit.Write(t, path, page.Bytes())

	b := browse(t, 1280, 900, "light")
	b.open("file://"+path+"#/metrics?q=train/score", ".chart path")
	require.Equal(t, "report", b.text("#live"))
	b.open("file://"+path+"#/episodes", ".space .row a")
	require.Equal(t, 3, eval[int](b, "document.querySelectorAll('.space .row').length"))
	require.Regexp(t, `^3 episodes in this report, which holds a sample of \d+$`, b.text("#count"))
	b.set("#f-text", "no episode says this")
	b.until("document.querySelector('.notice')")
	b.set("#f-text", "onerror")
	b.until("document.querySelectorAll('.space .row').length === 3")
	b.do(clickFirst)
	b.until("document.querySelector('.turn .response')")
	for _, text := range hostile {
		require.Contains(t, b.text(".turn .response"), text)
	}
	b.until("document.querySelector('.pictures img')?.naturalWidth > 0")
	b.keys("c")
	b.until("document.querySelector('.token.filled')")
	require.Equal(
		t,
		[]string{"as recorded in training", "bi_level_gae", "grpo", "masked_gae", "turn_wise_gae"},
		eval[[]string](
			b, "[...document.querySelector('select[data-estimator=a]').options].map((o) => o.textContent)",
		),
		"the estimators of the report",
	)
	require.True(
		t, eval[bool](b, "document.querySelector('.side[data-side=a] input[data-param]').disabled"),
		"only with the run's parameters",
	)
	b.open("file://"+path+"#/config", ".keys")
	require.Zero(t, eval[int](b, "document.querySelectorAll('iframe, object, embed, [onerror], [onload], img[src=\"x\"]').length + document.scripts.length - 2"))
	b.quiet()
	for _, r := range b.requests {
		require.Regexp(t, `^(file:///|data:image/png;base64,|about:blank)`, r)
	}
}

// TestAnUnreadableEpisodeIsAProblemOfTheReport: the list reads less of it. The rest is shown.
func TestAnUnreadableEpisodeIsAProblemOfTheReport(t *testing.T) {
	f := trainRun(t, 1)
	bad := &rollout.Trajectory{Episode: rollout.Episode{Env: "x"}, End: rollout.EndDone, Turns: []rollout.Turn{{Row: 7}}}
	require.NoError(t, store.Save(filepath.Join(f.rollouts, "step_2.parquet"), 2, []*rollout.Trajectory{bad}))
	var page bytes.Buffer
	require.NoError(t, (&view.Report{Runs: []string{f.dir}, Episodes: 500}).Write(&page))
	require.Contains(t, page.String(), "its row index is 7")
	require.Contains(t, page.String(), f.episodes[1][0].Turns[0].Response)
}

// TestAReportRefusesWhatItCannotShow: folders that are not runs, and a number of episodes
// that is too large for a browser.
func TestAReportRefusesWhatItCannotShow(t *testing.T) {
	err := (&view.Report{Runs: []string{t.TempDir()}, Episodes: 1}).Write(&bytes.Buffer{})
	require.ErrorIs(t, err, view.ErrRun)
	for _, n := range []int{-1, view.MaxReportEpisodes + 1} {
		err = (&view.Report{Runs: []string{t.TempDir()}, Episodes: n}).Write(&bytes.Buffer{})
		require.ErrorContains(t, err, "view: report: episodes:")
		require.ErrorContains(t, err, "not in [0, 500]")
	}
}

// TestCurvesAreThoseOfTheMetrics: values that are not finite are NaN.
func TestCurvesAreThoseOfTheMetrics(t *testing.T) {
	f := trainRun(t, 1)
	f.write(t, "metrics.jsonl", event(1, "1")+event(2, "null")+event(3, "0.5"))
	curves, err := (&view.Report{Runs: []string{f.dir}}).Curves()
	require.NoError(t, err)
	require.Len(t, curves, 1)
	require.Equal(t, "run", curves[0].Run)
	a := curves[0].Series["a"]
	require.Len(t, a, 3)
	require.Equal(t, [][2]float64{{1, 1}, {3, 0.5}}, [][2]float64{a[0], a[2]})
	require.True(t, math.IsNaN(a[1][1]))
}
