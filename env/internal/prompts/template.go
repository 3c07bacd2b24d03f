package prompts

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"vagen/env"
)

// template is a text with named placeholders: literal texts at even indices, and names at odd ones.
type template []string

// parse reads a template. A placeholder is a name in braces, and {{ and }} are braces in
// the text, as in Python's format strings.
func parse(text string) (template, error) {
	if strings.Contains(text, env.ImageMark) {
		return nil, fmt.Errorf("contains %s, must contain {%s} where the picture belongs", env.ImageMark, Observation)
	}
	t := template{""}
	for {
		i := strings.IndexAny(text, "{}")
		if i < 0 {
			t[len(t)-1] += text
			return t, nil
		}
		t[len(t)-1] += text[:i]
		brace := text[i]
		text = text[i+1:]
		if text != "" && text[0] == brace {
			t[len(t)-1] += string(brace)
			text = text[1:]
			continue
		}
		name, rest, ok := strings.Cut(text, "}")
		if brace == '}' || !ok || !isName(name) {
			return nil, fmt.Errorf("contains a single %q before %q, must be {NAME}, or %s for the brace itself", brace,
				beginning(text), strings.Repeat(string(brace), 2))
		}
		t = append(t, name, "")
		text = rest
	}
}

// isName reports whether a text is a possible name of a placeholder.
func isName(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') }) < 0
}

// beginning returns the first characters of a text.
func beginning(s string) string {
	if r := []rune(s); len(r) > 16 {
		return string(r[:16]) + "…"
	}
	return s
}

// names returns the placeholders in order.
func (t template) names() []string {
	var list []string
	for i := 1; i < len(t); i += 2 {
		list = append(list, t[i])
	}
	return list
}

// write fills the placeholders.
func (t template) write(values Values) string {
	var b strings.Builder
	for i, s := range t {
		if i%2 == 1 {
			s = values[s]
		}
		b.WriteString(s)
	}
	return b.String()
}

// check returns an error if a name is not among the known ones, or if the template of an
// observation does not show the state exactly once.
func (t template) check(known []string, observation bool) error {
	var errs []error
	states := 0
	for _, name := range t.names() {
		if !slices.Contains(known, name) {
			errs = append(errs, fmt.Errorf("contains {%s}, must be one of {%s}", name, strings.Join(known, "}, {")))
		}
		if name == Observation || name == Default {
			states++
		}
	}
	if observation && states != 1 {
		errs = append(errs, fmt.Errorf("shows the state %d times, must contain {%s} or {%s} once", states, Observation,
			Default))
	}
	return errors.Join(errs...)
}
