package settings

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"vagen/internal/field"
	"vagen/internal/jsontext"
)

// Marshal writes the settings of the struct that v points to as YAML, in
// declaration order; maps are written in the order of their keys. Load reads the
// same values back: a text that YAML could read as another type is quoted.
// Bytes that are not UTF-8 have no form in YAML and become U+FFFD.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	if err := writeStruct(&b, reflect.ValueOf(v).Elem(), ""); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func writeStruct(b *bytes.Buffer, v reflect.Value, indent string) error {
	for name, f := range field.Named(v.Type(), "yaml") {
		value := v.FieldByIndex(f.Index)
		if null, ok := f.Tag.Lookup("null"); ok && fmt.Sprint(value.Interface()) == null {
			value = reflect.Value{}
		}
		if err := writeEntry(b, name, value, indent); err != nil {
			return err
		}
	}
	return nil
}

// writeEntry writes "key: value", a section below the key if there is more to it.
func writeEntry(b *bytes.Buffer, name string, v reflect.Value, indent string) error {
	v = indirect(v)
	b.WriteString(indent + text(name) + ":")
	switch {
	case v.Kind() == reflect.Struct:
		b.WriteByte('\n')
		return writeStruct(b, v, indent+"  ")
	case v.Kind() == reflect.Map && v.Len() > 0:
		keys, err := sortedKeys(v)
		if err != nil {
			return fmt.Errorf("%w: %s: %w", ErrSetting, name, err)
		}
		b.WriteByte('\n')
		for _, k := range keys {
			if err := writeEntry(b, k.String(), v.MapIndex(k), indent+"  "); err != nil {
				return err
			}
		}
		return nil
	}
	b.WriteByte(' ')
	if err := writeInline(b, v); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrSetting, name, err)
	}
	b.WriteByte('\n')
	return nil
}

// indirect follows pointers and interfaces; the zero Value stands for nil.
func indirect(v reflect.Value) reflect.Value {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	return v
}

func sortedKeys(m reflect.Value) ([]reflect.Value, error) {
	if m.Type().Key().Kind() != reflect.String {
		return nil, fmt.Errorf("a %v cannot be written as YAML, because its keys are not strings", m.Type())
	}
	return slices.SortedFunc(slices.Values(m.MapKeys()), func(a, b reflect.Value) int {
		return strings.Compare(a.String(), b.String())
	}), nil
}

// writeInline writes a value on one line, lists and maps in brackets.
func writeInline(b *bytes.Buffer, v reflect.Value) error {
	v = indirect(v)
	switch k := v.Kind(); {
	case k == reflect.Invalid:
		b.WriteString("null")
	case k == reflect.Bool:
		b.WriteString(strconv.FormatBool(v.Bool()))
	case k == reflect.String:
		b.WriteString(text(v.String()))
	case v.CanInt():
		b.WriteString(strconv.FormatInt(v.Int(), 10))
	case v.CanUint():
		b.WriteString(strconv.FormatUint(v.Uint(), 10))
	case v.CanFloat():
		b.WriteString(decimal(v.Float(), v.Type().Bits()))
	case k == reflect.Slice || k == reflect.Array:
		return writeList(b, v)
	case k == reflect.Map:
		return writeMap(b, v)
	default:
		return fmt.Errorf("a %v cannot be written as YAML", v.Type())
	}
	return nil
}

func writeList(b *bytes.Buffer, v reflect.Value) error {
	b.WriteByte('[')
	for i := range v.Len() {
		if i > 0 {
			b.WriteString(", ")
		}
		if err := writeInline(b, v.Index(i)); err != nil {
			return err
		}
	}
	b.WriteByte(']')
	return nil
}

func writeMap(b *bytes.Buffer, v reflect.Value) error {
	keys, err := sortedKeys(v)
	if err != nil {
		return err
	}
	b.WriteByte('{')
	for i, k := range keys {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(text(k.String()) + ": ")
		if err := writeInline(b, v.MapIndex(k)); err != nil {
			return err
		}
	}
	b.WriteByte('}')
	return nil
}

// plain matches texts that every version of YAML reads as texts, except for
// those in words.
var plain = regexp.MustCompile(`^[A-Za-z_/]([A-Za-z0-9_/. -]*[A-Za-z0-9_/.-])?$`)

var words = []string{"null", "true", "false", "yes", "no", "on", "off", "y", "n"}

func text(s string) string {
	if plain.MatchString(s) && !slices.Contains(words, strings.ToLower(s)) {
		return s
	}
	// quoted texts of JSON are quoted texts of YAML, and a text always has one
	quoted, _ := jsontext.Append(nil, strings.ToValidUTF8(s, "\ufffd"))
	return strings.ReplaceAll(string(quoted), "\x7f", `\u007f`)
}

// decimal writes a float so that every version of YAML reads it as one.
func decimal(x float64, bits int) string {
	switch {
	case math.IsNaN(x):
		return ".nan"
	case math.IsInf(x, 1):
		return ".inf"
	case math.IsInf(x, -1):
		return "-.inf"
	}
	digits, exponent, large := strings.Cut(strconv.FormatFloat(x, 'g', -1, bits), "e")
	if !strings.Contains(digits, ".") {
		digits += ".0"
	}
	if large {
		digits += "e" + exponent
	}
	return digits
}

// Text is a value on one line: in YAML, or as fmt prints what has no form there.
func Text(value any) string {
	var b bytes.Buffer
	if err := writeInline(&b, reflect.ValueOf(value)); err != nil {
		return fmt.Sprint(value)
	}
	return b.String()
}

// Tree returns the settings of the struct that v points to as a mapping, which Fill reads. Those that are nil
// are left out.
func Tree(v any) map[string]any {
	var out map[string]any
	for f := range fieldsOf(v).all {
		if value := indirect(f.Value); value.IsValid() {
			out, _ = with(out, strings.Split(f.path, "."), value.Interface())
		}
	}
	return out
}
