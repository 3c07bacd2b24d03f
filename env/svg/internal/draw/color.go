package draw

import (
	"image/color"
	"math"
	"strconv"
	"strings"

	"golang.org/x/image/colornames"
)

// rgba is a colour without premultiplication, each part in [0, 1].
type rgba struct{ r, g, b, a float64 }

var black = rgba{a: 1}

// fade multiplies the opacity.
func (c rgba) fade(by float64) rgba { c.a *= by; return c }

// premultiplied returns the colour in eight bits, as pictures hold it.
func (c rgba) premultiplied() color.RGBA {
	part := func(v float64) uint8 { return uint8(min(max(v*c.a, 0), 1)*255 + 0.5) }
	return color.RGBA{part(c.r), part(c.g), part(c.b), uint8(min(max(c.a, 0), 1)*255 + 0.5)}
}

// parseColor reads a colour of CSS: a name, hexadecimal digits, rgb() or hsl().
// current stands for currentColor.
func parseColor(text string, current rgba) (rgba, bool) {
	text = strings.ToLower(strings.TrimSpace(text))
	switch {
	case text == "currentcolor":
		return current, true
	case text == "transparent":
		return rgba{}, true
	case text == "rebeccapurple":
		return rgba{0x66 / 255.0, 0x33 / 255.0, 0x99 / 255.0, 1}, true
	case strings.HasPrefix(text, "#"):
		return hexColor(text[1:])
	}
	if c, ok := colornames.Map[text]; ok {
		return rgba{float64(c.R) / 255, float64(c.G) / 255, float64(c.B) / 255, 1}, true
	}
	name, rest, ok := strings.Cut(text, "(")
	if !ok {
		return black, false
	}
	parts := strings.FieldsFunc(strings.TrimSuffix(rest, ")"), func(r rune) bool {
		return strings.ContainsRune(", /\t\r\n", r)
	})
	if len(parts) < 3 {
		return black, false
	}
	c := rgba{a: 1}
	if len(parts) > 3 {
		c.a = fraction(parts[3], 1)
	}
	switch name {
	case "rgb", "rgba":
		for i, part := range []*float64{&c.r, &c.g, &c.b} {
			v, n := number(parts[i])
			if n == 0 {
				return black, false
			}
			if strings.HasSuffix(parts[i], "%") {
				v *= 2.55
			}
			*part = min(max(v/255, 0), 1)
		}
		return c, true
	case "hsl", "hsla":
		h, n := number(parts[0])
		c.r, c.g, c.b = hsl(h, fraction(parts[1], 0), fraction(parts[2], 0))
		return c, n > 0
	}
	return black, false
}

// hexColor reads three, four, six or eight hexadecimal digits.
func hexColor(digits string) (rgba, bool) {
	if n := len(digits); n == 3 || n == 4 {
		var long strings.Builder
		for i := range n {
			long.WriteByte(digits[i])
			long.WriteByte(digits[i])
		}
		digits = long.String()
	}
	if len(digits) == 6 {
		digits += "ff"
	}
	v, err := strconv.ParseUint(digits, 16, 32)
	if err != nil || len(digits) != 8 {
		return black, false
	}
	part := func(shift int) float64 { return float64(v>>shift&255) / 255 }
	return rgba{part(24), part(16), part(8), part(0)}, true
}

// hsl converts a hue in degrees, saturation and lightness to red, green and blue.
func hsl(h, s, l float64) (r, g, b float64) {
	part := func(n float64) float64 {
		k := math.Mod(n+h/30, 12)
		if k < 0 {
			k += 12
		}
		return l - s*min(l, 1-l)*max(-1, min(k-3, 9-k, 1))
	}
	return part(0), part(8), part(4)
}
