package draw

import "strings"

// paint is what an area is filled with.
type paint struct {
	none  bool
	color rgba
	ref   string // id of a gradient, "" for a plain colour
}

// style holds the properties of an element after inheritance.
type style struct {
	fill, stroke               paint
	fillOpacity, strokeOpacity float64
	evenOdd, clipEvenOdd       bool
	pen                        pen
	color                      rgba
	font                       float64
	bold                       bool
	anchor                     string
	hidden                     bool

	// Not inherited.
	opacity float64
	shown   bool // display is not none
	clip    string
	stop    paint
	stopOpa float64
}

var initialStyle = style{
	fill: paint{color: black}, stroke: paint{none: true}, fillOpacity: 1, strokeOpacity: 1,
	pen: pen{width: 1, cap: "butt", join: "miter", miterLimit: 4}, color: black, font: 12 * dotsPerInch / 72.0,
	opacity: 1, shown: true, stop: paint{color: black}, stopOpa: 1,
}

// maxDashPattern bounds the entries of a pattern of dashes.
const maxDashPattern = 64

// of returns the style of an element whose parent has style s.
func (s style) of(list []declaration, v viewport) style {
	s.opacity, s.shown, s.clip, s.stop, s.stopOpa = 1, true, "", initialStyle.stop, 1
	// Others depend on these two.
	for _, d := range list {
		switch d.name {
		case "color":
			if c, ok := parseColor(d.value, s.color); ok {
				s.color = c
			}
		case "font-size":
			parent := v
			parent.font = s.font
			if size, ok := parent.length(strings.Replace(d.value, "%", "e-2em", 1), vertical); ok && size >= 0 {
				s.font = size
			}
		}
	}
	v.font = s.font
	inherited := s.pen
	for _, d := range list {
		if d.value != "inherit" {
			s.set(d, v)
		}
	}
	// The original renderer draws these caps and joins; any other value, butt and
	// miter included, keeps what the parent has.
	if s.pen.cap != "round" && s.pen.cap != "square" {
		s.pen.cap = inherited.cap
	}
	if s.pen.join != "round" && s.pen.join != "bevel" {
		s.pen.join = inherited.join
	}
	return s
}

func (s *style) set(d declaration, v viewport) {
	switch d.name {
	case "fill":
		s.fill = s.paint(d.value, s.fill)
	case "stroke":
		s.stroke = s.paint(d.value, s.stroke)
	case "fill-opacity":
		s.fillOpacity = fraction(d.value, s.fillOpacity)
	case "stroke-opacity":
		s.strokeOpacity = fraction(d.value, s.strokeOpacity)
	case "fill-rule":
		s.evenOdd = d.value == "evenodd"
	case "clip-rule":
		s.clipEvenOdd = d.value == "evenodd"
	case "opacity":
		s.opacity = fraction(d.value, 1)
	case "display":
		s.shown = d.value != "none"
	case "visibility":
		s.hidden = d.value == "hidden" || d.value == "collapse"
	case "clip-path":
		s.clip = reference(d.value)
	case "stop-color":
		s.stop = s.paint(d.value, s.stop)
	case "stop-opacity":
		s.stopOpa = fraction(d.value, 1)
	case "font-weight":
		weight, n := number(d.value)
		s.bold = d.value == "bold" || d.value == "bolder" || n > 0 && weight >= 600
	case "text-anchor":
		s.anchor = d.value
	default:
		s.setPen(d, v)
	}
}

func (s *style) setPen(d declaration, v viewport) {
	switch d.name {
	case "stroke-width":
		s.pen.width = max(v.lengthOr(d.value, diagonal, s.pen.width), 0)
	case "stroke-linecap":
		s.pen.cap = d.value
	case "stroke-linejoin":
		s.pen.join = d.value
	case "stroke-miterlimit":
		if limit, n := number(d.value); n > 0 {
			s.pen.miterLimit = limit
		}
	case "stroke-dashoffset":
		s.pen.dashOffset = v.lengthOr(d.value, diagonal, 0)
	case "stroke-dasharray":
		s.pen.dashes = nil
		for word := range strings.FieldsFuncSeq(d.value, func(r rune) bool { return strings.ContainsRune(", \t\r\n", r) }) {
			length, ok := v.length(word, diagonal)
			if !ok || length < 0 || len(s.pen.dashes) == maxDashPattern {
				s.pen.dashes = nil
				return
			}
			s.pen.dashes = append(s.pen.dashes, length)
		}
	}
}

// paint reads a colour, none, or a reference with the paint to use instead when
// nothing has that id. Text that is none of these leaves the paint as it was.
func (s *style) paint(text string, was paint) paint {
	switch {
	case text == "none":
		return paint{none: true}
	case strings.HasPrefix(text, "url("):
		_, fallback, _ := strings.Cut(text, ")")
		p := paint{none: true}
		if fallback = strings.TrimSpace(fallback); fallback != "" {
			p = s.paint(fallback, p)
		}
		p.ref = reference(text)
		return p
	}
	if c, ok := parseColor(text, s.color); ok {
		return paint{color: c}
	}
	return was
}

// reference returns the id that "url(#id)" or "#id" names, "" for anything else:
// there is nothing outside of the document.
func reference(text string) string {
	text = strings.TrimSpace(text)
	if rest, ok := strings.CutPrefix(text, "url("); ok {
		text, _, _ = strings.Cut(rest, ")")
		text = strings.Trim(text, " \t\r\n'\"")
	}
	if id, ok := strings.CutPrefix(text, "#"); ok {
		return id
	}
	return ""
}
