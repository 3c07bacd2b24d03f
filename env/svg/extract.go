package svg

import (
	"strings"

	"vagen/env/svg/internal/draw"
)

// Extract returns the first SVG document in a text: from the first "<svg" to the
// next "</svg>", both in lower case; "" when there is none.
func Extract(text string) string {
	start := strings.Index(text, "<svg")
	if start < 0 {
		return ""
	}
	const end = "</svg>"
	stop := strings.Index(text[start:], end)
	if stop < 0 {
		return ""
	}
	return text[start : start+stop+len(end)]
}

// Check says why code is not accepted as a drawing, nil when it is. As in the
// original environment, it must be a well-formed document with bound namespace
// prefixes, and every path, polyline, polygon, line, ellipse, circle and rect
// must have the attributes that make its outline, as plain numbers: path data
// that reads as commands with all their numbers, no percentages or units for the
// basic shapes. Limits of size and nesting, and entities that a document defines
// for itself, which are refused, are this package's own.
func Check(code string) error { return draw.Check(code, draw.DefaultLimits()) }
