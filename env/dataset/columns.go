package dataset

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/parquet-go/parquet-go"
)

// kind is the type of a column's values, as error messages name it.
type kind string

const (
	boolean  kind = "true or false"
	integral kind = "a whole number"
	floating kind = "a number"
	textual  kind = "text"
	listed   kind = "a list"
	grouped  kind = "a mapping"
)

// shape is the common type of the values of a column, built by adding the values one
// after the other. Every value may be missing.
type shape struct {
	kind   kind              // "" before the first value
	elem   *shape            // of a list
	fields map[string]*shape // of a mapping
}

// errJSON ends messages about values that columns cannot store.
var errJSON = errors.New("write configurations as JSON to store it")

// add extends the shape by a value; path is the value's key, for errors.
func (s *shape) add(v any, path string) error {
	k, err := kindOf(v)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	switch {
	case s.kind == "", s.kind == integral && k == floating:
		s.kind = k
	case s.kind == floating && k == integral:
	case s.kind != k:
		return fmt.Errorf("%s is %s, but %s in an earlier episode; %w", path, k, s.kind, errJSON)
	}
	switch v := v.(type) {
	case []any:
		if s.elem == nil {
			s.elem = new(shape)
		}
		for i, x := range v {
			if err := s.elem.add(x, fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
	case map[string]any:
		if len(v) == 0 {
			return fmt.Errorf("%s is an empty mapping; %w", path, errJSON)
		}
		if s.fields == nil {
			s.fields = make(map[string]*shape, len(v))
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if s.fields[name] == nil {
				s.fields[name] = new(shape)
			}
			if err := s.fields[name].add(v[name], path+"."+name); err != nil {
				return err
			}
		}
	}
	return nil
}

func kindOf(v any) (kind, error) {
	switch v.(type) {
	case bool:
		return boolean, nil
	case int64:
		return integral, nil
	case float64:
		return floating, nil
	case string:
		return textual, nil
	case []any:
		return listed, nil
	case map[string]any:
		return grouped, nil
	case nil:
		return "", fmt.Errorf("it is null; %w", errJSON)
	}
	return "", fmt.Errorf("columns cannot store a %T", v)
}

// node returns the shape as a parquet schema. Elements of lists are never missing.
func (s *shape) node() parquet.Node {
	switch s.kind {
	case boolean:
		return parquet.Leaf(parquet.BooleanType)
	case integral:
		return parquet.Leaf(parquet.Int64Type)
	case floating:
		return parquet.Leaf(parquet.DoubleType)
	case listed:
		return parquet.List(s.elem.node())
	case grouped:
		return s.group()
	}
	// The elements of lists that are always empty have this type, too.
	return parquet.String()
}

func (s *shape) group() parquet.Group {
	g := parquet.Group{}
	for name, f := range s.fields {
		g[name] = parquet.Optional(f.node())
	}
	return g
}

// leaves returns the number of columns.
func (s *shape) leaves() int {
	switch s.kind {
	case listed:
		return s.elem.leaves()
	case grouped:
		n := 0
		for _, f := range s.fields {
			n += f.leaves()
		}
		return n
	}
	return 1
}

// widened writes the whole numbers of columns of other numbers as such, and returns the value with them.
func (s *shape) widened(v any) any {
	switch v := v.(type) {
	case int64:
		if s.kind == floating {
			return float64(v)
		}
	case []any:
		for i, x := range v {
			v[i] = s.elem.widened(x)
		}
	case map[string]any:
		for name, x := range v {
			v[name] = s.fields[name].widened(x)
		}
	}
	return v
}
