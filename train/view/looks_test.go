package view_test

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// clickFirst opens the first episode of the list.
var clickFirst = chromedp.Click(chromedp.CSS(".space .row a"))

// contrast lists texts with a contrast below that of WCAG 2.2, level AA, and lines and
// controls below 3 to 1. Texts of controls that are out of use are exempt there.
const contrast = `(() => {
	const parse = (c) => { const m = c.match(/[\d.]+/g).map(Number); return m.length < 4 ? [...m, 1] : m; };
	const part = (v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
	const light = (c) => 0.2126 * part(c[0]) + 0.7152 * part(c[1]) + 0.0722 * part(c[2]);
	const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
	const under = (e) => {
		for (; e; e = e.parentElement) {
			const c = parse(getComputedStyle(e).backgroundColor);
			if (c[3] === 1) return c;
			if (c[3] > 0) throw new Error('a transparent background at ' + e.className);
		}
		return [255, 255, 255, 1];
	};
	const found = [];
	let seen = 0;
	for (const e of document.querySelectorAll('body *')) {
		const text = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
		if (!text || !e.checkVisibility() || e.closest('[aria-disabled], :disabled, option') || e.tagName === 'NOSCRIPT') continue;
		const s = getComputedStyle(e);
		const size = parseFloat(s.fontSize);
		const need = size >= 24 || size >= 18.66 && Number(s.fontWeight) >= 700 ? 3 : 4.5;
		const got = ratio(parse(e.ownerSVGElement ? s.fill : s.color), under(e));
		seen++;
		if (got < need) found.push(e.tagName + '.' + (e.className.baseVal ?? e.className) + ' "' + e.textContent.slice(0, 30) + '" ' + got.toFixed(2));
	}
	const root = getComputedStyle(document.documentElement);
	const named = (name) => root.getPropertyValue(name).trim().match(/[0-9a-f]{2}/g).map((h) => parseInt(h, 16));
	for (const name of ['--c0', '--c1', '--c2', '--c3', '--c4', '--c5', '--c6', '--c7', '--control', '--accent']) {
		for (const on of ['--panel', '--bg']) {
			const got = ratio(named(name), named(on));
			if (got < 3) found.push(name + ' on ' + on + ' ' + got.toFixed(2));
		}
	}
	return seen < 10 ? ['only ' + seen + ' texts were found'] : found;
})()`

func TestTextsAndLinesHaveContrastInBothThemes(t *testing.T) {
	s, _ := shownRuns(t)
	for _, theme := range []string{"light", "dark"} {
		b := browse(t, 1280, 900, theme)
		for _, p := range places {
			b.open(s.URL+"/"+p.hash, p.shown)
			require.Empty(t, eval[[]string](b, contrast), "%s, %s", theme, p.name)
			b.shoot(p.name + "-" + theme)
		}
		// The switch of the page overrules the system.
		other := map[string]string{"light": "dark", "dark": "light"}[theme]
		for eval[string](b, "document.documentElement.dataset.theme ?? ''") != other {
			b.keys("t")
		}
		b.open(s.URL+"/"+places[3].hash, places[3].shown)
		require.Empty(t, eval[[]string](b, contrast), "%s over %s", other, theme)
		for eval[string](b, "document.documentElement.dataset.theme ?? ''") != "" {
			b.keys("t")
		}
	}
}

// TestAPhoneShowsEveryViewWithoutScrollingSideways: 360 pixels are enough; wide tables
// scroll in themselves.
func TestAPhoneShowsEveryViewWithoutScrollingSideways(t *testing.T) {
	s, _ := shownRuns(t)
	b := browse(t, 360, 740, "light")
	for _, p := range places {
		b.open(s.URL+"/"+p.hash, p.shown)
		eval[bool](b, "(() => { for (const d of document.querySelectorAll('details')) d.open = true; return true })()")
		require.Equal(t, 360, eval[int](b, "document.documentElement.scrollWidth"), p.name)
		b.shoot(p.name + "-phone")
	}
	// Two runs are beside each other without scrolling: the difference can be seen.
	b.open(s.URL+"/#/config", ".keys mark")
	require.LessOrEqual(t, eval[float64](b,
		"Math.max(...[...document.querySelectorAll('.keys td')].map((c) => c.getBoundingClientRect().right))"), 360.0)
	require.Equal(t, eval[float64](b, "document.querySelectorAll('.keys tbody td')[0].getBoundingClientRect().top"),
		eval[float64](b, "document.querySelectorAll('.keys tbody td')[1].getBoundingClientRect().top"))
	b.keys("?")
	require.Equal(t, 360, eval[int](b, "document.documentElement.scrollWidth"), "help")
	b.quiet()
}

// TestEveryControlHasANameAndAVisibleFocus: for readers of the screen and users of the
// keyboard.
func TestEveryControlHasANameAndAVisibleFocus(t *testing.T) {
	s, _, b := shownPage(t)
	for _, p := range places {
		b.open(s.URL+"/"+p.hash, p.shown)
		require.Empty(t, eval[[]string](
			b, `[...document.querySelectorAll('a, button, input, select, [tabindex="0"], [role=img], img')]
			.filter((e) => e.checkVisibility() && !(e.getAttribute('aria-label') || e.getAttribute('alt') !== null && e.tagName === 'IMG' || e.textContent.trim() || e.closest('label')?.textContent.trim() || e.classList.contains('rows')))
			.map((e) => e.outerHTML.slice(0, 120))`), p.name)
		require.Equal(t, 1, eval[int](b, "document.querySelectorAll('main').length"))
		b.keys("\t", "\t", "\t")
		require.Equal(t, "solid", eval[string](b, "getComputedStyle(document.activeElement).outlineStyle"), p.name)
	}
}
