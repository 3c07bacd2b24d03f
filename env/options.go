package env

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	"vagen/internal/nearest"
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
// Field types are bool, string and its named kinds, integers, floats, pointers to
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
	fields := make(map[string]reflect.Value)
	collect(v.Elem(), fields)
	known := slices.Sorted(maps.Keys(fields))
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(config)) {
		field, ok := fields[name]
		if !ok {
			errs = append(errs, fmt.Errorf("option %q: %w: no such option%s; known options are %s",
				name, ErrOption, nearest.Hint(name, known), strings.Join(known, ", ")))
			continue
		}
		if err := assign(field, config[name]); err != nil {
			errs = append(errs, fmt.Errorf("option %q: %w: %w", name, ErrOption, err))
		}
	}
	return errors.Join(errs...)
}

// OptionNames returns the names that Decode knows for a struct, sorted.
func OptionNames(of any) []string {
	fields := make(map[string]reflect.Value)
	v := reflect.Indirect(reflect.ValueOf(of))
	if v.Kind() == reflect.Struct {
		collect(v, fields)
	}
	return slices.Sorted(maps.Keys(fields))
}

// OptionValues returns the values of a struct of options by the names that Decode
// knows. Pointers are dereferenced.
func OptionValues(of any) map[string]any {
	fields := make(map[string]reflect.Value)
	v := reflect.Indirect(reflect.ValueOf(of))
	if v.Kind() == reflect.Struct {
		collect(v, fields)
	}
	values := make(map[string]any, len(fields))
	for name, f := range fields {
		if f.Kind() == reflect.Pointer {
			if f.IsNil() {
				values[name] = nil
				continue
			}
			f = f.Elem()
		}
		values[name] = f.Interface()
	}
	return values
}

func collect(v reflect.Value, fields map[string]reflect.Value) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		switch name := f.Tag.Get("option"); {
		case name != "":
			fields[name] = v.Field(i)
		case f.Anonymous && f.Type.Kind() == reflect.Struct:
			collect(v.Field(i), fields)
		}
	}
}

// assign converts one value. After an error dst may be partly set; the caller discards
// the struct.
func assign(dst reflect.Value, value any) error {
	if value == nil {
		if k := dst.Kind(); k == reflect.Pointer || k == reflect.Slice || k == reflect.Map {
			dst.SetZero()
		}
		return nil
	}
	if n, ok := value.(json.Number); ok {
		f, err := n.Float64()
		if err != nil {
			return fmt.Errorf("%q is not a number: %w", n, err)
		}
		value = f
		if i, err := n.Int64(); err == nil {
			value = i
		}
	}
	src := reflect.ValueOf(value)
	switch k := dst.Kind(); {
	case k == reflect.Pointer:
		p := reflect.New(dst.Type().Elem())
		if err := assign(p.Elem(), value); err != nil {
			return err
		}
		dst.Set(p)
	case k == reflect.Bool && src.Kind() == reflect.Bool:
		dst.SetBool(src.Bool())
	case k == reflect.String && src.Kind() == reflect.String:
		dst.SetString(src.String())
	case dst.CanInt():
		i, err := integer(src)
		if err == nil && dst.OverflowInt(i) {
			err = fmt.Errorf("%d is out of range", i)
		}
		if err != nil {
			return err
		}
		dst.SetInt(i)
	case dst.CanFloat():
		f, err := float(src)
		if err != nil {
			return err
		}
		dst.SetFloat(f)
	case k == reflect.Slice || k == reflect.Array:
		return assignList(dst, src)
	case src.Type().AssignableTo(dst.Type()):
		dst.Set(src)
	default:
		return mismatch(dst.Type(), value)
	}
	return nil
}

func assignList(dst, src reflect.Value) error {
	if k := src.Kind(); k != reflect.Slice && k != reflect.Array {
		return mismatch(dst.Type(), src.Interface())
	}
	if dst.Kind() == reflect.Array && src.Len() != dst.Len() {
		return fmt.Errorf("a list of %d is needed, found %d entries", dst.Len(), src.Len())
	}
	list := dst
	if dst.Kind() == reflect.Slice {
		list = reflect.MakeSlice(dst.Type(), src.Len(), src.Len())
	}
	for i := range src.Len() {
		if err := assign(list.Index(i), src.Index(i).Interface()); err != nil {
			return fmt.Errorf("entry %d: %w", i, err)
		}
	}
	if dst.Kind() == reflect.Slice {
		dst.Set(list)
	}
	return nil
}

func integer(src reflect.Value) (int64, error) {
	switch {
	case src.CanInt():
		return src.Int(), nil
	case src.CanUint():
		if u := src.Uint(); u <= math.MaxInt64 {
			return int64(u), nil
		}
	case src.CanFloat():
		// Beyond 2⁵³ a float no longer says which integer was meant.
		if f := src.Float(); f == math.Trunc(f) && math.Abs(f) <= 1<<53 {
			return int64(f), nil
		}
	}
	return 0, fmt.Errorf("a whole number is needed, found %v (%s)", src, src.Type())
}

func float(src reflect.Value) (float64, error) {
	var f float64
	switch {
	case src.CanFloat():
		f = src.Float()
	case src.CanInt():
		f = float64(src.Int())
	case src.CanUint():
		f = float64(src.Uint())
	default:
		return 0, fmt.Errorf("a number is needed, found %v (%s)", src, src.Type())
	}
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return 0, fmt.Errorf("a finite number is needed, found %v", f)
	}
	return f, nil
}

func mismatch(want reflect.Type, value any) error {
	names := map[reflect.Kind]string{reflect.Bool: "true or false", reflect.String: "text",
		reflect.Slice: "a list", reflect.Array: "a list", reflect.Map: "a mapping"}
	name, ok := names[want.Kind()]
	if !ok {
		name = want.String()
	}
	return fmt.Errorf("%s is needed, found %v (%T)", name, value, value)
}
