package env

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"vagen/internal/field"
)

// ErrOption is wrapped by errors about options: unknown names, values of the
// wrong kind.
var ErrOption = errors.New("bad option")

// Decode writes the options of a configuration, as YAML or JSON give them, into
// the struct that into points to. Fields take part by their tag, as in
//
//	Size int `option:"size"`
//
// and so do those of embedded structs. Fields without an option keep their value,
// so the caller sets the defaults first; null keeps the default, too.
//
// Field types are bool, string and its named kinds, integers, floats, time.Duration for seconds, pointers to
// these (null sets nil), slices and arrays of them, and map[string]any. A whole
// number may stand for a float and a float without fraction for an integer; an
// array takes a list of its length, nothing else is converted.
//
// All faults are reported at once, each with the option's name, what was found
// and what is allowed; an unknown name comes with the nearest known one.
func Decode(config map[string]any, into any) error {
	v := reflect.ValueOf(into)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		return fmt.Errorf("env: options decode into a pointer to a struct, not into %T", into)
	}
	fields := optionFields(into)
	var checks field.Checks
	for _, name := range slices.Sorted(maps.Keys(config)) {
		var err error
		at := "" // the element of a list
		if f, ok := fields[name]; !ok {
			known := OptionNames(into)
			err = fmt.Errorf("%w; known options are %s", field.Unknown(name, known), strings.Join(known, ", "))
		} else if bad := (field.Rules{KeepNull: true}).Set(f, config[name]); bad != nil {
			err, at = bad, bad.At
		}
		if err != nil {
			checks.Add(name, fmt.Errorf("option %q: %w: %w", name+at, ErrOption, err))
		}
	}
	return checks.Err()
}

// OptionNames returns the names that Decode knows for a struct, sorted.
func OptionNames(of any) []string { return slices.Sorted(maps.Keys(optionFields(of))) }

// OptionValues returns the values of a struct of options by the names that Decode
// knows. Pointers are dereferenced, and durations are seconds.
func OptionValues(of any) map[string]any {
	values := make(map[string]any)
	for name, f := range optionFields(of) {
		if f.Kind() == reflect.Pointer {
			if f.IsNil() {
				values[name] = nil
				continue
			}
			f = f.Elem()
		}
		values[name] = f.Interface()
		if d, ok := values[name].(time.Duration); ok {
			values[name] = d.Seconds()
		}
	}
	return values
}

// optionFields returns the fields of a struct, or of what a pointer to one points to, by
// the names that Decode knows.
func optionFields(of any) map[string]reflect.Value {
	fields := make(map[string]reflect.Value)
	if v := reflect.Indirect(reflect.ValueOf(of)); v.Kind() == reflect.Struct {
		for name, f := range field.Named(v.Type(), "option") {
			fields[name] = v.FieldByIndex(f.Index)
		}
	}
	return fields
}
