package parquetsize

import (
	"errors"
	"fmt"

	"github.com/parquet-go/parquet-go"
)

// ErrValue is wrapped by errors about values that do not have their column's type.
var ErrValue = errors.New("inconsistent types")

// Rows reads the rows of a file without a Go type. Unlike the readers of the library it compares the type of
// each value with its column's: in a damaged file they may differ, and the library would use a
// number as the address of a text.
type Rows struct {
	in     *parquet.GenericReader[any]
	schema *parquet.Schema
	kinds  []parquet.Kind // of the columns
	row    [1]parquet.Row
}

// NewRows reads those columns of a file that the schema has.
func NewRows(f *parquet.File, schema *parquet.Schema) (*Rows, error) {
	r := &Rows{in: parquet.NewGenericReader[any](f, schema), schema: schema}
	for _, path := range schema.Columns() {
		leaf, ok := schema.Lookup(path...)
		if !ok {
			return nil, errors.Join(fmt.Errorf("%w: column %q", ErrValue, path), r.Close())
		}
		r.kinds = append(r.kinds, leaf.Node.Type().Kind())
	}
	return r, nil
}

// Next returns the next row as a map by column, and io.EOF after the last one.
func (r *Rows) Next() (row any, err error) {
	r.row[0] = r.row[0][:0]
	if n, err := r.in.ReadRows(r.row[:]); n == 0 {
		return nil, err
	}
	for _, v := range r.row[0] {
		c := v.Column()
		if c < 0 || c >= len(r.kinds) {
			return nil, fmt.Errorf("%w: column %d of %d", ErrValue, c, len(r.kinds))
		}
		if !v.IsNull() && v.Kind() != r.kinds[c] {
			return nil, fmt.Errorf("%w: %v in column %d of %v", ErrValue, v.Kind(), c, r.kinds[c])
		}
	}
	err = r.schema.Reconstruct(&row, r.row[0])
	return row, err
}

// Close releases the reader.
func (r *Rows) Close() error { return r.in.Close() }
