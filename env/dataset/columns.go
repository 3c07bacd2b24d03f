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

// node returns the shape as a parquet schema.
func (s *shape) node() parquet.Node {
	switch s.kind {
	case boolean:
		return parquet.Optional(parquet.Leaf(parquet.BooleanType))
	case integral:
		return parquet.Optional(parquet.Leaf(parquet.Int64Type))
	case floating:
		return parquet.Optional(parquet.Leaf(parquet.DoubleType))
	case listed:
		return parquet.Optional(parquet.List(s.elem.node()))
	case grouped:
		return parquet.Optional(s.group())
	}
	// The elements of lists that are always empty have this type, too.
	return parquet.Optional(parquet.String())
}

func (s *shape) group() parquet.Group {
	g := parquet.Group{}
	for name, f := range s.fields {
		g[name] = f.node()
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

// row splits a record into columns in the order of the schema: fields by name, depth
// first. The parquet library has such a function, too, but it turns zeros into null.
func (s *shape) row(v map[string]any) parquet.Row {
	var columns [][]parquet.Value
	for _, name := range slices.Sorted(maps.Keys(s.fields)) {
		columns = s.fields[name].split(columns, v[name], 0, 0, 0)
	}
	var row parquet.Row
	for i, column := range columns {
		for _, value := range column {
			row = append(row, value.Level(value.RepetitionLevel(), value.DefinitionLevel(), i))
		}
	}
	return row
}

// split appends the columns of a value at the given repetition and definition level
// (Melnik et al., "Dremel", section 4); depth is the number of lists that contain it.
func (s *shape) split(columns [][]parquet.Value, v any, rep, def, depth int) [][]parquet.Value {
	if v != nil {
		def++
	}
	switch s.kind {
	case grouped:
		fields, _ := v.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(s.fields)) {
			columns = s.fields[name].split(columns, fields[name], rep, def, depth)
		}
		return columns
	case listed:
		list, _ := v.([]any)
		if len(list) == 0 {
			return s.elem.split(columns, nil, rep, def, depth+1)
		}
		start := len(columns)
		columns = s.elem.split(columns, list[0], rep, def+1, depth+1)
		for _, x := range list[1:] {
			for k, more := range s.elem.split(nil, x, depth+1, def+1, depth+1) {
				columns[start+k] = append(columns[start+k], more...)
			}
		}
		return columns
	}
	if n, ok := v.(int64); ok && s.kind == floating {
		v = float64(n)
	}
	return append(columns, []parquet.Value{parquet.ValueOf(v).Level(rep, def, 0)}) // row sets the column index
}
