package store

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/parquet-go/parquet-go"

	"vagen/internal/unmade"
)

// each yields the rows of a table, which rowsWithin opens. An error is the last that it yields.
func each[T any](in *input, most int64) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		rows, err := rowsWithin[T](in, most)
		for err == nil {
			var one [1]T
			n := 0
			if n, err = next(rows, one[:]); n == 1 && !yield(&one[0], nil) {
				return
			}
		}
		if !errors.Is(err, io.EOF) {
			yield(nil, err)
		}
	}
}

// rowsWithin is rows, if the columns of T take at most about a number of bytes in memory; 0 is
// no limit.
func rowsWithin[T any](in *input, most int64) (*parquet.GenericReader[T], error) {
	if in == nil {
		return nil, unmade.Error("store.Reader", "Open")
	}
	if most > 0 {
		schema := parquet.SchemaOf(new(T))
		n := in.memory(schema)
		if n <= most { // otherwise no page is read
			texts, err := in.texts(schema)
			if err != nil {
				return nil, err
			}
			n += texts
		}
		if n > most {
			return nil, fmt.Errorf("%w: it takes %d bytes or more in memory, at most %d are allowed",
				ErrFormat, n, most)
		}
	}
	return rows[T](in)
}

// Sizes of Go values in bytes.
const (
	sizeOfString = 16
	sizeOfSlice  = 24
)

// memory is the number of bytes that the columns of a schema take in memory, without the texts
// of dictionaries.
func (in *input) memory(schema *parquet.Schema) int64 {
	elements := map[string]int64{} // of the outermost lists, by name
	for _, path := range in.Schema().Columns() {
		if leaf, ok := in.Schema().Lookup(path...); ok && leaf.MaxRepetitionLevel == 1 {
			elements[path[0]] = max(elements[path[0]], in.sizes[strings.Join(path, ".")].Values)
		}
	}
	var total int64
	for _, path := range schema.Columns() {
		size := in.sizes[strings.Join(path, ".")]
		leaf, _ := schema.Lookup(path...)
		switch leaf.Node.Type().Kind() {
		case parquet.Boolean:
			total += size.Values
		case parquet.Int32, parquet.Float:
			total += 4 * size.Values
		case parquet.Int64, parquet.Double:
			total += 8 * size.Values
		default:
			total += size.Bytes + sizeOfString*size.Values
		}
		switch lists, known := elements[path[0]]; {
		case leaf.MaxRepetitionLevel == 1:
			total += sizeOfSlice * in.NumRows()
		case leaf.MaxRepetitionLevel > 1 && known:
			total += sizeOfSlice * min(lists, size.Values)
		case leaf.MaxRepetitionLevel > 1:
			total += sizeOfSlice * size.Values
		}
	}
	return total
}

// repeats is the size of repeated texts up to which dictionaries are not read.
const repeats = 1 << 20

// texts is the largest number of bytes that the texts in dictionaries can take: each value has
// its own copy.
func (in *input) texts(schema *parquet.Schema) (total int64, err error) {
	defer rescue(&err)
	wanted := map[string]bool{}
	for _, path := range schema.Columns() {
		wanted[strings.Join(path, ".")] = true
	}
	for i, path := range in.Schema().Columns() {
		name := strings.Join(path, ".")
		size := in.sizes[name]
		if !wanted[name] || size.Dictionary == 0 || size.Values <= repeats/size.Dictionary {
			continue
		}
		for _, group := range in.RowGroups() {
			longest, err := longestText(group.ColumnChunks()[i])
			if err != nil {
				return 0, fmt.Errorf("%w: %w", ErrFormat, err)
			}
			total += group.ColumnChunks()[i].NumValues() * longest
		}
	}
	return total, nil
}

// longestText is the length of the longest text in the dictionary of a column.
func longestText(chunk parquet.ColumnChunk) (longest int64, err error) {
	pages := chunk.Pages()
	defer pages.Close()
	page, err := pages.ReadPage()
	if errors.Is(err, io.EOF) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer parquet.Release(page)
	d := page.Dictionary()
	if d == nil || d.Type().Kind() != parquet.ByteArray {
		return 0, nil
	}
	for i := range d.Len() {
		longest = max(longest, int64(len(d.Index(int32(i)).ByteArray())))
	}
	return longest, nil
}
