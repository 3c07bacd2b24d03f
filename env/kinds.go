package env

import (
	"reflect"

	"vagen/internal/field"
)

// OptionKind says what an option's value gives access to. A field of a struct of options
// that can hold text declares its kind by a tag, as in
//
//	DataDir string `option:"data_dir" kind:"path"`
//
// Fields of numbers and booleans are of KindNumber without one.
type OptionKind string

// The kinds of options. An option that can hold text and declares none of them has
// the kind "", which a Guard treats as the most restricted one.
const (
	KindNumber  OptionKind = "number"  // numbers, booleans, and lists of them
	KindText    OptionKind = "text"    // text that reaches neither the network nor files
	KindAddress OptionKind = "address" // where the environment connects, or what it requests there
	KindPath    OptionKind = "path"    // a file or folder that the environment reads or writes
	KindSecret  OptionKind = "secret"  // a key or password
)

// open reports whether any client may choose an option of the kind.
func (k OptionKind) open() bool { return k == KindNumber || k == KindText }

// OptionKinds returns the kinds of all options of a struct by name. Options have
// the names of their tags option or yaml; those of a nested struct follow its name
// and a dot.
func OptionKinds(of any) map[string]OptionKind {
	kinds := make(map[string]OptionKind)
	t := reflect.TypeOf(of)
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t != nil && t.Kind() == reflect.Struct {
		kindsOf(t, "", kinds)
	}
	return kinds
}

func kindsOf(t reflect.Type, prefix string, kinds map[string]OptionKind) {
	for _, tag := range []string{"option", "yaml"} {
		for name, f := range field.Named(t, tag) {
			if f.Type.Kind() == reflect.Struct {
				kindsOf(f.Type, prefix+name+".", kinds)
			} else {
				kinds[prefix+name] = kindOf(f)
			}
		}
	}
}

func kindOf(f reflect.StructField) OptionKind {
	switch k := OptionKind(f.Tag.Get("kind")); {
	case k == KindText || k == KindAddress || k == KindPath || k == KindSecret:
		return k
	case k == "" && !holdsText(f.Type):
		return KindNumber
	}
	return ""
}

// holdsText reports whether a value of the type can hold text.
func holdsText(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return holdsText(t.Elem())
	case reflect.Bool, reflect.Float32, reflect.Float64,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return false
	}
	return true
}
