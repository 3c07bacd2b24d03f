package draw

import (
	"context"
	"fmt"
	"image"
	"image/color"
	"math"
	"slices"
	"strings"
)

// tolerance is how far flattened curves may be from the true ones, in pixels.
const tolerance = 0.025

// originalTolerance is that of the original renderer.
const originalTolerance = 0.1

// frame is what an element takes over from those around it.
type frame struct {
	m     matrix // user units to pixels
	v     viewport
	s     style
	clip  mask // nil covers everything
	depth int
}

// renderer draws one document.
type renderer struct {
	ctx      context.Context
	limits   Limits
	canvas   *canvas
	ids      map[string]*node
	sheet    sheet
	uses     []*node // elements that references are being drawn of
	elements int
	work     int
	err      error
}

// Render draws code into a square picture on white, size pixels a side. Code that
// is not well-formed is drawn as far as it can be understood: elements left open
// end with their parents, and what can't be read at all ends the document. An
// error, which wraps ErrSyntax or ErrLimit or the context's, comes without a
// picture.
func Render(ctx context.Context, code string, size int, limits Limits) (*image.RGBA, error) {
	root, err := read(code, false, limits)
	if err != nil {
		return nil, fmt.Errorf("draw: %w", err)
	}
	if root.name != "svg" {
		return nil, fmt.Errorf("draw: %w: the root element is <%s>, not <svg>", ErrSyntax, root.name)
	}
	r := renderer{ctx: ctx, limits: limits, canvas: newCanvas(size), ids: make(map[string]*node)}
	var css []byte
	root.walk(func(n *node) bool {
		if id := n.attr("id"); id != "" && r.ids[id] == nil {
			r.ids[id] = n
		}
		if n.name == "style" {
			for _, c := range n.children {
				css = append(css, c.text...)
			}
		}
		return true
	})
	r.sheet = parseSheet(string(css), limits.Rules)
	r.root(root, float64(size))
	if r.err != nil {
		return nil, fmt.Errorf("draw: %w", r.err)
	}
	return r.canvas.layers[0], nil
}

// spend adds to the work done, and reports whether drawing may continue.
func (r *renderer) spend(work int) bool {
	if r.work += work; r.work > r.limits.Work && r.err == nil {
		r.err = fmt.Errorf("drawing needs more than %d edge crossings: %w", r.limits.Work, ErrLimit)
	}
	if r.err == nil && r.ctx.Err() != nil {
		r.err = context.Cause(r.ctx)
	}
	return r.err == nil
}

// root fits the document into the picture. A document with neither size nor
// viewBox has its origin in the middle, as the original renderer has it.
func (r *renderer) root(n *node, size float64) {
	f := frame{m: identity, s: initialStyle, v: viewport{font: initialStyle.font}}
	box, ok := viewBox(n)
	if !ok {
		box = bounds{x1: f.v.lengthOr(n.attr("width"), horizontal, 0), y1: f.v.lengthOr(n.attr("height"), vertical, 0)}
	}
	f.m = fit(box, size, size, n.attr("preserveAspectRatio"))
	f.v.width, f.v.height = box.x1-box.x0, box.y1-box.y0
	if !f.m.finite() {
		r.err = fmt.Errorf("%w: the size of the document is out of range", ErrSyntax)
		return
	}
	r.container(n, f)
}

func viewBox(n *node) (bounds, bool) {
	v := numbers(n.attr("viewBox"), 4)
	if len(v) != 4 {
		return bounds{}, false
	}
	return bounds{v[0], v[1], v[0] + v[2], v[1] + v[3]}, true
}

// fit maps a box onto a width and a height as preserveAspectRatio says. A box
// without extent keeps its scale.
func fit(b bounds, width, height float64, ratio string) matrix {
	w, h := b.x1-b.x0, b.y1-b.y0
	sx, sy := 1.0, 1.0
	if w > 0 {
		sx = width / w
	}
	if h > 0 {
		sy = height / h
	}
	words := strings.Fields(ratio)
	align := "xMidYMid"
	if len(words) > 0 {
		align = words[0]
	}
	if align == "none" {
		return matrix{sx, 0, 0, sy, -b.x0 * sx, -b.y0 * sy}
	}
	s := min(sx, sy)
	if len(words) > 1 && words[1] == "slice" {
		s = max(sx, sy)
	}
	place := func(low, high string, room float64) float64 {
		switch {
		case strings.Contains(align, low):
			return 0
		case strings.Contains(align, high):
			return room
		}
		return room / 2
	}
	return matrix{s, 0, 0, s, place("xMin", "xMax", width-w*s) - b.x0*s, place("YMin", "YMax", height-h*s) - b.y0*s}
}

// draw draws an element inside f.
func (r *renderer) draw(n *node, f frame) {
	if r.elements++; r.elements > r.limits.Elements && r.err == nil {
		r.err = fmt.Errorf("more than %d elements are drawn: %w", r.limits.Elements, ErrLimit)
	}
	if f.depth++; f.depth > r.limits.Depth && r.err == nil {
		r.err = fmt.Errorf("elements nest deeper than %d when drawn: %w", r.limits.Depth, ErrLimit)
	}
	if !r.spend(0) || n.name == textNode {
		return
	}
	switch n.name {
	case "svg", "g", "a", "switch", "use":
		r.container(n, f)
	case "text":
		if f, ok := r.enter(n, f); ok {
			r.text(n, f)
		}
	case "path", "rect", "circle", "ellipse", "line", "polyline", "polygon":
		if f, ok := r.enter(n, f); ok {
			r.shape(n, f)
		}
	}
}

// enter applies an element's own style, transform and clip path.
func (r *renderer) enter(n *node, f frame) (frame, bool) {
	f.s = f.s.of(r.styled(n), f.v)
	f.v.font = f.s.font
	if t := n.attr("transform"); t != "" {
		f.m = f.m.then(parseTransform(t))
	}
	if !f.s.shown || !f.m.finite() {
		return f, false
	}
	if f.s.clip != "" {
		f.clip = r.clipped(n, f)
	}
	return f, r.err == nil
}

// container draws an element with children.
func (r *renderer) container(n *node, f frame) {
	f, ok := r.enter(n, f)
	if !ok {
		return
	}
	opacity := f.s.opacity
	if opacity < 1 {
		if opacity == 0 || !r.spend(r.canvas.size*r.canvas.size) {
			return
		}
		r.canvas.push()
		defer r.canvas.pop(opacity)
	}
	switch {
	case n.name == "use":
		r.use(n, f)
	case n.name == "svg" && n.parent != nil:
		r.nested(n, n, f)
	case n.name == "switch":
		for _, c := range n.children {
			if c.name != textNode {
				r.draw(c, f)
				break
			}
		}
	default:
		r.children(n, f)
	}
}

func (r *renderer) children(n *node, f frame) {
	for _, c := range n.children {
		r.draw(c, f)
	}
}

// nested draws what a symbol or a nested document holds in the viewport that from
// gives it.
func (r *renderer) nested(n, from *node, f frame) {
	width := f.v.lengthOr(from.attr("width"), horizontal, f.v.width)
	height := f.v.lengthOr(from.attr("height"), vertical, f.v.height)
	if !(width > 0 && height > 0) {
		return
	}
	if n == from {
		f.shift(n)
	}
	f.v.width, f.v.height = width, height
	if box, ok := viewBox(n); ok {
		f.m = f.m.then(fit(box, width, height, n.attr("preserveAspectRatio")))
		f.v.width, f.v.height = box.x1-box.x0, box.y1-box.y0
	}
	if f.m.finite() {
		r.children(n, f)
	}
}

// shift moves the origin to the x and y of an element.
func (f *frame) shift(n *node) {
	f.m = f.m.then(translation(f.v.lengthOr(n.attr("x"), horizontal, 0), f.v.lengthOr(n.attr("y"), vertical, 0)))
}

// use draws the element that a reference names, unless it is being drawn already.
func (r *renderer) use(n *node, f frame) {
	target := r.ids[reference(n.attr("href"))]
	if target == nil || slices.Contains(r.uses, target) {
		return
	}
	r.uses = append(r.uses, target)
	defer func() { r.uses = r.uses[:len(r.uses)-1] }()
	f.shift(n)
	if target.name == "symbol" {
		f.depth++
		if f, ok := r.enter(target, f); ok {
			r.nested(target, n, f)
		}
		return
	}
	r.draw(target, f)
}

// shape fills and strokes a basic shape or path.
func (r *renderer) shape(n *node, f frame) {
	if f.s.hidden {
		return
	}
	if p, ok := r.outline(n, f.v); ok {
		r.paint(&p, f)
	}
}

// tolerance returns the tolerance in user units; ok is false when the transform
// leaves nothing to see.
func (f *frame) tolerance() (fine float64, ok bool) {
	grow := max(math.Hypot(f.m.a, f.m.b), math.Hypot(f.m.c, f.m.d))
	return tolerance / grow, grow > 0 && finite(tolerance/grow)
}

// paint fills and strokes a path. A shape's opacity is that of its fill and its
// stroke, one by one, as in the original renderer.
func (r *renderer) paint(p *path, f frame) {
	fine, ok := f.tolerance()
	if !ok || !r.spend(len(p.points)) {
		return
	}
	lines := p.flatten(fine)
	box := boundsOf(lines)
	if ink := r.shader(f.s.fill, box, f, f.s.fillOpacity*f.s.opacity); ink != nil {
		r.fill(lines, f)
		r.apply(f.s.evenOdd, f.clip, ink)
	}
	if ink := r.shader(f.s.stroke, box, f, f.s.strokeOpacity*f.s.opacity); ink != nil {
		r.stroke(p, fine, f)
		r.apply(false, f.clip, ink)
	}
}

// fill hands lines to the scanner.
func (r *renderer) fill(lines []polyline, f frame) {
	for _, l := range lines {
		outline := make([]point, len(l.points))
		for i, q := range l.points {
			outline[i] = f.m.apply(q)
		}
		r.canvas.scan.add(outline)
	}
}

// stroke hands the outlines of a stroke to the scanner.
func (r *renderer) stroke(p *path, fine float64, f frame) {
	scan := func(outline []point) bool { return r.scanned(outline, f.m) }
	if _, _, dashed := f.s.pen.pattern(); !dashed {
		f.s.pen.outline(p, f.m, fine, scan)
		return
	}
	coarse := fine / tolerance * originalTolerance
	lines := p.flattened(func(from, a, b, to point) int { return halvings(from, a, b, to, coarse) })
	f.s.pen.dash(lines, f.m, fine, r.spend, scan)
}

// scanned hands an outline in user units to the scanner, which it overwrites; it
// reports whether there was work left for it.
func (r *renderer) scanned(outline []point, m matrix) bool {
	if !r.spend(40 * len(outline)) {
		return false
	}
	for i := range outline {
		outline[i] = m.apply(outline[i])
	}
	r.canvas.scan.add(outline)
	return true
}

// apply paints what the scanner holds, or drops it when there is too much.
func (r *renderer) apply(evenOdd bool, clip mask, ink shader) {
	if !r.spend(r.canvas.scan.cost()) {
		r.canvas.scan.edges = r.canvas.scan.edges[:0]
		return
	}
	r.canvas.fill(evenOdd, clip, ink)
}

// shader returns how a paint colours pixels, nil when it doesn't.
func (r *renderer) shader(p paint, box bounds, f frame, opacity float64) shader {
	if p.ref != "" {
		if s, ok := r.shade(p.ref, box, f.m, f.v, opacity); ok {
			return s
		}
	}
	if p.none {
		return nil
	}
	ink := p.color.fade(opacity).premultiplied()
	if ink.A == 0 {
		return nil
	}
	return func(point) color.RGBA { return ink }
}
