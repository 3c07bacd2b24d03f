// Package settings fills typed configuration structs from YAML and from
// key=value overrides.
//
// Fields with a yaml tag are settings; nested structs make dotted keys.
// Every fault is reported, with its line and, for an unknown key, the
// nearest known one. The doc tag of a field says what it means, other tags which values are
// allowed (Check), and when it has no effect (Idle).
package settings

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"vagen/internal/field"
	"vagen/internal/safeyaml"
)

// ErrSetting is wrapped by every error of this package.
var ErrSetting = errors.New("bad setting")

// Key describes one setting.
type Key struct {
	Path   string
	Doc    string
	Unit   string // "" for numbers without one, and for other types
	Owner  string // the part of a program that honours the setting, by the tag owner
	Resume string // when the setting may differ between a run and its continuation, by the tag resume
	Value  any    // current value; nil where it stands for null
}

// Keys lists the settings of the struct that v points to, in declaration order.
func Keys(v any) []Key {
	var out []Key
	for f := range fieldsOf(v).all {
		k := Key{f.path, f.tag["doc"], f.tag["unit"], f.tag["owner"], f.tag["resume"], f.Interface()}
		if f.isNull() {
			k.Value = nil
		}
		out = append(out, k)
	}
	return out
}

// Default gives the settings of the struct that v points to the values of their tags default, which are YAML.
// Others stay as they are.
func Default(v any) {
	of := fieldsOf(v)
	for f := range of.all {
		value := f.fallback
		if m, ok := value.(map[string]any); ok {
			value = maps.Clone(m)
		}
		if value == nil {
			continue
		}
		if err := of.assign(f.path, value); err != nil {
			panic(fmt.Sprintf("settings: default: %v", err)) // declarations are constant
		}
	}
}

// leaf is a setting that can be set.
type leaf struct {
	reflect.Value
	*location
}

// isNull reports whether a field holds the value that its tag has for null.
func (f leaf) isNull() bool {
	null, ok := f.tag["null"]
	return ok && fmt.Sprint(f.Interface()) == null
}

// tags are those of a field and, after them, of the structs that it is in; the first of a key holds.
type tags map[string]string

func parseTags(text reflect.StructTag) tags {
	out := tags{}
	for {
		key, rest, _ := strings.Cut(strings.TrimLeft(string(text), " "), ":")
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return out
		}
		if _, set := out[key]; !set {
			out[key], _ = strconv.Unquote(quoted)
		}
		text = reflect.StructTag(rest[len(quoted):])
	}
}

// location is where a setting is in a struct.
type location struct {
	path     string
	index    []int
	tag      tags
	fallback any // by the tag default; nil for none
}

// shape has the settings of a type of structs.
type shape struct {
	list     []location
	at       map[string]*location // by path
	sections map[string]bool      // the paths of structs
}

// shapes has the *shape of each reflect.Type: tags are long, and configurations are walked often.
var shapes sync.Map

func shapeOf(t reflect.Type) *shape {
	if known, ok := shapes.Load(t); ok {
		return known.(*shape)
	}
	s := &shape{locate(t, location{}, "", nil), map[string]*location{}, map[string]bool{}}
	for i := range s.list {
		l := &s.list[i]
		s.at[l.path] = l
		for at, c := range l.path {
			if c == '.' {
				s.sections[l.path[:at]] = true
			}
		}
	}
	shapes.Store(t, s)
	return s
}

func locate(t reflect.Type, in location, outer reflect.StructTag, found []location) []location {
	for name, f := range field.Named(t, "yaml") {
		at := location{path: in.path + name, index: slices.Concat(in.index, f.Index)}
		tag := f.Tag + " " + outer
		if f.Type.Kind() == reflect.Struct {
			at.path += "."
			found = locate(f.Type, at, tag, found)
			continue
		}
		at.tag = parseTags(tag)
		at.fallback, _ = safeyaml.Value([]byte(at.tag["default"])) // declarations are tested
		found = append(found, at)
	}
	return found
}

// fields are the settings of a struct.
type fields struct {
	*shape
	of reflect.Value
}

// fieldsOf returns the settings of the struct that v points to.
func fieldsOf(v any) fields {
	s := reflect.ValueOf(v).Elem()
	return fields{shapeOf(s.Type()), s}
}

// all yields the settings in declaration order.
func (f fields) all(yield func(leaf) bool) {
	for i := range f.list {
		if l := &f.list[i]; !yield(leaf{f.of.FieldByIndex(l.index), l}) {
			return
		}
	}
}

// leaf returns the setting with a path.
func (f fields) leaf(path string) (_ leaf, ok bool) {
	l, ok := f.at[path]
	if !ok {
		return leaf{}, false
	}
	return leaf{f.of.FieldByIndex(l.index), l}, true
}

// owner returns the setting that a key belongs to: its own, or the map that it is an entry of.
func (f fields) owner(path string) (_ leaf, ok bool) {
	for at := path; at != ""; at = at[:max(0, strings.LastIndexByte(at, '.'))] {
		if l, ok := f.leaf(at); ok && (at == path || l.Kind() == reflect.Map) {
			return l, true
		}
	}
	return leaf{}, false
}

// unknown names the nearest key; of a field and a foreign key that are equally near,
// it names the field.
func (f fields) unknown(path string, foreign ...Foreign) error {
	names := slices.Sorted(maps.Keys(f.at))
	for _, other := range foreign {
		if !strings.Contains(other.Key, "*") {
			names = append(names, other.Key)
		}
	}
	return field.Unknown(path, names)
}

// Set gives one key a value as YAML or JSON decode it. Keys below a map setting
// set its entry, with further dots entries of maps inside.
func Set(v any, path string, value any) error {
	if err := fieldsOf(v).assign(path, value); err != nil {
		return fmt.Errorf("%w: %w", ErrSetting, err)
	}
	return nil
}

// Override applies "key=value" with the value in YAML, as Set does. A leading "+"
// or "++" on the key is accepted and means the same.
func Override(v any, assignment string) error {
	path, value, err := parseOverride(assignment)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSetting, err)
	}
	return Set(v, path, value)
}

func parseOverride(assignment string) (path string, value any, err error) {
	path, text, ok := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(assignment, "+"), "+"), "=")
	if !ok {
		return "", nil, fmt.Errorf("override %q must have the form key=value", assignment)
	}
	if value, err = safeyaml.Value([]byte(text)); err != nil {
		return "", nil, fmt.Errorf("%s: %w", path, err)
	}
	return path, unjoined(value, text), nil
}

// unjoined returns the text of a number that is written with underscores: for a
// setting of type text 0.5_5 may be two numbers, while numeric settings read it as
// one, as old versions of YAML do.
func unjoined(value any, text string) any {
	if _, isText := value.(string); !isText && strings.Contains(text, "_") {
		if _, ok := rules.Number(value); ok {
			return strings.TrimSpace(text)
		}
	}
	return value
}

// Fill sets every key of a mapping that YAML, JSON or a table was decoded into.
// Mappings below stand for nested structs. It returns all faults, in the order of
// the keys.
func Fill(v any, values map[string]any) []error {
	return fieldsOf(v).fill("", values)
}

func (f fields) fill(prefix string, values map[string]any) []error {
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(values)) {
		path, value := prefix+name, values[name]
		var keyed field.Checks
		inner, ok := value.(map[string]any)
		switch section := f.sections[path]; {
		case ok && section:
			problems = append(problems, f.fill(path+".", inner)...)
		case section:
			problems = append(problems, field.Errorf("{%s} is %w", path, &field.Mismatch{Found: value, Want: "a mapping"}))
		default:
			if err := f.assign(path, value); err != nil {
				keyed.Add(path, err)
			}
		}
		problems = append(problems, keyed.Errors()...)
	}
	return problems
}

// assign sets a field, or an entry of a map field.
func (f fields) assign(path string, value any) error {
	of, ok := f.owner(path)
	if !ok {
		return f.unknown(path)
	}
	if of.path != path {
		m, _ := of.Interface().(map[string]any)
		m, err := with(m, strings.Split(path[len(of.path)+1:], "."), value)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		return set(of.Value, of.path, m)
	}
	if _, off := of.tag["off"]; off && value == false {
		value = nil
	}
	null, nullable := of.tag["null"]
	if value == "" && (of.Kind() == reflect.Pointer || nullable && of.Kind() != reflect.String) {
		value = nil // an empty text means unset, where the field can be unset
	}
	if nullable && value == nil {
		if of.Kind() == reflect.String {
			value = null
		} else {
			var err error
			if value, err = safeyaml.Value([]byte(null)); err != nil {
				return fmt.Errorf("%s: the value for null: %w", path, err)
			}
		}
	}
	if _, ok := of.tag["number"]; ok {
		value = numberText(value)
	}
	return set(of.Value, path, value)
}

// numberText turns a number into its text, for settings that take either.
func numberText(value any) any {
	if _, isText := value.(string); isText {
		return value
	}
	if x, ok := rules.Number(value); ok {
		return strconv.FormatFloat(x, 'g', -1, 64)
	}
	return value
}

// with returns a copy of a map with one entry changed, or removed if it exists and
// the value is nil. Structs share their maps when they are copied, so the map itself
// must stay as it is.
func with(m map[string]any, names []string, value any) (map[string]any, error) {
	out := maps.Clone(m)
	if out == nil {
		out = map[string]any{}
	}
	name := names[0]
	if name == "" {
		return nil, errors.New("a part of the key is empty")
	}
	if len(names) > 1 {
		inner, ok := out[name].(map[string]any)
		if !ok && out[name] != nil {
			return nil, fmt.Errorf("%q is %v (%T), which has no entries", name, out[name], out[name])
		}
		var err error
		if value, err = with(inner, names[1:], value); err != nil {
			return nil, err
		}
	}
	if _, there := out[name]; there && value == nil {
		delete(out, name)
		return out, nil
	}
	out[name] = value
	return out, nil
}

// rules are those of YAML: texts such as 1e-6 are numbers, and a value may stand for a
// list of it.
var rules = field.Rules{NumberText: true, Single: true}

// set converts a decoded value to the field's type.
func set(f reflect.Value, path string, value any) error {
	if bad := rules.Set(f, value); bad != nil {
		return field.Errorf("{%s}%s is %w", path, bad.At, bad)
	}
	return nil
}
