package draw

import (
	"math"
	"strconv"
	"strings"
)

// number reads the number at the start of text and returns how many bytes it
// takes, 0 when there is none: a sign, digits with at most one point among them,
// at least one digit, and an exponent.
func number(text string) (value float64, size int) {
	i := 0
	if i < len(text) && (text[i] == '+' || text[i] == '-') {
		i++
	}
	digits := func() int {
		start := i
		for i < len(text) && text[i] >= '0' && text[i] <= '9' {
			i++
		}
		return i - start
	}
	n := digits()
	if i < len(text) && text[i] == '.' {
		mark := i
		i++
		if more := digits(); more == 0 {
			i = mark // the point belongs to what follows
		} else {
			n += more
		}
	}
	if n == 0 {
		return 0, 0
	}
	if i < len(text) && (text[i] == 'e' || text[i] == 'E') {
		mark := i
		i++
		if i < len(text) && (text[i] == '+' || text[i] == '-') {
			i++
		}
		if digits() == 0 {
			i = mark
		}
	}
	value, err := strconv.ParseFloat(text[:i], 64)
	if err != nil { // out of range: ±Inf
		value = math.Copysign(math.MaxFloat32, value)
	}
	return value, i
}

// numbers reads up to limit numbers, whatever stands between them.
func numbers(text string, limit int) []float64 {
	var list []float64
	for len(text) > 0 && len(list) < limit {
		v, n := number(text)
		if n == 0 {
			text = text[1:]
			continue
		}
		list = append(list, v)
		text = text[n:]
	}
	return list
}

// dotsPerInch is the resolution at which the original environment drew.
const dotsPerInch = 128

// units are the sizes of absolute units in pixels.
var units = map[string]float64{
	"": 1, "px": 1, "in": dotsPerInch, "cm": dotsPerInch / 2.54, "mm": dotsPerInch / 25.4,
	"q": dotsPerInch / 101.6, "pt": dotsPerInch / 72.0, "pc": dotsPerInch / 6.0,
}

// viewport is what relative lengths refer to.
type viewport struct {
	width, height float64
	font          float64 // size of the font in pixels
}

// Axes of a length, which percentages refer to.
type axis uint8

const (
	horizontal axis = iota
	vertical
	diagonal
)

// length reads a length in pixels; ok is false for text that is none.
func (v viewport) length(text string, along axis) (pixels float64, ok bool) {
	text = strings.TrimSpace(text)
	value, n := number(text)
	if n == 0 {
		return 0, false
	}
	switch unit := strings.ToLower(strings.TrimSpace(text[n:])); unit {
	case "%":
		return value / 100 * v.extent(along), true
	case "em", "rem":
		return value * v.font, true
	case "ex", "ch":
		return value * v.font / 2, true
	default:
		factor, known := units[unit]
		return value * factor, known
	}
}

func (v viewport) extent(along axis) float64 {
	switch along {
	case horizontal:
		return v.width
	case vertical:
		return v.height
	}
	return math.Hypot(v.width, v.height) / math.Sqrt2
}

// lengthOr is length with a value for missing or malformed text.
func (v viewport) lengthOr(text string, along axis, otherwise float64) float64 {
	if value, ok := v.length(text, along); ok {
		return value
	}
	return otherwise
}

// fraction reads a number or percentage, clamped to [0, 1].
func fraction(text string, otherwise float64) float64 {
	text = strings.TrimSpace(text)
	value, n := number(text)
	if n == 0 {
		return otherwise
	}
	if strings.HasSuffix(text, "%") {
		value /= 100
	}
	return min(max(value, 0), 1)
}
