package draw

// clipped returns the clip of the frame cut by the clip path of element n, which
// f.s.clip names. A name without a clip path clips nothing.
func (r *renderer) clipped(n *node, f frame) mask {
	clip := r.ids[f.s.clip]
	if clip == nil || clip.name != "clipPath" || f.depth > r.limits.Depth || !r.spend(r.canvas.size*r.canvas.size) {
		return f.clip
	}
	inner := f
	inner.depth++
	inner.s = f.s.of(r.styled(clip), f.v)
	inner.m = f.m.then(parseTransform(clip.attr("transform")))
	if clip.attr("clipPathUnits") == "objectBoundingBox" {
		box, ok := r.boxOf(n, f)
		if !ok {
			return f.clip
		}
		inner.m = inner.m.then(box.unit())
		inner.v = viewport{1, 1, f.v.font}
	}
	m := make(mask, r.canvas.size*r.canvas.size)
	for _, c := range clip.children {
		r.clipShape(c, inner, m)
	}
	for i := range m {
		if f.clip != nil {
			m[i] = over(m[i], f.clip[i])
		}
	}
	return m
}

// clipShape adds a shape, or what a reference names, to the area of a clip path.
func (r *renderer) clipShape(n *node, f frame, m mask) {
	if r.elements++; r.elements > r.limits.Elements || r.err != nil {
		return // draw reports it
	}
	f.s = f.s.of(r.styled(n), f.v)
	f.m = f.m.then(parseTransform(n.attr("transform")))
	if n.name == "use" {
		if target := r.ids[reference(n.attr("href"))]; target != nil && target.name != "use" {
			f.shift(n)
			r.clipShape(target, f, m)
		}
		return
	}
	fine, ok := f.tolerance()
	p, drawn := r.outline(n, f.v)
	if !ok || !drawn || f.s.hidden || !f.s.shown {
		return
	}
	r.fill(p.flatten(fine), f)
	if !r.spend(r.canvas.scan.cost()) {
		r.canvas.scan.edges = r.canvas.scan.edges[:0]
		return
	}
	r.canvas.scan.fill(f.s.clipEvenOdd, func(y, x0 int, cover []uint8) {
		for i, a := range cover {
			at := y*r.canvas.size + x0 + i
			m[at] += over(a, 255-m[at])
		}
	})
}

// boxOf returns the box of a shape in user units; groups have none here.
func (r *renderer) boxOf(n *node, f frame) (bounds, bool) {
	fine, ok := f.tolerance()
	p, drawn := r.outline(n, f.v)
	if !ok || !drawn {
		return bounds{}, false
	}
	return boundsOf(p.flatten(fine)), true
}
