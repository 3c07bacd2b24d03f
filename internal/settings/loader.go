package settings

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"vagen/internal/safeyaml"
)

// Loader fills a struct from several sources, later ones overriding earlier ones, and
// collects the errors of all of them. It also handles keys that are not fields of the
// struct, and values that refer to other keys, such as ${data.truncation}.
type Loader struct {
	// Unknown, if not nil, receives the keys that are neither fields nor foreign, which are
	// errors otherwise.
	Unknown func(path string, value any)
	// Variables means that documents may refer to environment variables, see safeyaml.Expand.
	Variables bool

	fields
	foreign []Foreign
	refer   bool // references are resolved

	layer    int // of the source that is read
	base     int // the last layer that is a base
	given    map[string]Given
	pending  map[string]Given          // fields whose values refer to other keys
	others   map[string]Given          // values of foreign keys, by key
	order    []string                  // of others
	starts   map[string]map[string]any // maps before the source that is read set anything of them, by path
	entries  map[string]int            // the layer of entries of maps, by key
	problems []error
	notes    []Note
}

// Given says where a field got its value.
type Given struct {
	Where string // "" for sources that the program wrote itself
	Name  string // the key that was written, the field's or an alias
	Value any
	Base  bool // by a base, see Loader.Base
	layer int
}

// NewLoader returns a loader of the struct that v points to. Without foreign keys
// it uses texts with ${…} unchanged.
func NewLoader(v any, foreign []Foreign) *Loader {
	return &Loader{
		fields: fieldsOf(v), foreign: foreign, refer: foreign != nil,
		given: map[string]Given{}, pending: map[string]Given{}, others: map[string]Given{},
		entries: map[string]int{},
	}
}

// Base reads a document that the user did not write, such as a preset, as a source of its
// own, below those of YAML and Overrides.
func (l *Loader) Base(name string, raw []byte) {
	l.base = l.layer + 1
	l.YAML(name, raw)
}

// YAML reads a document as a source of its own. name stands before the lines of
// messages; "" leaves it out. A document with every key, as Marshal writes it, is a
// base: it does not show which values the user chose.
func (l *Loader) YAML(name string, raw []byte) {
	l.begin()
	file, err := safeyaml.Parse(raw)
	if err != nil {
		l.problems = append(l.problems, at(name, err))
		return
	}
	for _, doc := range file.Docs { // one at most
		if doc.Body == nil {
			continue
		}
		body, faults := safeyaml.Expand(doc.Body, l.Variables)
		for _, err := range faults {
			l.problems = append(l.problems, at(name, err))
		}
		if body == nil {
			return
		}
		l.node(name, "", body)
	}
	for f := range l.all {
		if l.given[f.path].layer != l.layer {
			return
		}
	}
	l.base = l.layer // has every key
}

// Overrides applies key=value texts, as Override does, as a source of its own.
func (l *Loader) Overrides(assignments []string) {
	l.begin()
	for i, text := range assignments {
		where := fmt.Sprintf("override %d", i+1)
		path, value, err := parseOverride(text)
		if err == nil {
			err = l.assign(where, path, value)
		}
		if err != nil {
			l.problems = append(l.problems, at(where, err))
		}
	}
}

// begin begins a source.
func (l *Loader) begin() {
	l.layer++
	l.starts = map[string]map[string]any{}
}

// at puts a place before an error.
func at(where string, err error) error {
	if where == "" {
		return err
	}
	return fmt.Errorf("%s: %w", where, err)
}

// node sets what a mapping holds.
func (l *Loader) node(name, prefix string, node ast.Node) {
	var pairs []*ast.MappingValueNode
	switch n := node.(type) {
	case *ast.MappingNode:
		pairs = n.Values
	case *ast.MappingValueNode:
		pairs = []*ast.MappingValueNode{n}
	case *ast.NullNode:
		return
	default:
		what := strings.TrimSuffix(prefix, ".")
		if what == "" {
			what = "the document"
		}
		l.problems = append(l.problems, at(place(name, node), fmt.Errorf("%s must be a mapping of keys to values", what)))
		return
	}
	for _, p := range pairs {
		path := prefix + key(p.Key)
		if l.isParent(path, p.Value) {
			l.node(name, path+".", p.Value)
			continue
		}
		var value any
		err := yaml.NodeToValue(p.Value, &value)
		if err == nil {
			err = l.assign(place(name, p.Key), path, unjoined(value, p.Value.GetToken().Value))
		} else {
			err = fmt.Errorf("%s: %w", path, err)
		}
		if err != nil {
			l.problems = append(l.problems, at(place(name, p.Key), err))
		}
	}
}

// isParent reports whether a value holds the keys below a path, rather than being
// that key's own.
func (l *Loader) isParent(path string, value ast.Node) bool {
	section := l.sections[path]
	switch value.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
	case *ast.NullNode:
		return section
	default:
		return section && FindForeign(l.foreign, path) == nil
	}
	if _, ok := l.at[path]; ok || section {
		return section
	}
	if short := FindForeign(l.foreign, path); short != nil && short.Key == path {
		return false
	}
	return slices.ContainsFunc(l.foreign, func(f Foreign) bool { return leads(f.Key, path) })
}

// key is the text of a key, without the quotes it may have in JSON.
func key(n ast.MapKeyNode) string {
	if s, ok := n.(*ast.StringNode); ok {
		return s.Value
	}
	return n.String()
}

func place(name string, n ast.Node) string {
	line := fmt.Sprintf("line %d", n.GetToken().Position.Line)
	if name == "" {
		return line
	}
	return name + ": " + line
}

// assign sets a field, or keeps the value of a foreign key for Finish.
func (l *Loader) assign(where, path string, value any) error {
	if _, ok := l.owner(path); !ok {
		if f := FindForeign(l.foreign, path); f != nil {
			if _, again := l.others[path]; !again {
				l.order = append(l.order, path)
			}
			l.others[path] = Given{Where: where, Value: value, layer: l.layer}
			return nil
		}
		if l.Unknown != nil {
			l.Unknown(path, value)
			return nil
		}
		return l.unknown(path, l.foreign...)
	}
	return l.set(Given{Where: where, Name: path, Value: value, layer: l.layer}, path)
}

func (l *Loader) set(g Given, path string) error {
	l.given[path] = g
	delete(l.pending, path)
	if l.refer && refers(g.Value) {
		l.pending[path] = g
		return nil
	}
	if of, _ := l.owner(path); of.Kind() == reflect.Map {
		return l.setMap(of, path, g.Value)
	}
	return l.fields.assign(path, g.Value)
}

// Finish resolves references, applies aliases, and returns notes on keys without
// effect, where fields got their values, and all errors.
func (l *Loader) Finish() ([]Note, map[string]Given, []error) {
	for _, path := range l.order {
		l.finishForeign(path, l.others[path])
	}
	for _, path := range slices.Sorted(maps.Keys(l.pending)) {
		p := l.pending[path]
		value, err := l.resolve(p.Value, []string{path})
		if err == nil {
			err = l.fields.assign(path, value)
		} else {
			err = fmt.Errorf("%s: %w", path, err)
		}
		if err != nil {
			l.problems = append(l.problems, at(p.Where, err))
		}
	}
	for path, g := range l.given {
		g.Base = g.layer <= l.base
		l.given[path] = g
	}
	return l.notes, l.given, l.problems
}

// finishForeign applies or refuses a foreign key, or adds a note about it.
func (l *Loader) finishForeign(path string, p Given) {
	f := FindForeign(l.foreign, path)
	if f.Kind == Noted {
		l.notes = append(l.notes, Note{Key: path, Where: p.Where, About: f.About})
		return
	}
	value, err := l.resolve(p.Value, []string{path})
	switch {
	case err != nil:
		err = fmt.Errorf("%s: %w", path, err)
	case f.harmless(value):
	case f.Kind == Refused:
		err = fmt.Errorf("%s is %s, which is not supported: %s", path, display(value), f.About)
	default:
		err = l.rename(f, path, value, p)
	}
	if err != nil {
		l.problems = append(l.problems, at(p.Where, err))
	}
}

// rename sets a field by another of its names. Within a source, two names must
// not disagree; between sources, the later one counts.
func (l *Loader) rename(f *Foreign, path string, value any, p Given) error {
	given := value
	if f.Values != nil {
		var ok bool
		if value, ok = f.Values[display(given)]; !ok {
			return fmt.Errorf("%s is %s, must be one of %s", path, display(given),
				strings.Join(slices.Sorted(maps.Keys(f.Values)), ", "))
		}
	}
	old, set := l.given[f.To]
	switch {
	case set && old.layer > p.layer:
		return nil
	case f.Flag != nil:
		own, err := l.lookUp(f.To, []string{path})
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if value, err = f.Flag.value(given, own); err != nil {
			return fmt.Errorf("%s is %s, %w", path, display(given), err)
		}
	case p.layer <= l.base: // a file with every key: the alias was given, the field may be a default
	case set && old.layer == p.layer && old.Value != nil && !l.same(old.Value, value):
		return fmt.Errorf("%s is %s, but %s is %s (%s): they are two names of one setting", path, display(given), old.Name,
			display(old.Value), old.Where)
	}
	if err := l.fields.assign(f.To, value); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	delete(l.pending, f.To)
	l.given[f.To] = Given{Where: p.Where, Name: path, Value: value, layer: p.layer}
	return nil
}

// same reports whether a value, with its references resolved, equals another.
func (l *Loader) same(old, value any) bool {
	if resolved, err := l.resolve(old, nil); err == nil {
		old = resolved
	}
	return display(old) == display(value)
}

// errCycle means that a key refers to itself, directly or through other keys.
var errCycle = errors.New("the reference is circular")
