// Package settings fills typed configuration structs from YAML and from
// key=value overrides.
//
// A struct's fields take part by their yaml tag; nested structs make dotted
// keys. Every fault is reported, with its line and, for an unknown key, the
// nearest known one. The doc tag of a field says what it means.
package settings

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"vagen/internal/nearest"
	"vagen/internal/safeyaml"
)

// ErrSetting is wrapped by every error of this package.
var ErrSetting = errors.New("bad setting")

// Key describes one setting.
type Key struct {
	Path  string
	Doc   string
	Unit  string // "" for numbers without one, and for what is no number
	Value any    // current value; nil where it stands for null
}

// Keys lists the settings of the struct that v points to, in declaration order.
func Keys(v any) []Key {
	var out []Key
	walk(reflect.ValueOf(v).Elem(), "", func(path string, f reflect.Value, tag reflect.StructTag) {
		k := Key{Path: path, Doc: tag.Get("doc"), Unit: tag.Get("unit"), Value: f.Interface()}
		if isNull(f, tag) {
			k.Value = nil
		}
		out = append(out, k)
	})
	return out
}

// field is a setting that can be set.
type field struct {
	reflect.Value
	tag reflect.StructTag
}

// isNull reports whether a field holds the value that its tag has for null.
func isNull(f reflect.Value, tag reflect.StructTag) bool {
	null, ok := tag.Lookup("null")
	return ok && fmt.Sprint(f.Interface()) == null
}

// walk visits the leaves of a struct.
func walk(v reflect.Value, prefix string, visit func(path string, f reflect.Value, tag reflect.StructTag)) {
	for name, f := range named(v) {
		if f.Type.Kind() == reflect.Struct {
			walk(v.FieldByIndex(f.Index), prefix+name+".", visit)
			continue
		}
		visit(prefix+name, v.FieldByIndex(f.Index), f.Tag)
	}
}

// named yields the fields of a struct that take part, by their names. Embedded
// structs without a name lend theirs.
func named(v reflect.Value) func(yield func(string, reflect.StructField) bool) {
	return func(yield func(string, reflect.StructField) bool) {
		t := v.Type()
		for i := range t.NumField() {
			field := t.Field(i)
			name, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
			if name == "" && field.Anonymous && field.Type.Kind() == reflect.Struct {
				for name, inner := range named(v.Field(i)) { // lends its fields
					inner.Index = append([]int{i}, inner.Index...)
					if !yield(name, inner) {
						return
					}
				}
				continue
			}
			if name != "" && name != "-" && !yield(name, field) {
				return
			}
		}
	}
}

// Load sets every key of a YAML document. All faults are reported at once.
func Load(v any, raw []byte) error {
	l := NewLoader(v, nil)
	l.YAML("", raw)
	if len(l.problems) > 0 {
		return fmt.Errorf("%w: %w", ErrSetting, errors.Join(l.problems...))
	}
	return nil
}

func index(v any) map[string]field {
	fields := map[string]field{}
	walk(reflect.ValueOf(v).Elem(), "", func(path string, f reflect.Value, tag reflect.StructTag) { fields[path] = field{f, tag} })
	return fields
}

func isSection(fields map[string]field, path string) bool {
	for known := range fields {
		if strings.HasPrefix(known, path+".") {
			return true
		}
	}
	return false
}

// unknown names the nearest key; a field comes before a foreign key that is as
// near.
func unknown(fields map[string]field, path string, foreign ...Foreign) error {
	names := slices.Sorted(maps.Keys(fields))
	for _, f := range foreign {
		if !strings.Contains(f.Key, "*") {
			names = append(names, f.Key)
		}
	}
	return fmt.Errorf("unknown key %q%s", path, nearest.Hint(path, names))
}

// Set gives one key a value as YAML or JSON decode it. Keys below a map setting
// set its entry, with further dots entries of maps inside.
func Set(v any, path string, value any) error {
	if err := assign(index(v), path, value); err != nil {
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

// unjoined returns the text of a number that is written with underscores: a
// setting that takes texts may mean two numbers by 0.5_5, while others take it for
// one, as old versions of YAML do.
func unjoined(value any, text string) any {
	if _, isText := value.(string); !isText && strings.Contains(text, "_") {
		if _, ok := number(value); ok {
			return strings.TrimSpace(text)
		}
	}
	return value
}

// Fill sets every key of a mapping that YAML, JSON or a table was decoded into.
// Mappings below stand for nested structs. It returns all faults, in the order of
// the keys.
func Fill(v any, values map[string]any) []error {
	return fill(index(v), "", values)
}

func fill(fields map[string]field, prefix string, values map[string]any) []error {
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(values)) {
		path, value := prefix+name, values[name]
		inner, ok := value.(map[string]any)
		switch {
		case ok && isSection(fields, path):
			problems = append(problems, fill(fields, path+".", inner)...)
		case isSection(fields, path):
			problems = append(problems, fmt.Errorf("%s is %v (%T), must be a mapping", path, value, value))
		default:
			if err := assign(fields, path, value); err != nil {
				problems = append(problems, err)
			}
		}
	}
	return problems
}

// assign sets a field, or an entry of a map field.
func assign(fields map[string]field, path string, value any) error {
	if f, ok := fields[path]; ok {
		if _, off := f.tag.Lookup("off"); off && value == false {
			value = nil
		}
		null, nullable := f.tag.Lookup("null")
		if value == "" && (f.Kind() == reflect.Pointer || nullable && f.Kind() != reflect.String) {
			value = nil // an empty text leaves unset what can be unset
		}
		if nullable && value == nil {
			if f.Kind() == reflect.String {
				value = null
			} else {
				var err error
				if value, err = safeyaml.Value([]byte(null)); err != nil {
					return fmt.Errorf("%s: the value for null: %w", path, err)
				}
			}
		}
		if _, ok := f.tag.Lookup("number"); ok {
			value = numberText(value)
		}
		return set(f.Value, path, value)
	}
	for known, f := range fields {
		entry, below := strings.CutPrefix(path, known+".")
		if !below || f.Kind() != reflect.Map {
			continue
		}
		m, _ := f.Interface().(map[string]any)
		m, err := with(m, strings.Split(entry, "."), value)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		return set(f.Value, known, m)
	}
	return unknown(fields, path)
}

// numberText turns a number into its text, for settings that take either.
func numberText(value any) any {
	if _, isText := value.(string); isText {
		return value
	}
	if x, ok := number(value); ok {
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

// set converts a decoded value to the field's type.
func set(f reflect.Value, path string, value any) error {
	fail := func(want string) error {
		if value == nil {
			return fmt.Errorf("%s is null, must be %s", path, want)
		}
		return fmt.Errorf("%s is %v (%T), must be %s", path, value, value, want)
	}
	switch f.Kind() {
	case reflect.Pointer:
		if value == nil {
			f.SetZero()
			return nil
		}
		p := reflect.New(f.Type().Elem())
		if err := set(p.Elem(), path, value); err != nil {
			return err
		}
		f.Set(p)
	case reflect.String:
		s, ok := value.(string)
		if !ok {
			return fail("a text")
		}
		f.SetString(s)
	case reflect.Bool:
		b, ok := value.(bool)
		if !ok {
			return fail("true or false")
		}
		f.SetBool(b)
	case reflect.Int, reflect.Int64:
		n, ok := whole(value)
		if !ok {
			return fail("a whole number")
		}
		f.SetInt(n)
	case reflect.Uint64:
		n, ok := value.(uint64) // may be beyond int64
		if !ok {
			var signed int64
			signed, ok = whole(value)
			n, ok = uint64(signed), ok && signed >= 0
		}
		if !ok {
			return fail("a whole number, not negative")
		}
		f.SetUint(n)
	case reflect.Float64:
		x, ok := number(value)
		if !ok {
			return fail("a number")
		}
		f.SetFloat(x)
	case reflect.Slice:
		return setSlice(f, path, value)
	case reflect.Map:
		m, ok := value.(map[string]any)
		if !ok && value != nil {
			return fail("a mapping")
		}
		if f.Type() != reflect.TypeFor[map[string]any]() {
			return fmt.Errorf("%s has the type %v, which no setting can have", path, f.Type())
		}
		f.Set(reflect.ValueOf(m))
	default:
		return fmt.Errorf("%s has the type %v, which no setting can have", path, f.Type())
	}
	return nil
}

func setSlice(f reflect.Value, path string, value any) error {
	list, ok := value.([]any)
	if !ok {
		if value == nil {
			f.SetZero()
			return nil
		}
		list = []any{value}
	}
	out := reflect.MakeSlice(f.Type(), len(list), len(list))
	for i, x := range list {
		if err := set(out.Index(i), fmt.Sprintf("%s[%d]", path, i), x); err != nil {
			return err
		}
	}
	f.Set(out)
	return nil
}

// whole reads integers, and floats without fraction.
func whole(value any) (int64, bool) {
	switch x := value.(type) {
	case int:
		return int64(x), true
	case int64:
		return x, true
	case uint64:
		return int64(x), x <= math.MaxInt64
	case float64:
		return int64(x), x == math.Trunc(x) && math.Abs(x) < 1<<53
	case string:
		if digits := strings.ReplaceAll(x, "_", ""); digits != x {
			n, err := strconv.ParseInt(digits, 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}
