package draw

import (
	"strings"
	"sync"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
)

// The typefaces, which stand for all others.
var (
	regular = sync.OnceValues(func() (*sfnt.Font, error) { return sfnt.Parse(goregular.TTF) })
	bold    = sync.OnceValues(func() (*sfnt.Font, error) { return sfnt.Parse(gobold.TTF) })
)

// maxText bounds the characters of one text element.
const maxText = 2000

// glyphWork is what measuring and placing a character counts as, in crossings.
const glyphWork = 500

// run is text in one style that starts at one place.
type run struct {
	text  string
	style style
	at    *point // nil: where the one before ended
	shift point
}

// text draws the characters of a text element and of the tspan elements in it,
// from left to right on one line unless they say otherwise.
func (r *renderer) text(n *node, f frame) {
	runs := r.runs(n, f, nil)
	pen := point{}
	for i, t := range runs {
		if !r.spend(glyphWork * min(len(t.text), maxText)) {
			return
		}
		if t.at != nil {
			pen = *t.at
			if width := measure(runs[i:]); t.style.anchor == "middle" {
				pen.x -= width / 2
			} else if t.style.anchor == "end" {
				pen.x -= width
			}
		}
		pen = pen.add(t.shift)
		f.s = t.style
		pen.x += r.glyphs(t, pen, f)
	}
}

// runs collects the text below n.
func (r *renderer) runs(n *node, f frame, list []run) []run {
	coordinate := func(name string, along axis) float64 {
		first, _, _ := strings.Cut(strings.TrimSpace(strings.ReplaceAll(n.attr(name), ",", " ")), " ")
		return f.v.lengthOr(first, along, 0)
	}
	var at *point
	_, hasX := n.lookup("x")
	_, hasY := n.lookup("y")
	if n.name == "text" || hasX || hasY {
		at = &point{coordinate("x", horizontal), coordinate("y", vertical)}
	}
	shift := point{coordinate("dx", horizontal), coordinate("dy", vertical)}
	for _, c := range n.children {
		switch c.name {
		case textNode:
			if !r.spend(len(c.text)) {
				return list
			}
			words := strings.Join(strings.Fields(string(c.text)), " ")
			if words == "" {
				continue
			}
			if len(list) > 0 && at == nil && len(c.text) > 0 && strings.ContainsRune(" \t\r\n", rune(c.text[0])) {
				words = " " + words
			}
			list = append(list, run{text: words, style: f.s, at: at, shift: shift})
			at, shift = nil, point{}
		case "tspan", "a":
			if r.elements++; r.elements > r.limits.Elements {
				return list // draw reports it
			}
			inner := f
			inner.s = f.s.of(r.styled(c), f.v)
			inner.s.opacity *= f.s.opacity
			inner.v.font = inner.s.font
			before := len(list)
			if list = r.runs(c, inner, list); len(list) > before && list[before].at == nil {
				list[before].at = at
			}
			if len(list) > before {
				at = nil
			}
		}
	}
	return list
}

func face(s style) *sfnt.Font {
	load := regular
	if s.bold {
		load = bold
	}
	f, err := load()
	if err != nil {
		return nil // the built-in files do parse
	}
	return f
}

// measure is the width of the runs that follow each other without a new place.
func measure(runs []run) float64 {
	width := 0.0
	for i, t := range runs {
		if i > 0 && t.at != nil {
			break
		}
		width += t.shift.x
		t.each(func(_ path, advance float64) { width += advance })
	}
	return width
}

// each calls visit with the outline of each character, at the origin, and how far
// it moves the pen, in user units.
func (t *run) each(visit func(p path, advance float64)) {
	f := face(t.style)
	if f == nil {
		return
	}
	var buf sfnt.Buffer
	em := fixed.Int26_6(f.UnitsPerEm()) // makes outlines come in font units
	k := t.style.font / float64(em)
	count := 0
	for _, c := range t.text {
		if count++; count > maxText {
			return
		}
		index, err := f.GlyphIndex(&buf, c)
		if err != nil {
			continue
		}
		advance, err := f.GlyphAdvance(&buf, index, em, font.HintingNone)
		if err != nil {
			continue
		}
		segments, err := f.LoadGlyph(&buf, index, em, nil)
		if err != nil {
			continue
		}
		visit(glyphPath(segments, k), float64(advance)*k)
	}
}

func glyphPath(segments sfnt.Segments, k float64) path {
	var p path
	for _, s := range segments {
		at := func(i int) point { return point{float64(s.Args[i].X) * k, float64(s.Args[i].Y) * k} }
		switch s.Op {
		case sfnt.SegmentOpMoveTo:
			p.close()
			p.move(at(0))
		case sfnt.SegmentOpLineTo:
			p.line(at(0))
		case sfnt.SegmentOpQuadTo:
			p.quad(at(0), at(1))
		case sfnt.SegmentOpCubeTo:
			p.cube(at(0), at(1), at(2))
		}
	}
	p.close()
	return p
}

// glyphs draws a run at the pen and returns its width.
func (r *renderer) glyphs(t run, pen point, f frame) float64 {
	width := 0.0
	m := f.m
	t.each(func(p path, advance float64) {
		f.m = m.then(translation(pen.x+width, pen.y))
		if len(p.verbs) > 0 && r.err == nil && !f.s.hidden {
			r.paint(&p, f)
		}
		width += advance
	})
	return width
}
