// Package field decodes and checks the fields of settings and options: which fields of
// a struct take part, how a value is converted to a field's type, and the errors that
// say which field is wrong, what was found and what is allowed.
//
// Two struct tags name fields: yaml for settings (package internal/settings) and option
// for the options of environments (env.Decode). They stay apart because they promise
// different things. Settings nest, are written back with their units and defaults, and
// take numbers as text, as YAML files have them. Options are flat, come also from
// programs and over the network, and are converted only where nothing is lost.
package field

import (
	"reflect"
	"strings"
)

// Named yields the fields of a struct type with a name in the given tag, by that name; with the tag "" all of them,
// by their own names.
// Structs without a name that are embedded, or inline in their tag, contribute their fields, with the tags of both. A
// field's Index counts from t.
func Named(t reflect.Type, tag string) func(yield func(string, reflect.StructField) bool) {
	return func(yield func(string, reflect.StructField) bool) {
		for i := range t.NumField() {
			f := t.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get(tag), ",")
			if tag == "" {
				name = f.Name
			}
			inline := f.Anonymous || strings.HasSuffix(f.Tag.Get(tag), ",inline")
			if name == "" && inline && f.Type.Kind() == reflect.Struct {
				for name, inner := range Named(f.Type, tag) {
					inner.Index = append([]int{i}, inner.Index...)
					inner.Tag += " " + f.Tag
					if !yield(name, inner) {
						return
					}
				}
				continue
			}
			if name != "" && name != "-" && !yield(name, f) {
				return
			}
		}
	}
}
