package draw

import (
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
)

const side = 128

// doc wraps shapes into a document of 64 by 64 units, drawn on 128 pixels.
func doc(body string) string {
	return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64">` + body + `</svg>`
}

func paintDoc(t *testing.T, code string) *image.RGBA {
	t.Helper()
	img, err := Render(t.Context(), code, side, DefaultLimits())
	require.NoError(t, err, code)
	return img
}

// inked is the area that is not white, in user units, by how dark it is.
func inked(img *image.RGBA) float64 {
	sum := 0.0
	for i := 0; i < len(img.Pix); i += 4 {
		sum += float64(255-img.Pix[i]) / 255
	}
	return sum / 4 // four pixels to a square unit
}

func at(img *image.RGBA, x, y float64) color.RGBA { return img.RGBAAt(int(x*2), int(y*2)) }

// Areas are known exactly. Flattened curves lie at most 0.025 pixels inside, lines
// of coverage are cut into 16: a tenth of a percent and a small part of the
// boundary.
func TestAreasAreRight(t *testing.T) {
	for body, want := range map[string]float64{
		`<rect x="3.3" y="4.7" width="20.9" height="30.1"/>`:                                                               20.9 * 30.1,
		`<circle cx="32" cy="32" r="20"/>`:                                                                                 math.Pi * 400,
		`<ellipse cx="32" cy="32" rx="25" ry="7" transform="rotate(33 32 32)"/>`:                                           math.Pi * 175,
		`<polygon points="4,60 60,60 32,4"/>`:                                                                              56 * 56 / 2,
		`<path d="M10 10h30v20h-30z"/>`:                                                                                    600,
		`<path d="M12 32 A20 20 0 0 1 52 32 Z"/>`:                                                                          math.Pi * 200,
		`<path d="M12 32a20,20,0,1140,0z"/>`:                                                                               math.Pi * 200,
		`<path d="M4 32 Q32 -24 60 32 z"/>`:                                                                                2.0 / 3 * 56 * 28,
		`<rect x="8" y="8" width="40" height="40" rx="10"/>`:                                                               1600 - (4-math.Pi)*100,
		`<line x1="8" y1="32" x2="56" y2="32" stroke="black" stroke-width="5"/>`:                                           48 * 5,
		`<path d="M8 32H56" stroke="black" stroke-width="6" stroke-linecap="square"/>`:                                     54 * 6,
		`<path d="M12 32H52" stroke="black" stroke-width="10" stroke-linecap="round"/>`:                                    400 + math.Pi*25,
		`<circle cx="32" cy="32" r="20" fill="none" stroke="black" stroke-width="4"/>`:                                     math.Pi * (22*22 - 18*18),
		`<path d="M4 32H60" stroke="black" stroke-width="4" stroke-dasharray="5 3"/>`:                                      7 * 5 * 4,
		`<path d="M4 32H60" stroke="black" stroke-width="4" stroke-dasharray="4"/>`:                                        7 * 4 * 4,
		`<path d="M10 10V50H50" fill="none" stroke="black" stroke-width="4"/>`:                                             40*4 + 40*4,
		`<path d="M10 10V50H50" fill="none" stroke="black" stroke-width="4" stroke-linejoin="bevel"/>`:                     40*4 + 40*4 - 2,
		`<path d="M10 10V50H50" fill="none" stroke="black" stroke-width="4" stroke-linejoin="round"/>`:                     40*4 + 40*4 - 4 + math.Pi,
		`<path d="M10 10H50V50H10Z" fill="none" stroke="black" stroke-width="4"/>`:                                         44*44 - 36*36,
		`<path d="M20 20h0" stroke="black" stroke-width="10" stroke-linecap="round"/>`:                                     math.Pi * 25,
		`<path fill-rule="evenodd" d="M4 4H60V60H4Z M20 20H40V40H20Z"/>`:                                                   56*56 - 400,
		`<path d="M4 4H60V60H4Z M20 20H40V40H20Z"/>`:                                                                       56 * 56,
		`<path d="M4 4H60V60H4Z M20 20V40H40V20Z"/>`:                                                                       56*56 - 400,
		`<rect x="-50" y="-50" width="500" height="82"/>`:                                                                  64 * 32,
		`<g transform="translate(10 10) scale(2 .5)"><rect width="10" height="20"/></g>`:                                   200,
		`<g transform="matrix(1 0 1 1 0 0)"><rect width="10" height="20"/></g>`:                                            200,
		`<g transform="skewX(45)"><rect width="10" height="20"/></g>`:                                                      200,
		`<rect width="50%" height="25%"/>`:                                                                                 512,
		`<rect width="20" height="20" opacity=".4"/>`:                                                                      160,
		`<rect width="20" height="20" fill-opacity="25%"/>`:                                                                100,
		`<g opacity=".6"><rect width="20" height="20"/><rect width="20" height="20"/></g>`:                                 240,
		`<rect width="20" height="20" fill="none"/><rect width="9" height="0"/>`:                                           0,
		`<rect width="20" height="20" display="none"/><g visibility="hidden"><circle r="9"/></g>`:                          0,
		`<svg x="10" y="10" width="40" height="20" viewBox="0 0 10 10"><rect width="10" height="10"/></svg>`:               400,
		`<symbol id="s" viewBox="0 0 10 10"><rect width="10" height="5"/></symbol><use href="#s" width="20" height="20"/>`: 200,
		`<clipPath id="c"><rect width="20" height="20"/></clipPath><rect width="64" height="10" clip-path="url(#c)"/>`:     200,
		`<clipPath id="c" clipPathUnits="objectBoundingBox"><rect width=".5" height=".5"/></clipPath><rect x="8" y="8" width="20" height="20" clip-path="url('#c')"/>`: 100,
		`<defs><rect id="a" width="10" height="10"/></defs><use xlink:href="#a"/><use href="#a" x="30" transform="scale(.5)"/>`:                                        125,
		`<switch><rect width="10" height="10"/><rect width="64" height="64"/></switch>`:                                                                                100,
		`<filter id="f"/><mask id="m"/><title>t</title><metadata><rect width="64" height="64"/></metadata>`:                                                            0,
	} {
		got := inked(paintDoc(t, doc(body)))
		require.InDelta(t, want, got, 0.003*want+0.3, "%s", body)
	}
}

func TestPaintsAreRight(t *testing.T) {
	for _, c := range golden.Table[[]struct {
		Body string
		At   [2]float64
		Want [4]float64
	}](t, "paints.yaml") {
		got := at(paintDoc(t, doc(c.Body)), c.At[0], c.At[1])
		for i, v := range []uint8{got.R, got.G, got.B, got.A} {
			require.InDelta(t, c.Want[i], float64(v), 2, "%s: %v, want %v", c.Body, got, c.Want)
		}
	}
}

func TestDocumentsAreFittedIntoThePicture(t *testing.T) {
	for head, want := range map[string][4]float64{ // box of the ink in pixels
		`viewBox="0 0 100 50"`:                                     {0, 32, 128, 96},
		`viewBox="0 0 100 50" preserveAspectRatio="xMidYMin"`:      {0, 0, 128, 64},
		`viewBox="0 0 100 50" preserveAspectRatio="xMaxYMax meet"`: {0, 64, 128, 128},
		`viewBox="0 0 100 50" preserveAspectRatio="none"`:          {0, 0, 128, 128},
		`viewBox="-100,-50 200 100"`:                               {64, 64, 128, 96},
		`width="100" height="50"`:                                  {0, 32, 128, 96},
		`width="100" height="50" viewBox="0 0 200 100"`:            {0, 32, 64, 64},
	} {
		img := paintDoc(t, `<svg `+head+`><rect width="100" height="50"/></svg>`)
		box := [4]float64{side, side, 0, 0}
		for y := range side {
			for x := range side {
				if img.RGBAAt(x, y).R < 128 {
					box = [4]float64{min(box[0], float64(x)), min(box[1], float64(y)), max(box[2], float64(x+1)),
						max(box[3], float64(y+1))}
				}
			}
		}
		require.Equal(t, want, box, head)
	}
}

func TestTextIsDrawn(t *testing.T) {
	plain := inked(paintDoc(t, doc(`<text x="4" y="40" font-size="20">Ink</text>`)))
	require.Greater(t, plain, 30.0)
	require.Greater(t, inked(paintDoc(t, doc(`<text x="4" y="40" font-size="20" font-weight="bold">Ink</text>`))),
		1.1*plain)
	require.InDelta(t, 4*plain, inked(paintDoc(t, doc(`<text x="2" y="50" font-size="40">Ink</text>`))), 0.02*4*plain)
	require.InDelta(t, plain, inked(paintDoc(t,
		doc(`<text x="4" y="40" font-size="20">I<tspan>n</tspan><tspan x="30" y="60">k</tspan></text>`))), 0.02*plain)
	middle := paintDoc(t, doc(`<text x="32" y="40" font-size="20" text-anchor="middle">ooo</text>`))
	left, right := 0.0, 0.0
	for i := range middle.Pix {
		if x := i / 4 % side; i%4 == 0 && x < side/2 {
			left += float64(255 - middle.Pix[i])
		} else if i%4 == 0 {
			right += float64(255 - middle.Pix[i])
		}
	}
	require.InDelta(t, left, right, 0.05*left)
}

// Code that no decent program writes ends in an error or a picture, soon.
func TestHostileCodeIsBounded(t *testing.T) {
	uses := `<g id="a0"><rect width="1" height="1"/></g>`
	for i := range 40 {
		uses += fmt.Sprintf(`<g id="a%d"><use href="#a%d"/><use href="#a%d"/></g>`, i+1, i, i)
	}
	limits := DefaultLimits()
	limits.Work /= 10 // soon under the race detector, too
	long := "M0 0" + strings.Repeat("h1v1", 9000)
	spaces := strings.Repeat(" ", 200_000)
	gradient := func(spread string) string {
		return doc(`<linearGradient id="g" gradientUnits="userSpaceOnUse" spreadMethod="` + spread +
			`" x2="0" y2="1e-150" gradientTransform="matrix(1e200 0 0 1e-210 0 0)">` +
			`<stop stop-color="red"/></linearGradient><rect width="9" height="9" fill="url(#g)"/>`)
	}
	for name, c := range map[string]struct {
		code string
		want error
	}{
		"nothing":         {"", ErrSyntax},
		"no svg":          {"<p>hello</p>", ErrSyntax},
		"too long":        {strings.Repeat(" ", 1<<20), ErrLimit},
		"deep":            {strings.Repeat("<svg><g>", 10_000), ErrLimit},
		"wide":            {doc(strings.Repeat("<g/>", 20_000)), ErrLimit},
		"use bomb":        {doc(uses), ErrLimit},
		"many attributes": {doc("<g " + strings.Repeat(`a="" `, 1000) + "/>"), ErrLimit},
		"much work": {doc(strings.Repeat(`<path d="`+strings.Repeat("M0 0L64 64L0 64L64 0z", 200)+`"/>`, 50)),
			ErrLimit},
		"layers": {doc(strings.Repeat(`<g opacity=".5"/>`, 9000)), ErrLimit},
		"clips": {doc(`<clipPath id="c"><rect width="9" height="9"/></clipPath>` +
			strings.Repeat(`<g clip-path="url(#c)"/>`, 5000)), ErrLimit},
		"entity bomb":    {`<!DOCTYPE svg [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;"><!ENTITY c "&b;&b;&b;">]><svg><text>&c;</text></svg>`, nil},
		"entity file":    {`<!DOCTYPE svg [<!ENTITY a SYSTEM "file:///etc/passwd">]><svg><text>&a;</text></svg>`, nil},
		"use itself":     {doc(`<g id="a"><use href="#a"/><rect width="9" height="9"/></g>`), nil},
		"use the root":   {`<svg id="r" viewBox="0 0 9 9"><use href="#r"/></svg>`, nil},
		"clip by itself": {doc(`<clipPath id="c" clip-path="url(#c)"><use href="#c"/></clipPath><rect width="9" height="9" clip-path="url(#c)"/>`), nil},
		"outside":        {doc(`<image href="file:///etc/passwd"/><use href="http://example.com/a.svg#b"/><style>@import url(http://example.com/a.css);</style>`), nil},
		"huge numbers":   {doc(`<path d="M-1e300 1e300 C1e308 1e308 -1e308 0 9 9A1e300 1e-300 1e300 0 1 1 1 z" stroke="red" stroke-width="1e300"/>`), nil},
		"not numbers": {doc(`<rect x="nan" y="inf" width="1e999" height="-5"/><circle r="-1"/><path d="M NaN 0 L Inf"/>`),
			nil},
		"huge scale":  {doc(`<g transform="scale(1e200)"><g transform="scale(1e200)"><circle r="1e-300" stroke="red"/></g></g>`), nil},
		"no scale":    {doc(`<g transform="scale(0)"><circle r="1" stroke="red"/></g>`), nil},
		"tiny dashes": {doc(`<path d="M0 0L1e9 1e9" stroke="red" stroke-dasharray="1e-9 0 1e-9"/>`), nil},
		"huge dash":   {doc(`<path d="M0 0H9" stroke="red" stroke-dasharray="1.5e308" stroke-dashoffset="-1"/>`), nil},
		"dashes too far away": {doc(`<path d="` + strings.Repeat("M1e17 0H2e17", 500) +
			`" stroke="red" stroke-dasharray="1"/>`), ErrLimit},
		"gradient of other elements": {doc(`<linearGradient id="g">` + strings.Repeat("<a/>", 5000) +
			`<stop/></linearGradient>` + strings.Repeat(`<rect width="1" height="1" fill="url(#g)"/>`, 2000)), ErrLimit},
		"huge repeats":    {gradient("repeat"), nil},
		"huge reflection": {gradient("reflect"), nil},
		"style bomb": {doc(`<style>` + strings.Repeat("*,", 400) + `*{` + strings.Repeat("a:b;", 10_000) + `}</style>` +
			strings.Repeat("<g/>", 40)), ErrLimit},
		"selectors": {doc(`<style>` + strings.Repeat("a b c d e f.x g.x *{a:b}", 500) + `</style>` +
			strings.Repeat("<g>", 50) + strings.Repeat(`<g/>`, 9000)), ErrLimit},
		"clip bomb": {doc(`<path id="p" d="` + long + `"/><clipPath id="c">` +
			strings.Repeat(`<use x="1e6" href="#p"/>`, 3000) + `</clipPath><g clip-path="url(#c)"/>`), ErrLimit},
		"text bomb": {doc(`<text visibility="hidden" id="p">` + strings.Repeat("a", 2000) + `</text>` +
			strings.Repeat(`<use href="#p"/>`, 3000)), ErrLimit},
		"path read again": {doc(`<path id="p" d="` + spaces + `M0 0"/>` + strings.Repeat(`<use href="#p"/>`, 1000)),
			ErrLimit},
		"style read again": {doc(`<style>path{stroke-dasharray:1` + spaces + `1}</style>` + strings.Repeat("<path/>", 1000)),
			ErrLimit},
		"gradient read again": {doc(`<linearGradient id="g" gradientTransform="` + spaces + `"><stop/></linearGradient>` +
			strings.Repeat(`<rect width="1" height="1" fill="url(#g)"/>`, 1000)), ErrLimit},
		"text read again": {doc(`<text id="p">` + spaces + `</text>` + strings.Repeat(`<use href="#p"/>`, 1000)), ErrLimit},
		"bad view":        {`<svg viewBox="0 0 -5 1e400"><rect width="9" height="9"/></svg>`, nil},
		"not UTF-8":       {"<svg>\xff<rect/></svg>", nil},
		"cut off":         {`<svg><g><rect width="9`, nil},
	} {
		img, err := Render(t.Context(), c.code, side, limits)
		if c.want != nil {
			require.ErrorIs(t, err, c.want, name)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, side, img.Bounds().Dx(), name)
		for i := 3; i < len(img.Pix); i += 4 {
			require.Equal(t, uint8(255), img.Pix[i], "%s: the picture is opaque", name)
		}
	}
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	_, err := Render(ctx, doc(`<rect width="9" height="9"/>`), side, DefaultLimits())
	require.ErrorIs(t, err, cause)
}

func TestBrokenDocumentsAreDrawnAsFarAsTheyGo(t *testing.T) {
	for _, code := range []string{
		`<svg viewBox="0 0 64 64"><rect width="10" height="10"></svg>`,
		`<svg viewBox="0 0 64 64"><g><rect width=10 height=10></g></b></svg> and <svg/>`,
		`<svg viewBox="0 0 64 64"><rect width="10" height="10"/><p`,
		`text <svg viewBox="0 0 64 64"><rect width="10" height="10"/>&nbsp;&`,
		`<svg viewBox="0 0 64 64"><path d="M0 0H10V10H0Z L foo"/></svg>`,
	} {
		require.InDelta(t, 100, inked(paintDoc(t, code)), 0.1, code)
	}
}

func TestCheckNamesWhatIsWrong(t *testing.T) {
	for code, want := range golden.Table[map[string]string](t, "checks.yaml") {
		err := Check(code, DefaultLimits())
		if want == "" {
			require.NoError(t, err, code)
			continue
		}
		require.Error(t, err, code)
		require.Regexp(t, want, err.Error(), code)
	}
	require.ErrorContains(t, Check(strings.Repeat("<svg>", 100), DefaultLimits()), "nest deeper than 64")
}

func FuzzRender(f *testing.F) {
	f.Add(doc(`<path d="M1 1L30 30A5 5 0 0 1 9 9Z" stroke="red" stroke-dasharray="1 2" stroke-linejoin="round"/>`))
	f.Add(doc(`<g opacity=".5" clip-path="url(#c)"><use href="#a"/></g><clipPath id="c"><circle r="9"/></clipPath>`))
	f.Add(doc(`<radialGradient id="g" fx="9"><stop offset="1"/></radialGradient><text fill="url(#g)">ab<tspan dx="3">c</tspan></text>`))
	f.Add(`<svg viewBox="0 0 1e9 1"><style>a b.c{d:e}</style><g transform="matrix(1 2 3 4 5 6)">`)
	limits := Limits{Bytes: 1 << 12, Elements: 200, Depth: 16, Segments: 500, Rules: 20, Work: 300_000}
	f.Fuzz(func(t *testing.T, code string) {
		img, err := Render(context.Background(), code, 32, limits)
		if err != nil {
			return
		}
		again, err := Render(context.Background(), code, 32, limits)
		if err != nil || string(img.Pix) != string(again.Pix) {
			t.Error("drawing again gives something else")
		}
		for i := 3; i < len(img.Pix); i += 4 {
			if img.Pix[i] != 255 {
				t.Fatal("the picture is not opaque")
			}
		}
	})
}

func FuzzCheck(f *testing.F) {
	f.Add(doc(`<path d="M1 1L30 30A5 5 0 0 1 9 9Z"/><polygon points="1,2 3-4"/>`))
	f.Add(`<svg a="1"b='2'>&amp;<!-- c --><![CDATA[d]]></svg>`)
	f.Fuzz(func(t *testing.T, code string) {
		if Check(code, DefaultLimits()) == nil {
			if _, err := read(code, false, DefaultLimits()); err != nil {
				t.Errorf("it is valid, and yet: %v", err)
			}
		}
	})
}
