package svg

import (
	"strings"

	"vagen/env/svg/internal/draw"
)

// extract returns the first SVG document in a text: from the first "<svg" to the
// next "</svg>", both in lower case; "" when there is none.
func extract(text string) string {
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

// checkCode returns an error if code is not a valid drawing. As in the original
// environment, it must be a well-formed document with bound namespace prefixes, and
// every path, polyline, polygon, line, ellipse, circle and rect must have the attributes
// of its outline: path data with complete commands, and plain numbers without
// percentages or units for the basic shapes. Limits of size and nesting, and the refusal
// of entities that a document defines, are this package's own.
func checkCode(code string) error { return draw.Check(code, draw.DefaultLimits()) }
