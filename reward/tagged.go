package reward

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
)

var tagName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// NewTagged returns the parser of a format of your own for an environment of your own: one
// tagged block after another, such as <plan>…</plan><answer>…</answer> for the sections plan
// and answer. The section answer holds the actions. Under Lite the shape is found anywhere and
// actions are lower-cased; under Legacy the whole text must have it.
//
// The error names a name that a format of this package has, sections that are not 1 to 5
// different tags of lower-case letters, digits and underscores with answer among them, and
// another dialect.
func NewTagged(name string, sections []string, o ParserOptions) (*Parser, error) {
	if o.Dialect == "" {
		o.Dialect = Lite
	}
	if err := checkTagged(name, sections, o.Dialect); err != nil {
		return nil, fmt.Errorf("reward: format %q: %w", name, err)
	}
	whole := o.Dialect == Legacy
	return newParser(&format{
		dialect: o.Dialect, name: name, shape: blocks(slices.Clone(sections)...), strict: whole, whole: whole,
	}, o)
}

func checkTagged(name string, sections []string, d Dialect) error {
	switch {
	case name == "":
		return errors.New("it has no name")
	case d != Lite && d != Legacy:
		return fmt.Errorf("dialect %q: %w (must be %q or %q)", d, ErrFormat, Lite, Legacy)
	case slices.Contains(Formats(d), name):
		return fmt.Errorf("the %s dialect has a format of this name", d)
	case len(sections) == 0 || len(sections) > maxPieces:
		return fmt.Errorf("%d sections, must be 1 to %d", len(sections), maxPieces)
	case !slices.Contains(sections, SectionAnswer):
		return fmt.Errorf("sections %q: %q is missing, which holds the actions", sections, SectionAnswer)
	}
	for i, s := range sections {
		if !tagName.MatchString(s) || slices.Contains(sections[:i], s) {
			return fmt.Errorf("section %q: must be a tag of lower-case letters, digits and underscores, used once", s)
		}
	}
	return nil
}
