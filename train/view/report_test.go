package view_test

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"vagen/advantage"
	"vagen/rollout/store"
	"vagen/train/credit"
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
				e.Turns[i].Response += strings.Join(hostile, "\n")
				e.Turns[i].Observation.Text += strings.Join(hostile, "\n")
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
	require.NoError(t, os.WriteFile(path, page.Bytes(), 0o644))

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
	require.Equal(t, []string{"as recorded in training", "bi_level_gae", "grpo", "masked_gae", "turn_wise_gae"},
		eval[[]string](b, "[...document.querySelector('select[data-estimator=a]').options].map((o) => o.textContent)"), "the estimators of the report")
	b.open("file://"+path+"#/config", ".keys")
	require.Zero(t, eval[int](b, "document.querySelectorAll('iframe, object, embed, [onerror], [onload], img[src=\"x\"]').length + document.scripts.length - 2"))
	b.quiet()
	for _, r := range b.requests {
		require.Regexp(t, `^(file:///|data:image/png;base64,|about:blank)`, r)
	}
}

// TestAReportsSlidersShowWhatEstimatorsCompute: the numbers of a token and the claims of the
// turns are those of package advantage, rounded to 16 bits, for the values that the page
// names, of one parameter at a time.
func TestAReportsSlidersShowWhatEstimatorsCompute(t *testing.T) {
	f := trainRun(t, 1)
	path := filepath.Join(t.TempDir(), "report.html")
	var page bytes.Buffer
	require.NoError(t, (&view.Report{Runs: []string{f.dir}, Episodes: 2}).Write(&page))
	require.NoError(t, os.WriteFile(path, page.Bytes(), 0o644))

	e := f.episodes[1][0]
	step := &credit.Step{Config: &f.config, Episodes: f.episodes[1], Scores: f.scores[1]}
	start, _, ok := e.Rows[0].TurnAt(0)
	require.True(t, ok)
	// The tip shows four significant digits of a number with 16 bits.
	check := func(b *tab, estimator string, change func(*advantage.Params)) {
		t.Helper()
		p := f.config.Params()
		change(&p)
		got, err := step.Estimate(estimator, p)
		require.NoError(t, err)
		rows, turns := got.Episode(e.Group, e.Index)
		largest := func(x []float32) (m float64) {
			for _, y := range x {
				m = max(m, math.Abs(float64(y)))
			}
			return m
		}
		for _, c := range []struct {
			label string
			all   []float32
		}{{"advantage", rows[0].Advantages}, {"return", rows[0].Returns}} {
			text := eval[string](b, fmt.Sprintf(`[...document.querySelectorAll('#tip div')].find((d) => d.textContent.startsWith('A: %s, %s'))?.querySelector('dd').textContent`, c.label, estimator))
			shown, err := strconv.ParseFloat(strings.ReplaceAll(strings.ReplaceAll(text, "−", "-"), ",", ""), 64)
			require.NoError(t, err)
			want := float64(c.all[start])
			require.InDelta(t, want, shown, largest(c.all)/math.MaxInt16+1e-3*math.Abs(want), "%s of %s", c.label, estimator)
		}
		for i, shown := range eval[[]string](b, `[...document.querySelectorAll('.credit-turns tbody tr')].map((r) => r.querySelector('.claim').textContent)`) {
			x, err := strconv.ParseFloat(strings.ReplaceAll(strings.ReplaceAll(shown, "−", "-"), "+", ""), 64)
			require.NoError(t, err)
			require.InDelta(t, turns[i].Claim, x, 1e-2*math.Abs(turns[i].Claim)+1e-6, "claim of turn %d", i)
		}
	}
	b := browse(t, 1280, 900, "light")
	b.open("file://"+path+"#/episode?key="+fmt.Sprintf("train/1/%d-%d", e.Group, e.Index)+"&view=credit&a=bi_level_gae&b=masked_gae", ".token.filled")
	b.until("document.querySelectorAll('.figures b').length === 8")
	// hover lets the tip show the first response token after the numbers have changed.
	hover := func(was string) {
		t.Helper()
		if was != "" {
			b.until(`document.querySelector('.side[data-side=a] .figures').textContent !== ` + quote(was))
		}
		eval[bool](b, fmt.Sprintf(`(() => { document.querySelector('.side[data-side=a] .token[data-from="%d"]').dispatchEvent(new PointerEvent('pointerover', {bubbles: true})); return true })()`, start))
		b.until("!document.getElementById('tip').hidden")
	}
	figures := func() string { return b.text(".side[data-side=a] .figures") }
	hover("")
	check(b, "bi_level_gae", func(*advantage.Params) {})

	require.Contains(t, b.text(".side[data-side=a] .values"), "0 0.5 0.8 0.9 0.95 0.99 1")
	require.Regexp(t, `These numbers are 0\.\d+ MB of the file`, b.text(".side[data-side=a] .moves"))
	other := b.text(".side[data-side=b] .figures")
	was := figures()
	b.set(".side[data-side=a] input[data-param=high_level_gamma]", "1") // the second value
	hover(was)
	require.Equal(t, "0.5", eval[string](b, "document.querySelector('.side[data-side=a] input[data-param=high_level_gamma]').getAttribute('aria-valuetext')"))
	check(b, "bi_level_gae", func(p *advantage.Params) { p.TurnGamma = 0.5 })
	require.Equal(t, other, b.text(".side[data-side=b] .figures"))
	require.Contains(t, eval[string](b, "location.hash"), "a_high_level_gamma=0.5")

	eval[bool](b, "(() => { document.querySelector('.side[data-side=a] input[data-param=gamma]').focus(); return true })()")
	for _, gamma := range []float64{0.99, 0.95} {
		was = figures()
		b.keys(kb.ArrowLeft) // from 1
		hover(was)
		check(b, "bi_level_gae", func(p *advantage.Params) { p.Gamma = gamma })
	}
	require.Equal(t, "0.9", eval[string](b, "document.querySelector('.side[data-side=a] input[data-param=high_level_gamma]').getAttribute('aria-valuetext')"), "the other parameter is the run's again")

	was = figures()
	b.do(chromedp.Click(chromedp.CSS(".side[data-side=a] input[data-param=whiten]")))
	hover(was)
	check(b, "bi_level_gae", func(p *advantage.Params) { p.Whiten = !p.Whiten })

	// A link to a value that the report does not have shows the nearest one.
	b.open("file://"+path+"#/episode?key="+fmt.Sprintf("train/1/%d-%d", e.Group, e.Index)+"&view=credit&a=masked_gae&a_lam=0.77&a_gamma=0.2", ".token.filled")
	b.until("document.querySelectorAll('.figures b').length === 8")
	hover("")
	check(b, "masked_gae", func(p *advantage.Params) { p.Gamma = 0 })
	b.quiet()
}

// TestSlidersHaveABoundedSize: episodes that do not fit have the parameters of the run, and
// the page says so. Measured ones are those that fit.
func TestSlidersHaveABoundedSize(t *testing.T) {
	f := trainRun(t, 1)
	f.write(t, "credit/train/1/0-1.json", `{"step":1,"group":0,"index":1,"length":3,"turns":[],"mistake":null}`)
	full := view.Report{Runs: []string{f.dir}, Episodes: 4}
	require.NoError(t, full.Write(&bytes.Buffer{}))
	require.Positive(t, full.MovedBytes)
	defer func(n int) { *view.MaxReportMoved = n }(*view.MaxReportMoved)
	*view.MaxReportMoved = full.MovedBytes // the largest size, of which room is reserved, is larger than the real one
	path := filepath.Join(t.TempDir(), "report.html")
	var page bytes.Buffer
	small := view.Report{Runs: []string{f.dir}, Episodes: 4}
	require.NoError(t, small.Write(&page))
	require.NoError(t, os.WriteFile(path, page.Bytes(), 0o644))
	require.Positive(t, small.MovedBytes)
	require.Less(t, small.MovedBytes, full.MovedBytes)

	b := browse(t, 1280, 900, "light")
	b.open("file://"+path+"#/episode?key=train/1/0-1&view=credit&a=bi_level_gae", ".token.filled")
	require.False(t, eval[bool](b, "document.querySelector('.side[data-side=a] input[data-param=gamma]').disabled"), "the measured episode")
	without := 0
	for _, e := range f.episodes[1] {
		key := fmt.Sprintf("train/1/%d-%d", e.Group, e.Index)
		if !strings.Contains(page.String(), `"`+key+`"`) {
			continue // not in the sample
		}
		b.open("file://"+path+"#/episode?key="+key+"&view=credit&a=bi_level_gae&a_gamma=0.5", ".token.filled")
		if eval[bool](b, "document.querySelector('.side[data-side=a] input[data-param=gamma]').disabled") {
			without++
			require.Contains(t, b.text(".side[data-side=a] .moves"), "only with the parameters of the run")
			require.Equal(t, "1", b.text(".side[data-side=a] .slider output"), "not the value of the address")
		}
	}
	require.Positive(t, without)
	b.quiet()
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

// TestTheRealServerShowsARunInTheBrowser: the page against the server itself, while lines
// are appended to metrics.jsonl.
func TestTheRealServerShowsARunInTheBrowser(t *testing.T) {
	f := hostileRun(t)
	s := serveRuns(t, "", f.dir)
	b := browse(t, 1280, 900, "light")
	b.open(s.URL+"/#/metrics?names=train/score", ".chart path")
	b.until("document.getElementById('live').dataset.state === 'events'")
	log, err := os.OpenFile(filepath.Join(f.dir, "metrics.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = log.WriteString("{\"kind\":\"step\",\"step\":3,\"train/score\":0.5}\n{\"kind\":\"step\",\"step\":4,\"train/sc")
	require.NoError(t, err)
	b.until("document.querySelector('.legend').textContent.includes('0.5 step 3')")
	b.until("document.querySelector('.problems')?.textContent.includes('not complete')")
	_, err = log.WriteString("ore\":0.75}\n")
	require.NoError(t, err)
	require.NoError(t, log.Close())
	b.until("document.querySelector('.legend').textContent.includes('0.75 step 4')")

	b.open(s.URL+"/#/episodes?run=r0&kind=train", ".space .row a")
	b.do(clickFirst)
	b.until("document.querySelector('.turn .response')")
	for _, text := range hostile {
		require.Contains(t, b.text(".turn .response"), text)
	}
	b.keys("c")
	b.until("document.querySelector('.token.filled')")
	claims := `[...document.querySelectorAll('.credit-turns td.claim')].map((c) => c.textContent).join(' ')`
	b.set("select[data-estimator=b]", "bi_level_gae")
	b.until("document.querySelectorAll('.figures b').length === 8")
	before := eval[string](b, claims)
	b.set(".side[data-side=b] input[data-param=high_level_gamma]", "0.1")
	b.until(claims + " !== " + quote(before))
	b.open(s.URL+"/#/config", ".keys")
	require.Zero(t, eval[int](b, "document.querySelectorAll('iframe, object, embed, [onerror], [onload], img[src=\"x\"]').length"))
	b.quiet()
}
