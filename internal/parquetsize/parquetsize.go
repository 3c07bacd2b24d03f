// Package parquetsize compares the sizes declared in a parquet file with the file itself
// before a reader trusts them: headers of a few bytes may declare pages of gigabytes, for
// which the reader would allocate memory before it reads the data. Rows compares types in the
// same way.
package parquetsize

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// ErrSize is wrapped by the errors of Check.
var ErrSize = errors.New("inconsistent sizes")

// Limits on the decompressed size of a file.
const (
	// least is allowed for every file.
	least = 8 << 20
	// ratio limits bytes, and values, relative to the bytes of the file. A table of one
	// repeated number may exceed it, but no useful file does.
	ratio = 2048
)

// Column has the sizes of a column in all row groups.
type Column struct {
	Values     int64
	Bytes      int64 // decompressed, with one more for each value
	Dictionary int64 // decompressed bytes of the largest dictionary; 0 for none
}

// Check is Measure without its result.
func Check(f *parquet.File, r io.ReaderAt, size int64) error {
	_, err := Measure(f, r, size)
	return err
}

// Measure walks over the headers of all pages, without reading them, and returns the sizes of
// the columns by their paths, joined with dots. It returns an error
// if a page reaches beyond its column, if the number of values differs from the footer's,
// or if the decompressed size, in all or in values of one column, exceeds both 8 MiB and
// 2048 times the file's size.
func Measure(f *parquet.File, r io.ReaderAt, size int64) (map[string]Column, error) {
	most := least + ratio*size
	columns := map[string]Column{}
	var bytes int64
	m := f.Metadata()
	rows := int64(0)
	for g := range m.RowGroups {
		group := &m.RowGroups[g]
		if group.NumRows < 0 || group.NumRows > most-rows {
			return nil, fmt.Errorf("%w: row group %d has %d rows", ErrSize, g, group.NumRows)
		}
		rows += group.NumRows
		for c := range group.Columns {
			meta := &group.Columns[c].MetaData
			decompressed, dictionary, err := chunk(meta, r, size, most)
			if err != nil {
				return nil, fmt.Errorf("%w: row group %d, column %d: %w", ErrSize, g, c, err)
			}
			if bytes += decompressed; bytes > most {
				return nil, fmt.Errorf("%w: a file of %d bytes decompresses to %d or more", ErrSize, size, bytes)
			}
			path := strings.Join(meta.PathInSchema, ".")
			was := columns[path]
			columns[path] = Column{
				was.Values + meta.NumValues, was.Bytes + decompressed, max(was.Dictionary, dictionary),
			}
		}
	}
	if rows != m.NumRows {
		return nil, fmt.Errorf("%w: %d rows in groups, %d in all", ErrSize, rows, m.NumRows)
	}
	return columns, nil
}

// chunk walks over the pages of one column and returns their decompressed size, and that of its
// dictionary.
func chunk(m *format.ColumnMetaData, r io.ReaderAt, size, most int64) (decompressed, dictionary int64, err error) {
	at := m.DataPageOffset
	if d := m.DictionaryPageOffset; d > 0 && d < at {
		at = d
	}
	if m.NumValues < 0 || m.NumValues > most {
		return 0, 0, fmt.Errorf("%d values in a file of %d bytes", m.NumValues, size)
	}
	if at < 0 || m.TotalCompressedSize < 0 || at > size || m.TotalCompressedSize > size-at {
		return 0, 0, fmt.Errorf("column of %d bytes at offset %d of a file of %d", m.TotalCompressedSize, at, size)
	}
	end := at + m.TotalCompressedSize
	var values int64
	for at < end && values < m.NumValues || at == m.DictionaryPageOffset && at < end {
		h, n, err := header(r, at, end)
		if err != nil {
			return 0, 0, fmt.Errorf("page at %d: %w", at, err)
		}
		at += n
		if h.CompressedPageSize < 0 || int64(h.CompressedPageSize) > end-at || h.UncompressedPageSize < 0 {
			return 0, 0, fmt.Errorf(
				"page at %d: %d bytes, %d decompressed, of %d left in the column", at, h.CompressedPageSize,
				h.UncompressedPageSize, end-at,
			)
		}
		count := countOf(h)
		if count < 0 || count > most {
			return 0, 0, fmt.Errorf("page at %d: %d values", at, count)
		}
		if h.Type == format.DictionaryPage {
			dictionary = max(dictionary, int64(h.UncompressedPageSize))
		}
		if h.Type == format.DataPage || h.Type == format.DataPageV2 {
			values += count
		}
		if err := content(r, at, h, m.Codec); err != nil {
			return 0, 0, fmt.Errorf("page at %d: %w", at, err)
		}
		if decompressed += int64(h.UncompressedPageSize) + count; decompressed > most {
			return 0, 0, fmt.Errorf("a file of %d bytes decompresses to %d or more", size, decompressed)
		}
		at += int64(h.CompressedPageSize)
	}
	if values != m.NumValues {
		return 0, 0, fmt.Errorf("%d values in its pages, %d in the footer", values, m.NumValues)
	}
	return decompressed, dictionary, nil
}

// header reads the header of a page and returns its length, too.
func header(r io.ReaderAt, at, end int64) (*format.PageHeader, int64, error) {
	for longest := 1 << 12; ; longest *= 16 { // headers contain values, as statistics
		raw, err := readSome(r, at, end, longest)
		if err != nil {
			return nil, 0, err
		}
		h := new(format.PageHeader)
		in := new(thrift.CompactProtocol).NewReaderFromBytes(raw)
		if err = thrift.NewDecoder(in).Decode(h); err == nil {
			return h, int64(in.BytesRead()), nil
		}
		if int64(longest) >= end-at {
			return nil, 0, err
		}
	}
}

// countOf returns the number of values in a page.
func countOf(h *format.PageHeader) int64 {
	switch {
	case h.DataPageHeader.Valid:
		return int64(h.DataPageHeader.V.NumValues)
	case h.DataPageHeaderV2.Valid:
		v := &h.DataPageHeaderV2.V
		if v.NumRows < 0 || v.NumNulls < 0 || v.NumNulls > v.NumValues || v.NumRows > v.NumValues ||
			v.DefinitionLevelsByteLength < 0 || v.RepetitionLevelsByteLength < 0 ||
			int64(v.DefinitionLevelsByteLength)+int64(v.RepetitionLevelsByteLength) > int64(h.UncompressedPageSize) {
			return -1
		}
		return int64(v.NumValues)
	case h.DictionaryPageHeader.Valid:
		return int64(h.DictionaryPageHeader.V.NumValues)
	}
	return 0
}

// content compares the size stored in compressed data with the page header's.
func content(r io.ReaderAt, at int64, h *format.PageHeader, codec format.CompressionCodec) error {
	end := at + int64(h.CompressedPageSize)
	if h.DataPageHeaderV2.Valid {
		v := &h.DataPageHeaderV2.V
		if v.IsCompressed.Valid && !v.IsCompressed.V {
			return nil
		}
		at += int64(v.DefinitionLevelsByteLength) + int64(v.RepetitionLevelsByteLength)
	}
	if at >= end {
		return nil
	}
	want := uint64(h.UncompressedPageSize)
	switch codec {
	case format.Snappy:
		data, err := readSome(r, at, end, binary.MaxVarintLen64)
		if err != nil {
			return err
		}
		if size, k := binary.Uvarint(data); k <= 0 || size > want {
			return fmt.Errorf("compressed data declares %d bytes, the page header %d", size, want)
		}
	case format.Zstd:
		size, err := zstdSize(r, at, end)
		if err != nil {
			return err
		}
		// The size of a zstd block is an upper limit: encoders may use less.
		if size > 4*want+least {
			return fmt.Errorf("compressed data allows at most %d bytes, the page header declares %d", size, want)
		}
	case format.Lz4, format.Lz4Raw:
		// parquet-go 0.32 reads such pages of pyarrow wrongly.
		return errors.New("compression is LZ4, must be zstd, snappy, gzip, brotli or none: LZ4 is not read reliably")
	}
	return nil
}

// readSome reads up to n bytes.
func readSome(r io.ReaderAt, at, end int64, n int) ([]byte, error) {
	raw := make([]byte, min(int64(n), end-at))
	if _, err := r.ReadAt(raw, at); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return raw, nil
}

// zstdSize walks over the blocks of one zstd frame (RFC 8878) and returns its largest
// possible decompressed size.
func zstdSize(r io.ReaderAt, at, end int64) (size uint64, err error) {
	const magic, longestBlock = 0xFD2FB528, 128 << 10
	data, err := readSome(r, at, end, 18)
	if err != nil {
		return 0, err
	}
	if len(data) < 5 || binary.LittleEndian.Uint32(data) != magic {
		return 0, errors.New("not a zstd frame")
	}
	descriptor := data[4]
	single, checksum := descriptor>>5&1 == 1, descriptor>>2&1 == 1
	n := 5 + []int{0, 1, 2, 4}[descriptor&3]
	if !single {
		n++
	}
	length := []int{0, 2, 4, 8}[descriptor>>6]
	if length == 0 && single {
		length = 1
	}
	if n+length > len(data) {
		return 0, errors.New("the zstd frame is truncated")
	}
	var raw [8]byte
	copy(raw[:], data[n:n+length])
	declared := binary.LittleEndian.Uint64(raw[:])
	if length == 2 {
		declared += 256
	}
	at += int64(n + length)
	for last := false; !last; {
		data, err := readSome(r, at, end, 3)
		if err != nil {
			return 0, err
		}
		if len(data) < 3 {
			return 0, errors.New("the zstd frame is truncated")
		}
		block := uint64(data[0]) | uint64(data[1])<<8 | uint64(data[2])<<16
		at += 3
		last = block&1 == 1
		switch stored := block >> 3; block >> 1 & 3 {
		case 0: // uncompressed
			size += stored
			at += int64(stored)
		case 1: // one repeated byte
			size += stored
			at++
		default:
			size += longestBlock
			at += int64(stored)
		}
	}
	if checksum {
		at += 4
	}
	if at != end {
		return 0, fmt.Errorf("the zstd frame ends at %d, the page at %d", at, end)
	}
	return max(size, declared), nil
}
