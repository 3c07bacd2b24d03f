package openenv

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"vagen/internal/jsontext"
)

// path is a path expression: names and indices from the observation down, as in
// result.content[].data or grid[0][2]; [] is every element. The empty path is the observation
// itself.
type path []string // the name of a field, or an index in its brackets

var pathForm = regexp.MustCompile(`^[^.\[\]{}]+(\[\d{0,6}\])*(\.[^.\[\]{}]+(\[\d{0,6}\])*)*$`)

var pathStep = regexp.MustCompile(`\[\d*\]|[^.\[\]]+`)

// parsePath reads a path expression.
func parsePath(s string) (path, error) {
	if s == "" {
		return nil, nil
	}
	if !pathForm.MatchString(s) {
		return nil, fmt.Errorf("%q is not a path such as text, result.content[].data or grid[0]", s)
	}
	return pathStep.FindAllString(s, -1), nil
}

// find returns the values at a path; there are none where fields or elements are missing or null.
func (p path) find(v any) []any {
	if v == nil {
		return nil
	}
	if len(p) == 0 {
		return []any{v}
	}
	s, rest := p[0], p[1:]
	if s[0] != '[' {
		return rest.find(jsontext.Object(v)[s])
	}
	list := jsontext.List(v)
	if n, err := strconv.Atoi(s[1 : len(s)-1]); err == nil { // not every element
		list = list[min(n, len(list)):min(n+1, len(list))]
	}
	var all []any
	for _, x := range list {
		all = append(all, rest.find(x)...)
	}
	return all
}

// template is text with path expressions in braces.
type template string

var braces = regexp.MustCompile(`\{[^{}]*\}`)

func parseTemplate(s string) (template, error) {
	for _, m := range braces.FindAllString(s, -1) {
		if _, err := parsePath(m[1 : len(m)-1]); err != nil {
			return "", err
		}
	}
	return template(s), nil
}

// fill writes the values of an observation into the text: strings as they are, others as JSON,
// several of them in lines. found says that there was any value.
func (t template) fill(observation any) (out string, found bool) {
	found = !braces.MatchString(string(t))
	out = braces.ReplaceAllStringFunc(string(t), func(m string) string {
		p, _ := parsePath(m[1 : len(m)-1]) // parseTemplate has checked it
		var lines []string
		for _, v := range p.find(observation) {
			lines, found = append(lines, jsontext.Shown(v)), true
		}
		return strings.Join(lines, "\n")
	})
	return out, found
}
