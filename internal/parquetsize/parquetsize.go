// Package parquetsize holds what a parquet file says of its sizes against the file
// itself, before a reader believes it: headers of a few bytes may promise pages of
// gigabytes, for which memory is taken first and looked at later.
package parquetsize

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// ErrSize is wrapped by the errors of Check.
var ErrSize = errors.New("sizes make no sense")

// Bounds on what a file of some size may unfold to.
const (
	// least is granted to every file.
	least = 8 << 20
	// ratio bounds bytes, and values, by the bytes of the file. A table of one
	// number over and over may be smaller, no file that is worth reading is.
	ratio = 2048
)

// Check walks over the headers of all pages, without reading them. It returns an
// error if a page reaches beyond its column, if values are more or fewer than the
// footer says, or if the file would unfold to more than 8 MiB and 2048 times its own
// size, in all or in values of one column.
func Check(f *parquet.File, r io.ReaderAt, size int64) error {
	most := least + ratio*size
	var bytes int64
	m := f.Metadata()
	rows := int64(0)
	for g := range m.RowGroups {
		group := &m.RowGroups[g]
		if group.NumRows < 0 || group.NumRows > most-rows {
			return fmt.Errorf("%w: row group %d has %d rows", ErrSize, g, group.NumRows)
		}
		rows += group.NumRows
		for c := range group.Columns {
			unfolded, err := chunk(&group.Columns[c].MetaData, r, size, most)
			if err != nil {
				return fmt.Errorf("%w: row group %d, column %d: %w", ErrSize, g, c, err)
			}
			if bytes += unfolded; bytes > most {
				return fmt.Errorf("%w: a file of %d bytes unfolds to %d or more", ErrSize, size, bytes)
			}
		}
	}
	if rows != m.NumRows {
		return fmt.Errorf("%w: %d rows in groups, %d in all", ErrSize, rows, m.NumRows)
	}
	return nil
}

// chunk walks over the pages of one column and returns what they unfold to.
func chunk(m *format.ColumnMetaData, r io.ReaderAt, size, most int64) (unfolded int64, err error) {
	at := m.DataPageOffset
	if d := m.DictionaryPageOffset; d > 0 && d < at {
		at = d
	}
	if m.NumValues < 0 || m.NumValues > most {
		return 0, fmt.Errorf("%d values in a file of %d bytes", m.NumValues, size)
	}
	if at < 0 || m.TotalCompressedSize < 0 || at > size || m.TotalCompressedSize > size-at {
		return 0, fmt.Errorf("%d bytes at %d of %d", m.TotalCompressedSize, at, size)
	}
	end := at + m.TotalCompressedSize
	var values int64
	for at < end && values < m.NumValues || at == m.DictionaryPageOffset && at < end {
		h, n, err := header(r, at, end)
		if err != nil {
			return 0, fmt.Errorf("page at %d: %w", at, err)
		}
		at += n
		if h.CompressedPageSize < 0 || int64(h.CompressedPageSize) > end-at || h.UncompressedPageSize < 0 {
			return 0, fmt.Errorf("page at %d: %d bytes, %d unfolded, of %d in the column", at, h.CompressedPageSize, h.UncompressedPageSize, end-at)
		}
		count := countOf(h)
		if count < 0 || count > most {
			return 0, fmt.Errorf("page at %d: %d values", at, count)
		}
		if h.Type == format.DataPage || h.Type == format.DataPageV2 {
			values += count
		}
		if err := content(r, at, h, m.Codec); err != nil {
			return 0, fmt.Errorf("page at %d: %w", at, err)
		}
		if unfolded += int64(h.UncompressedPageSize) + count; unfolded > most {
			return 0, fmt.Errorf("a file of %d bytes unfolds to %d or more", size, unfolded)
		}
		at += int64(h.CompressedPageSize)
	}
	if values != m.NumValues {
		return 0, fmt.Errorf("%d values in its pages, %d in the footer", values, m.NumValues)
	}
	return unfolded, nil
}

// header reads the header of a page and returns its length, too.
func header(r io.ReaderAt, at, end int64) (*format.PageHeader, int64, error) {
	for longest := 1 << 12; ; longest *= 16 { // headers have values in them, as statistics
		raw, err := some(r, at, end, longest)
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

// countOf is how many values a page holds.
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

// content holds the sizes that compressed data has in itself against the header's.
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
		data, err := some(r, at, end, binary.MaxVarintLen64)
		if err != nil {
			return err
		}
		if size, k := binary.Uvarint(data); k <= 0 || size > want {
			return fmt.Errorf("it says that it unfolds to %d bytes, its header %d", size, want)
		}
	case format.Zstd:
		size, err := zstdSize(r, at, end)
		if err != nil {
			return err
		}
		// The last bound of a block is reached by few: encoders may end them sooner.
		if size > 4*want+least {
			return fmt.Errorf("it may unfold to %d bytes, its header says %d", size, want)
		}
	case format.Lz4, format.Lz4Raw:
		// parquet-go 0.32 reads other numbers from such pages than pyarrow wrote.
		return errors.New("it is compressed with LZ4, which is not read reliably; zstd, snappy, gzip, brotli and none are")
	}
	return nil
}

// some reads up to n bytes.
func some(r io.ReaderAt, at, end int64, n int) ([]byte, error) {
	raw := make([]byte, min(int64(n), end-at))
	if _, err := r.ReadAt(raw, at); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return raw, nil
}

// zstdSize walks over the blocks of one zstd frame (RFC 8878) and returns the most
// that it may unfold to.
func zstdSize(r io.ReaderAt, at, end int64) (size uint64, err error) {
	const magic, longestBlock = 0xFD2FB528, 128 << 10
	data, err := some(r, at, end, 18)
	if err != nil {
		return 0, err
	}
	if len(data) < 5 || binary.LittleEndian.Uint32(data) != magic {
		return 0, errors.New("it is no zstd frame")
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
		return 0, errors.New("its zstd frame is cut")
	}
	var raw [8]byte
	copy(raw[:], data[n:n+length])
	declared := binary.LittleEndian.Uint64(raw[:])
	if length == 2 {
		declared += 256
	}
	at += int64(n + length)
	for last := false; !last; {
		data, err := some(r, at, end, 3)
		if err != nil {
			return 0, err
		}
		if len(data) < 3 {
			return 0, errors.New("its zstd frame is cut")
		}
		block := uint64(data[0]) | uint64(data[1])<<8 | uint64(data[2])<<16
		at += 3
		last = block&1 == 1
		switch stored := block >> 3; block >> 1 & 3 {
		case 0: // as it is
			size += stored
			at += int64(stored)
		case 1: // one byte again and again
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
		return 0, fmt.Errorf("its zstd frame ends at %d of %d", at, end)
	}
	return max(size, declared), nil
}
