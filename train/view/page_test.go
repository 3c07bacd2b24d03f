package view_test

import (
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"vagen/rollout"
	"vagen/rollout/store"
)

// places are addresses of every view, each with an element that it shows when it is drawn.
var places = []struct{ name, hash, shown string }{
	{"metrics", "#/metrics?smooth=0.6", ".chart path"},
	{"episodes", "#/episodes?run=r0", ".space .row a"},
	{"episode", "#/episode?run=r0&key=train/1/0-1", ".turn"},
	{"credit", "#/episode?run=r0&key=train/1/0-1&view=credit", ".token.filled"},
	{"config", "#/config?only=0", ".keys"},
}

// TestThePageIsSmallAndNeverParsesHTML: the page has no framework, and no call that makes
// elements or code of a text.
func TestThePageIsSmallAndNeverParsesHTML(t *testing.T) {
	static := os.DirFS("static")
	size := 0
	require.NoError(t, fs.WalkDir(static, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := fs.ReadFile(static, path)
		size += len(raw)
		require.NotRegexp(t, regexp.MustCompile(
			`innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|srcdoc|\beval\(|new Function| style=|setAttribute\('style|https?://`), strings.ReplaceAll(string(raw), "http://www.w3.org/2000/svg", ""), path)
		return err
	}))
	require.Less(t, size, 200_000, "bytes of the page")
}

// made counts the elements that hostile texts make if they are parsed.
const made = "document.querySelectorAll('iframe, object, embed, style, [onerror], [onload], img[src=\"x\"], a[href^=\"javascript\"]').length + document.scripts.length - 1"

// TestEveryViewLoadsWithoutAComplaint: no error of the console, no violation of the
// content security policy, no request to another server, and no element that hostile texts make.
func TestEveryViewLoadsWithoutAComplaint(t *testing.T) {
	s, _, b := shownPage(t)
	for _, p := range places {
		b.open(s.URL+"/"+p.hash, p.shown)
		require.Equal(t, "vagen view", b.text("title")[len(b.text("title"))-len("vagen view"):])
		eval[bool](b, "(() => { for (const d of document.querySelectorAll('details')) d.open = true; return true })()")
		require.Zero(t, eval[int](b, made), p.name)
	}
	b.quiet()
	for _, r := range b.requests {
		require.True(t, strings.HasPrefix(r, s.URL) || r == "about:blank", r)
	}
}

// TestTenThousandEpisodesAreAFewElements: filters narrow the list, of which only visible rows are elements,
// and the last episode is reached by scrolling.
func TestTenThousandEpisodesAreAFewElements(t *testing.T) {
	s, f, b := shownPage(t)
	f.tenThousand(t)
	b.open(s.URL+"/#/episodes?run=r0", ".space .row a")
	require.Equal(t, "10,000 episodes", b.text("#count"))
	b.set("#f-success", "false")
	b.until(f.counted(t, func(e *rollout.Trajectory) bool { return !e.Success }))
	b.until(`![...document.querySelectorAll('.space .row')].some((r) => r.textContent.includes('success'))`)
	b.set("#f-env", "sokoban")
	lost := func(e *rollout.Trajectory) bool { return !e.Success && e.Env == "sokoban" }
	b.until(f.counted(t, lost))
	b.set("#f-min", "1.2")
	b.until(f.counted(t, func(e *rollout.Trajectory) bool { return lost(e) && e.Return() >= 1.2 }))
	b.until(`[...document.querySelectorAll('.space .reward')].every((r) => Number(r.textContent) >= 1.2)`)
	require.Contains(t, eval[string](b, "location.hash"), "success=false&env=sokoban&min=1.2")
	b.set("#f-text", "no episode says this")
	b.until(`document.querySelector('.notice')?.textContent === 'No episode matches the filters.'`)

	before := len(b.requests)
	b.open(s.URL+"/#/episodes?run=r0", ".space .row a")
	require.Less(t, eval[int](b, "document.querySelectorAll('*').length"), 700)
	eval[bool](b, "(() => { const r = document.querySelector('.rows'); r.scrollTop = r.scrollHeight; return true })()")
	b.until(`document.querySelector('.row[data-at="9999"] a')?.textContent === 'train/34/77-2'`)
	require.Less(t, eval[int](b, "document.querySelectorAll('*').length"), 700)
	require.Less(t, len(b.requests)-before, 40, "pages of the list are asked for when they are seen")
	b.quiet()
}

func TestKeysLeadThroughThePage(t *testing.T) {
	s, _, b := shownPage(t)
	b.open(s.URL+"/", ".chart path")
	b.keys("2")
	b.until("document.querySelector('.row.at')")
	b.keys("j", kb.ArrowDown, "k")
	b.until(`document.querySelector('.row.at')?.dataset.at === '1'`)
	b.keys(kb.Enter)
	b.until(`document.querySelector('.turn.at')?.dataset.turn === '0'`)
	b.until("document.querySelector('.turn img')?.naturalWidth > 0")
	b.keys(kb.ArrowRight)
	b.until(`document.activeElement.dataset.turn === '1'`)
	require.Contains(t, eval[string](b, "location.hash"), "turn=1")
	b.until(`document.querySelector('.steps').textContent.includes('2 of 48')`)
	b.keys("]")
	b.until(`document.querySelector('.episode-title h2')?.textContent === 'train/1/0-2'`)
	b.until(`document.querySelector('.steps').textContent.includes('3 of 48')`)
	b.keys("c")
	b.until("document.querySelector('.token.filled')")
	b.keys(kb.Escape)
	b.until(`document.querySelector('.row.at')?.dataset.at === '2'`)
	b.keys("/")
	b.until(`document.activeElement.id === 'f-text'`)
	eval[string](b, "document.activeElement.value = ''") // the driver types the character even if its key is handled
	b.keys("2")
	require.Equal(t, "2", eval[string](b, "document.getElementById('f-text').value"),
		"keys typed into a field are its text")
	b.keys(kb.Escape, "?")
	b.until("document.getElementById('keys').open")
	b.keys("?")
	b.until("!document.getElementById('keys').open")
	b.keys("t")
	b.until("document.documentElement.dataset.theme === 'dark'")
	b.keys("3")
	b.until("document.querySelector('.keys')")
	b.quiet()
}

// TestMovingGammaChangesTheNumbers: estimators are switched, and recomputed when a
// parameter moves.
func TestMovingGammaChangesTheNumbers(t *testing.T) {
	s, _, b := shownPage(t)
	b.open(s.URL+"/#/episode?run=r0&key=train/1/0-1&view=credit", ".token.filled")
	figures := func(side string) string { return b.text(".side[data-side=" + side + "] .figures") }
	before, other, claim := figures("a"), figures("b"), b.text(".credit-turns td.claim")
	color := eval[string](b, "document.querySelector('.side[data-side=a] .token.filled').style.backgroundColor")
	eval[bool](b, "(() => { document.querySelector('.side[data-side=a] input[data-param=gamma]').focus(); return true })()")
	b.keys(strings.Repeat(kb.ArrowLeft, 40))
	b.until("document.querySelector('.credit-turns td.claim').textContent !== " + strconv.Quote(claim))
	require.NotEqual(t, before, figures("a"))
	require.Equal(t, other, figures("b"), "the parameter is one of estimator A")
	require.NotEqual(t, color, eval[string](b,
		"document.querySelector('.side[data-side=a] .token.filled').style.backgroundColor"))
	require.Contains(t, eval[string](b, "location.hash"), "a_gamma=0.8")

	b.set("select[data-estimator=b]", "bi_level_gae")
	b.until(`document.querySelectorAll('.credit-turns td.claim')[1].textContent === ` + strconv.Quote(claim))
	b.set("select[data-estimator=b]", "optimal_token_baseline")
	b.until(`document.querySelector('.side[data-side=b] .problem')?.textContent`)
	b.set("select[data-estimator=b]", "hgpo")
	b.until("document.querySelector('.side[data-side=b] input[data-param=history_length]')")
	require.Equal(t, "checkbox range 1", eval[string](b, `(() => {
		const of = (name) => document.querySelector('.side[data-side=b] input[data-param=' + name + ']');
		return [of('base_group').type, of('history_length').type, of('history_length').step].join(' ') })()`),
		"a flag and a whole number have controls of their kind")
	b.set("select[data-estimator=b]", "recorded")
	b.until(`document.querySelector('.side[data-side=b] .figures')?.textContent.includes('mean')`)
	b.set("#color", "entropy")
	b.until(`document.querySelector('.side[data-side=b]').hidden && document.querySelector('.figures').textContent.startsWith('entropy')`)
	b.quiet()
}

// TestChartsDrawWhatSmoothingMakes: on a log scale means may be negative where the value is positive, and means of a
// constant may differ by rounding.
func TestChartsDrawWhatSmoothingMakes(t *testing.T) {
	s, _, b := shownPage(t)
	b.open(s.URL+"/#/metrics?names=train/score", ".chart path")
	require.NotContains(t, eval[string](b, `(() => { const c = document.querySelector('.chart').chart;
		c.set([{ label: 'a', slot: 0, points: [[1, -5], [2, 1], [3, 20], [4, 30]] }], { smooth: 0.5, log: true });
		return [...c.plot.querySelectorAll('path')].map((p) => p.getAttribute('d')).join(' ') })()`), "NaN")
	require.Positive(t, eval[int](b, `(() => { const c = document.querySelector('.chart').chart;
		c.set([{ label: 'a', slot: 0, points: [[1, 0.1], [2, 0.1 + 1.4e-17]] }], { smooth: 0, log: false });
		return c.plot.querySelectorAll('.grid').length })()`))
	b.quiet()
}

// TestATokenShowsItsNumbers: under the pointer and with the focus of the keyboard.
func TestATokenShowsItsNumbers(t *testing.T) {
	s, _, b := shownPage(t)
	b.open(s.URL+"/#/episode?run=r0&key=train/1/0-1&view=credit", ".token.filled")
	b.until("document.querySelectorAll('.figures b').length === 8") // both estimators are computed
	require.True(t, eval[bool](b, "document.getElementById('tip').hidden"))
	eval[bool](b, "(() => { document.querySelector('.side[data-side=b] .token.filled').dispatchEvent(new PointerEvent('pointerover', {bubbles: true})); return true })()")
	b.until("!document.getElementById('tip').hidden")
	require.Regexp(t, `position4.*turn1.*loss mask1.*entropy1\.\d+.*A: advantage, bi_level_gae.*B: advantage, masked_gae`,
		b.text("#tip"))
	require.Equal(t, 2, eval[int](b, "document.querySelectorAll('.token.marked').length"),
		"the token is marked in both panels")
	eval[bool](b, "(() => { document.querySelector('.side[data-side=a] .token[tabindex=\"0\"]').focus(); return true })()")
	b.keys(kb.ArrowRight)
	b.until(`document.getElementById('tip').textContent.includes('position5')`)
	require.Equal(t, "tip", eval[string](b, "document.activeElement.getAttribute('aria-describedby')"))
	require.Contains(t, eval[string](b, "document.activeElement.getAttribute('aria-label')"), "advantage")
	require.Contains(t, b.text(".verdict"), "Turn 2 was the mistake.")
	b.quiet()
}

// TestADeepLinkRestoresTheView: the address of a view, opened anew, shows the same.
func TestADeepLinkRestoresTheView(t *testing.T) {
	s, f, b := shownPage(t)
	f.tenThousand(t)
	b.open(s.URL+"/#/episode?run=r0&key=train/1/0-1&view=credit&color=return&a=masked_gae&b=bi_level_gae&gamma=0.5&scale=own",
		".token.filled")
	state := `JSON.stringify([document.querySelector('h2').textContent, document.getElementById('color').value, document.getElementById('common').checked,
		[...document.querySelectorAll('select[data-estimator]')].map((s) => s.value), [...document.querySelectorAll('input[data-param]')].map((i) => i.value), [...document.querySelectorAll('.figures')].map((p) => p.textContent)])`
	b.until(`document.querySelectorAll('.figures b').length === 8`)
	want := eval[string](b, state)
	require.Contains(t, want, `["train/1/0-1","return",false,["masked_gae","bi_level_gae"],["0.5",`)
	b.set("#color", "advantage") // the address is written in full
	b.set("#color", "return")
	again := browse(t, 1280, 900, "light")
	again.open(s.URL+"/"+eval[string](b, "location.hash"), ".token.filled")
	again.until(`document.querySelectorAll('.figures b').length === 8`)
	require.Equal(t, want, eval[string](again, state))

	// An episode that is far down the list has those of its step as neighbours.
	b.open(s.URL+"/#/episode?run=r0&key=train/34/30-0", ".turn")
	b.until(`document.querySelector('.steps').textContent.includes('121 of 311')`)
	b.keys("]")
	b.until(`document.querySelector('.episode-title h2')?.textContent === 'train/34/30-1'`)
	b.until(`document.querySelector('.steps').textContent.includes('122 of 311')`)
	b.keys(kb.Escape)
	b.until(`document.querySelector('.row.at')?.dataset.at === '121'`)

	b.open(s.URL+"/#/metrics?runs=r1&names=actor/entropy,val/success&smooth=0.5&log=1", ".chart path")
	require.Equal(t, `["actor/entropy","val/success"] ["r1"] 0.50 true`,
		eval[string](b, `JSON.stringify([...document.querySelectorAll('.chart')].map((c) => c.dataset.metric)) + ' ' +
		JSON.stringify([...document.querySelectorAll('.run input')].map((i, n) => i.checked ? 'r' + n : null).filter(Boolean)) + ' ' + document.querySelector('.slider output').value + ' ' + document.getElementById('log').checked`))
	b.open(s.URL+"/#/episodes?run=r1&success=false&order=-reward&at=7", ".row.at a")
	require.Equal(t, "r1 false -reward 7",
		eval[string](b, `['f-run', 'f-success', 'f-order'].map((id) => document.getElementById(id).value).join(' ') + ' ' + document.querySelector('.row.at').dataset.at`))
	b.quiet()
}

// TestNewLinesAppearWhileARunIsWritten, and its new episodes: by the server's events, also a line that is not complete
// at first, in a page that is loaded once.
func TestNewLinesAppearWhileARunIsWritten(t *testing.T) {
	s, f, b := shownPage(t)
	b.open(s.URL+"/#/metrics?names=train/score", ".chart path")
	b.until("document.getElementById('live').dataset.state === 'events'")
	eval[bool](b, "(window.loadedOnce = true)")
	path := filepath.Join(f.dir, "metrics.jsonl")
	appendTo(t, path, `{"kind":"step","step":41,"train/score":0.5}`+"\n"+`{"kind":"step","step":42,"train/sc`)
	b.until("document.querySelector('.legend').textContent.includes('0.5 step 41')")
	b.until("document.querySelector('.problems')?.textContent.includes('not complete')")
	appendTo(t, path, `ore":0.75}`+"\n")
	b.until("document.querySelector('.legend').textContent.includes('0.75 step 42')")
	b.keys("2")
	b.until("document.getElementById('count')?.textContent === '48 episodes'")
	require.NoError(t, store.Save(filepath.Join(f.rollouts, "step_3.parquet"), 3, f.episodes[1][:8]))
	b.until("document.getElementById('count').textContent === '56 episodes, 8 new'")
	require.True(t, eval[bool](b, "window.loadedOnce === true"), "the page was not loaded again")
	b.quiet()
}

// TestNewLinesAppearByPolling where the server's events cannot be read.
func TestNewLinesAppearByPolling(t *testing.T) {
	_, f := shownRuns(t)
	h := handlerOf(t, "", f.dir)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/events" {
			http.Error(w, "no events here", http.StatusServiceUnavailable)
			return
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	b := browse(t, 1280, 900, "light")
	b.hurry()
	b.open(s.URL+"/#/metrics?names=val/success", ".chart path")
	b.until("document.getElementById('live').dataset.state === 'polling'")
	require.Contains(t, b.text(".legend"), "step 40")
	for step := 41; step <= 65; step++ {
		f.line(t, step)
	}
	b.until("document.querySelector('.legend').textContent.includes('step 60')")
	require.Equal(t, 6, eval[int](b, "document.querySelector('.chart').chart.lines[0].points.length"), "each value once")
	b.until("document.querySelector('.run').textContent.includes('65 steps')")
	b.open(s.URL+"/#/episodes?run=r0", ".space .row a")
	b.until("document.getElementById('live').textContent.startsWith('live')")
	require.NoError(t, store.Save(filepath.Join(f.rollouts, "step_3.parquet"), 3, f.episodes[1][:8]))
	f.line(t, 66)
	b.until("document.getElementById('count').textContent === '56 episodes, 8 new'")
}

// TestHostileTextsStayTexts: markup and scripts in names, prompts, observations and
// responses make no element, run nothing and open no dialog.
func TestHostileTextsStayTexts(t *testing.T) {
	s, _, b := shownPage(t)
	b.open(s.URL+"/"+places[2].hash, ".turn")
	for _, text := range hostile {
		require.True(t, eval[bool](b, fmt.Sprintf("document.querySelectorAll('.response')[0].textContent.includes(%q)",
			text)), "%q is shown as it is", text)
		require.True(t, eval[bool](b, fmt.Sprintf("document.querySelectorAll('.observation')[0].textContent.includes(%q)",
			text)), "%q is shown as it is", text)
	}
	for i, text := range hostile {
		escaped := url.QueryEscape(text)
		episode := "#/episode?__proto__=1&constructor=2&run=" + escaped + "&key=" + escaped + "&view=" + escaped
		if i == 0 { // the others are reached from a page that is open, which reads an address in the same way
			b.open(s.URL+"/"+episode, ".notice")
			b.open(s.URL+"/#/"+url.QueryEscape(text), ".notice")
		}
		b.follow(episode, ".notice")
		b.follow("#/"+url.QueryEscape(text), ".notice")
	}
	require.Zero(t, eval[int](b, made))
	require.Empty(t, slices.DeleteFunc(b.said(), func(s string) bool {
		return strings.HasPrefix(s, "log: Failed to load resource") // an episode that does not exist
	}))
}
