package draw

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"vagen/internal/floats"
)

// Check says why code is not a well-formed document whose shapes all read; see
// the function of this name in package svg. Errors wrap ErrSyntax or ErrLimit.
func Check(code string, limits Limits) error {
	root, err := read(code, true, limits)
	if err != nil {
		return fmt.Errorf("svg: %w", err)
	}
	root.walk(func(n *node) bool {
		if !n.prefixed {
			err = checkShape(n, limits)
		}
		return err == nil
	})
	if err != nil {
		return fmt.Errorf("svg: %w: %w", ErrSyntax, err)
	}
	return nil
}

func checkShape(n *node, limits Limits) error {
	switch n.name {
	case "path":
		d, ok := n.lookup("d")
		if !ok {
			return fmt.Errorf("<path> has no d")
		}
		return checkPath(n, d, limits)
	case "polyline", "polygon":
		return checkPath(n, pointsPath(n.attr("points")), limits)
	case "line":
		var data [4]string
		for i, name := range []string{"x1", "y1", "x2", "y2"} {
			value, ok := n.lookup(name)
			if !ok {
				return fmt.Errorf("<line> has no %s", name)
			}
			data[i] = value
		}
		return checkPath(n, "M"+data[0]+" "+data[1]+"L"+data[2]+" "+data[3], limits)
	case "circle", "ellipse":
		radii := []string{"rx", "ry"}
		if _, ok := n.lookup("r"); ok {
			radii = []string{"r"}
		}
		return plain(n, radii, []string{"cx", "cy"})
	case "rect":
		return plain(n, nil, []string{"x", "y", "width", "height", "rx", "ry"})
	}
	return nil
}

func checkPath(n *node, data string, limits Limits) error {
	if _, err := parsePath(data, limits.Segments); err != nil {
		return fmt.Errorf("<%s>: %w", n.name, err)
	}
	return nil
}

// plain checks that attributes are numbers without units; those of the first list
// must be there.
func plain(n *node, needed, optional []string) error {
	for i, name := range append(append([]string(nil), needed...), optional...) {
		value, ok := n.lookup(name)
		if !ok && i < len(needed) {
			return fmt.Errorf("<%s> has no %s", n.name, name)
		}
		if ok && !plainNumber(value) {
			return fmt.Errorf("<%s>: %s is %q, must be a number without a unit", n.name, name, value)
		}
	}
	return nil
}

func plainNumber(text string) bool {
	text = strings.TrimFunc(text, unicode.IsSpace)
	if strings.ContainsAny(text, "xX_") {
		return false // Go's own notations
	}
	v, err := strconv.ParseFloat(text, 64)
	return err == nil && floats.Finite(v)
}

// pair finds the places of a list of points, as the library does that decided in
// the original environment: two numbers with white space, a comma, or the second
// one's minus sign between them.
var pair = func() *regexp.Regexp {
	const unsigned = `\d*[.\d]\d*(?:[eE][+-]?\d+)?`
	return regexp.MustCompile(`([+-]?` + unsigned + `)(?:(?:\s*,\s*|\s+)([+-]?` + unsigned + `)|(-` + unsigned + `))`)
}()

// pointsPath turns a list of points into path data.
func pointsPath(points string) string {
	var b strings.Builder
	for i, m := range pair.FindAllStringSubmatch(points, -1) {
		letter := "L"
		if i == 0 {
			letter = "M"
		}
		b.WriteString(letter + m[1] + " " + m[2] + m[3])
	}
	return b.String()
}
