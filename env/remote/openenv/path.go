package openenv

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// path is a path expression: names and indices from the observation down, as in
// result.content[].data or grid[0][2]; [] is every element. The empty path is the observation
// itself.
type path []step

type step struct {
	name  string // of a field, unless element
	index int    // of an element, −1 for all
	list  bool
}

var pathForm = regexp.MustCompile(`^[^.\[\]{}]+(\[\d{0,6}\])*(\.[^.\[\]{}]+(\[\d{0,6}\])*)*$`)

// parsePath reads a path expression.
func parsePath(s string) (path, error) {
	if s == "" {
		return nil, nil
	}
	if !pathForm.MatchString(s) {
		return nil, fmt.Errorf("%q is not a path such as text, result.content[].data or grid[0]", s)
	}
	var p path
	for part := range strings.SplitSeq(s, ".") {
		name, indices, _ := strings.Cut(part, "[")
		p = append(p, step{name: name})
		for indices != "" {
			var digits string
			digits, indices, _ = strings.Cut(indices, "]")
			indices = strings.TrimPrefix(indices, "[")
			n := -1
			if digits != "" {
				n, _ = strconv.Atoi(digits) // pathForm allows six digits
			}
			p = append(p, step{index: n, list: true})
		}
	}
	return p, nil
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
	if !s.list {
		fields, _ := v.(map[string]any)
		return rest.find(fields[s.name])
	}
	list, _ := v.([]any)
	if s.index >= 0 {
		if s.index >= len(list) {
			return nil
		}
		return rest.find(list[s.index])
	}
	var all []any
	for _, x := range list {
		all = append(all, rest.find(x)...)
	}
	return all
}

// template is text with path expressions in braces.
type template struct {
	texts []string // one more than paths
	paths []path
}

var braces = regexp.MustCompile(`\{[^{}]*\}`)

func parseTemplate(s string) (t template, err error) {
	at := 0
	for _, m := range braces.FindAllStringIndex(s, -1) {
		p, err := parsePath(s[m[0]+1 : m[1]-1])
		if err != nil {
			return t, err
		}
		t.texts, t.paths = append(t.texts, s[at:m[0]]), append(t.paths, p)
		at = m[1]
	}
	t.texts = append(t.texts, s[at:])
	return t, nil
}

// fill writes the values of an observation into the text: strings as they are, others as JSON,
// several of them in lines. found says that there was any value.
func (t template) fill(observation any) (out string, found bool) {
	var b strings.Builder
	for i, p := range t.paths {
		b.WriteString(t.texts[i])
		values := p.find(observation)
		found = found || len(values) > 0
		for j, v := range values {
			if j > 0 {
				b.WriteByte('\n')
			}
			b.WriteString(text(v))
		}
	}
	b.WriteString(t.texts[len(t.paths)])
	return b.String(), found || len(t.paths) == 0
}

// text returns a string as it is and any other value as JSON.
func text(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	out, err := appendJSON(nil, v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(out)
}

// appendJSON appends a value as JSON, without escapes of <, > and &.
func appendJSON(dst []byte, v any) ([]byte, error) {
	out := bytes.NewBuffer(dst)
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimRight(out.Bytes(), "\n"), err
}
