package draw

import (
	"image/color"
	"math"
)

// shader gives the premultiplied colour of the pixel whose centre is at p.
type shader func(p point) color.RGBA

// stop is a colour of a gradient and where it is, in [0, 1].
type stop struct {
	at    float64
	color rgba
}

// Bounds of gradients.
const (
	maxStops = 256
	maxLinks = 8 // gradients that take over from each other
)

// gradient collects the element of an id with those that it takes stops and
// attributes from, itself first.
func (r *renderer) gradient(id string) []*node {
	var chain []*node
	for range maxLinks {
		n := r.ids[id]
		if n == nil || n.name != "linearGradient" && n.name != "radialGradient" {
			break
		}
		chain = append(chain, n)
		if id = reference(n.attr("href")); id == "" {
			break
		}
	}
	return chain
}

// shade returns the shader of a gradient for a shape with the box, in user units,
// that m brings to pixels. ok is false when there is no such gradient; a gradient
// that can't be spread, as over a box without area, draws nothing.
func (r *renderer) shade(id string, box bounds, m matrix, v viewport, opacity float64) (shader, bool) {
	chain := r.gradient(id)
	if len(chain) == 0 {
		return nil, false
	}
	attr := func(name, otherwise string) string {
		for _, n := range chain {
			if value, ok := n.lookup(name); ok {
				return value
			}
		}
		return otherwise
	}
	for _, n := range chain {
		r.read(n.attrs)
	}
	stops := r.stops(chain, opacity)
	if len(stops) == 0 {
		return clear, true
	}
	if attr("gradientUnits", "") != "userSpaceOnUse" {
		m = m.then(box.unit())
		v = viewport{1, 1, v.font}
	}
	m = m.then(parseTransform(attr("gradientTransform", "")))
	inverse, ok := m.inverse()
	if !ok {
		return clear, true
	}
	get := func(name, otherwise string, along axis) float64 {
		return v.lengthOr(attr(name, otherwise), along, 0)
	}
	var offset func(p point) float64
	if chain[0].name == "linearGradient" {
		offset = linear(point{get("x1", "0%", horizontal), get("y1", "0%", vertical)},
			point{get("x2", "100%", horizontal), get("y2", "0%", vertical)})
	} else {
		center := point{get("cx", "50%", horizontal), get("cy", "50%", vertical)}
		focus := point{v.lengthOr(attr("fx", ""), horizontal, center.x), v.lengthOr(attr("fy", ""), vertical, center.y)}
		offset = radial(center, focus, get("r", "50%", diagonal))
	}
	spread := attr("spreadMethod", "pad")
	ramp := rampOf(stops)
	return func(p point) color.RGBA {
		t := fold(offset(inverse.apply(p)), spread)
		return ramp[int(t*(rampSize-1)+0.5)]
	}, true
}

func clear(point) color.RGBA { return color.RGBA{} }

// stops returns the stops of the first element of the chain that has any.
func (r *renderer) stops(chain []*node, opacity float64) []stop {
	for _, n := range chain {
		if !r.spend(len(n.children)) {
			return nil
		}
		var list []stop
		for _, c := range n.children {
			if c.name != "stop" || len(list) == maxStops {
				continue
			}
			s := initialStyle.of(r.styled(c), viewport{font: initialStyle.font})
			at := fraction(c.attr("offset"), 0)
			if len(list) > 0 {
				at = max(at, list[len(list)-1].at)
			}
			list = append(list, stop{at, s.stop.color.fade(s.stopOpa * opacity)})
		}
		if len(list) > 0 {
			return list
		}
	}
	return nil
}

// rampSize is the number of colours that a gradient is made of.
const rampSize = 1024

// rampOf interpolates the stops, without premultiplication as SVG requires.
func rampOf(stops []stop) *[rampSize]color.RGBA {
	ramp := new([rampSize]color.RGBA)
	k := 0
	for i := range ramp {
		t := float64(i) / (rampSize - 1)
		for k < len(stops) && stops[k].at <= t {
			k++
		}
		switch {
		case k == 0:
			ramp[i] = stops[0].color.premultiplied()
		case k == len(stops):
			ramp[i] = stops[k-1].color.premultiplied()
		default:
			a, b := stops[k-1], stops[k]
			w := (t - a.at) / (b.at - a.at)
			mix := func(p, q float64) float64 { return p + (q-p)*w }
			ramp[i] = rgba{mix(a.color.r, b.color.r), mix(a.color.g, b.color.g), mix(a.color.b, b.color.b),
				mix(a.color.a, b.color.a)}.premultiplied()
		}
	}
	return ramp
}

// linear measures along the line from a to b; without length, all is past its end.
func linear(a, b point) func(point) float64 {
	d := b.sub(a)
	square := d.dot(d)
	if square == 0 {
		return func(point) float64 { return 1 }
	}
	return func(p point) float64 { return p.sub(a).dot(d) / square }
}

// radial measures from the focus to the circle: p = focus + t·(q − focus) for the
// q on the circle in its direction. A focus outside is moved inside.
func radial(center, focus point, radius float64) func(point) float64 {
	if !(radius > 0) {
		return func(point) float64 { return 1 }
	}
	f := focus.sub(center)
	if l := f.length(); l > radius*0.99 {
		f = f.mul(radius * 0.99 / l)
	}
	focus = center.add(f)
	a := radius*radius - f.dot(f)
	return func(p point) float64 {
		d := p.sub(focus)
		// |f + d/t|² = radius², solved for t.
		half := d.dot(f)
		return (half + math.Sqrt(half*half+a*d.dot(d))) / a
	}
}

// fold brings an offset into [0, 1].
func fold(t float64, spread string) float64 {
	switch spread {
	case "repeat":
		t -= math.Floor(t)
	case "reflect":
		if t = math.Mod(math.Abs(t), 2); t > 1 {
			t = 2 - t
		}
	}
	if math.IsNaN(t) { // infinite offsets have become that, too
		return 0
	}
	return min(max(t, 0), 1)
}
