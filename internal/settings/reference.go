package settings

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"vagen/internal/safeyaml"
)

// refers reports whether a value refers to other keys: a text with ${key} in it, or a
// list with such a text, which may be in mappings of the list.
func refers(value any) bool {
	switch x := value.(type) {
	case string:
		return strings.Contains(x, "${")
	case []any:
		return slices.ContainsFunc(x, func(v any) bool {
			m, ok := v.(map[string]any)
			return refers(v) || ok && refers(slices.Collect(maps.Values(m)))
		})
	}
	return false
}

// resolve replaces references by the values of the keys that they name. A text
// that is only a reference gets the value with its type; elsewhere the value's
// text is inserted. trail are the keys whose references led here.
func (l *Loader) resolve(value any, trail []string) (any, error) {
	switch x := value.(type) {
	case string:
		return l.resolveText(x, trail)
	case []any:
		out := make([]any, len(x))
		for i := range x {
			var err error
			if out[i], err = l.resolve(x[i], trail); err != nil {
				return nil, err
			}
		}
		return out, nil
	case map[string]any:
		out := make(map[string]any, len(x))
		for _, key := range slices.Sorted(maps.Keys(x)) {
			var err error
			if out[key], err = l.resolve(x[key], trail); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return value, nil
}

func (l *Loader) resolveText(text string, trail []string) (any, error) {
	var b strings.Builder
	for rest := text; ; {
		before, after, ok := strings.Cut(rest, "${")
		b.WriteString(before)
		if !ok {
			return b.String(), nil
		}
		name, tail, ok := strings.Cut(after, "}")
		if !ok {
			return nil, fmt.Errorf("%q: a reference has no closing brace", text)
		}
		value, err := l.lookUp(strings.TrimSpace(name), trail)
		if err != nil {
			return nil, err
		}
		if before == "" && tail == "" && b.Len() == 0 {
			return value, nil
		}
		b.WriteString(display(value))
		rest = tail
	}
}

// lookUp is the final value of a key.
func (l *Loader) lookUp(name string, trail []string) (any, error) {
	if choice, ok := strings.CutPrefix(name, "oc.select:"); ok {
		return l.choose(choice, trail)
	}
	if slices.Contains(trail, name) {
		return nil, fmt.Errorf("${%s}: %w", name, errCycle)
	}
	trail = append(slices.Clone(trail), name)
	if p, ok := l.pending[name]; ok {
		return l.resolve(p.Value, trail)
	}
	if f, ok := l.leaf(name); ok {
		if f.isNull() || f.Kind() == reflect.Pointer && f.IsNil() {
			return nil, nil
		}
		v := f.Value
		if v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		return plainValue(v), nil
	}
	if p, ok := l.others[name]; ok {
		return l.resolve(p.Value, trail)
	}
	if f := FindForeign(l.foreign, name); f != nil {
		if f.Kind == Alias {
			return l.lookUp(f.To, trail)
		}
		return nil, nil
	}
	if strings.Contains(name, ":") {
		return nil, fmt.Errorf("${%s}: only other keys can be referred to", name)
	}
	return nil, fmt.Errorf("${%s}: %w", name, l.unknown(name))
}

// choose is the value of a key, or the text after the comma if the key does not
// exist. A key that begins with a dot is relative, which is not supported: it does not exist.
func (l *Loader) choose(text string, trail []string) (any, error) {
	name, otherwise, _ := strings.Cut(text, ",")
	name = strings.TrimSpace(name)
	_, other := l.others[name]
	if _, known := l.at[name]; known || other || FindForeign(l.foreign, name) != nil {
		value, err := l.lookUp(name, trail)
		if value != nil || err != nil {
			return value, err
		}
	}
	return safeyaml.Value([]byte(otherwise))
}

// plainValue is a field's value as YAML would decode it.
func plainValue(v reflect.Value) any {
	switch {
	case v.CanInt():
		return v.Int()
	case v.CanUint():
		return v.Uint()
	case v.Kind() == reflect.Slice:
		out := make([]any, v.Len())
		for i := range out {
			out[i] = plainValue(v.Index(i))
		}
		return out
	}
	return v.Interface()
}

// display is a value's text in messages: that of YAML, on one line.
func display(value any) string {
	if s, ok := value.(string); ok {
		return s
	}
	return Text(value)
}
