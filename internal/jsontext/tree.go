package jsontext

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Tree decodes a text of one JSON value. Each number is what number returns for it.
func Tree[T any](text string, number func(json.Number) (any, error)) (out T, err error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&out); err != nil {
		if _, ok := errors.AsType[*json.UnmarshalTypeError](err); !ok {
			err = fmt.Errorf("it is not JSON: %w", err)
		}
		return out, err
	}
	if err := end(d); err != nil {
		return out, err
	}
	v, err := typed(out, number)
	out, _ = v.(T)
	return out, err
}

// end returns an error if a value is not the last one.
func end(d *json.Decoder) error {
	if _, err := d.Token(); err != io.EOF {
		return errors.New("there is text after the JSON value")
	}
	return nil
}

// Strict decodes one JSON value without unknown fields.
func Strict(raw []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	return end(d)
}

// Whole is a number for Tree: whole numbers are uint64, or int64 when they are negative, as YAML does; others float64.
func Whole(n json.Number) (any, error) {
	if strings.ContainsAny(n.String(), ".eE") {
		return n.Float64()
	}
	if u, err := strconv.ParseUint(n.String(), 10, 64); err == nil {
		return u, nil
	}
	return n.Int64()
}

// Exact is a number for Tree: a float64, or the number as it is written if that would be another integer.
func Exact(n json.Number) (any, error) {
	f, err := n.Float64()
	if text := n.String(); !strings.ContainsAny(text, ".eE") && strconv.FormatFloat(f, 'f', -1, 64) != text {
		return n, nil
	}
	return f, err
}

// typed replaces the numbers in a value.
func typed(v any, number func(json.Number) (any, error)) (any, error) {
	var err error
	switch v := v.(type) {
	case map[string]any:
		for key, x := range v {
			if v[key], err = typed(x, number); err != nil {
				return nil, err
			}
		}
	case []any:
		for i, x := range v {
			if v[i], err = typed(x, number); err != nil {
				return nil, err
			}
		}
	case json.Number:
		return number(v)
	}
	return v, nil
}

// Object returns the fields of an object, none of other values.
func Object(v any) map[string]any {
	o, _ := v.(map[string]any)
	return o
}

// List returns the elements of a list, none of other values.
func List(v any) []any {
	list, _ := v.([]any)
	return list
}

// Shown returns a string as it is and any other value as JSON.
func Shown(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	out, err := Append(nil, v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(out)
}
