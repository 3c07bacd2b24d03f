package settings

import (
	"maps"
	"reflect"
	"strings"
)

// Maps are merged from source to source: a mapping adds entries to those of earlier
// sources, at all depths, and replaces those of the same name. null removes what
// earlier sources gave: an entry, or as the value of the whole map all of them.
//
// The tag replaces lists, for entries that exclude each other, "name: others", with
// semicolons between. Where a source gives an entry of that name, the others are
// removed if they come from earlier sources.

// setMap sets a map, or an entry of it, for the current source.
func (l *Loader) setMap(f leaf, path string, value any) error {
	start, known := l.starts[f.path]
	if !known {
		start, _ = f.Interface().(map[string]any)
	}
	defer func() { l.starts[f.path] = start }()
	given, whole := value.(map[string]any)
	names := []string{}
	switch entry, below := strings.CutPrefix(path, f.path+"."); {
	case below:
		name, _, _ := strings.Cut(entry, ".")
		names = append(names, name)
	case whole:
		for name := range given {
			names = append(names, name)
		}
		value = merged(start, given)
	case value == nil:
		start = nil
	}
	for _, name := range names {
		l.entries[f.path+"."+name] = l.layer
	}
	if err := l.fields.assign(path, value); err != nil {
		return err
	}
	m, _ := f.Interface().(map[string]any)
	m, start = maps.Clone(m), maps.Clone(start)
	for _, name := range names {
		for _, other := range replaced(f.tag, name) {
			if l.entries[f.path+"."+other] < l.layer {
				delete(m, other)
				delete(start, other)
			}
		}
	}
	f.Set(reflect.ValueOf(m))
	return nil
}

// Merge returns a map with the entries of another on top, as a source adds them to those
// of earlier sources: at all depths, null removes an entry, and entries that the tag of the
// maps' field excludes are removed. Neither map changes.
func Merge(below, top map[string]any, tag reflect.StructTag) map[string]any {
	below = maps.Clone(below)
	for name := range top {
		for _, other := range replaced(parseTags(tag), name) {
			delete(below, other)
		}
	}
	return merged(below, top)
}

// merged is a map with the entries of another on top.
func merged(below, top map[string]any) map[string]any {
	out := maps.Clone(below)
	if out == nil {
		out = map[string]any{}
	}
	for name, value := range top {
		old, there := out[name]
		inner, both := value.(map[string]any)
		under, isMap := old.(map[string]any)
		switch {
		case value == nil && there:
			delete(out, name)
		case both && isMap:
			out[name] = merged(under, inner)
		default:
			out[name] = value
		}
	}
	return out
}

// replaced are the entries that the one of this name replaces.
func replaced(tag tags, name string) []string {
	for rule := range strings.SplitSeq(tag["replaces"], ";") {
		if from, to, ok := strings.Cut(rule, ":"); ok && strings.TrimSpace(from) == name {
			return strings.Fields(to)
		}
	}
	return nil
}
