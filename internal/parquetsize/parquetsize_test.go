package parquetsize_test

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/stretchr/testify/require"

	"vagen/internal/parquetsize"
)

type row struct {
	Text  string  `parquet:"text,dict"`
	X     float64 `parquet:"x"`
	Inner []int64 `parquet:"inner,list"`
}

func table(t *testing.T, n int, o ...parquet.WriterOption) []byte {
	var b bytes.Buffer
	w := parquet.NewGenericWriter[row](&b, o...)
	for i := range n {
		_, err := w.Write([]row{{Text: strings.Repeat("a", i%5), X: float64(i), Inner: make([]int64, i%4)}})
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

func check(raw []byte) error {
	r := bytes.NewReader(raw)
	if err := parquetsize.Footer(r, int64(len(raw))); err != nil {
		return err
	}
	f, err := parquet.OpenFile(r, int64(len(raw)), parquet.SkipPageIndex(true))
	if err != nil {
		return err
	}
	return parquetsize.Check(f, r, int64(len(raw)))
}

// TestValidFilesPass in all encodings and compressions of a writer.
func TestValidFilesPass(t *testing.T) {
	for _, codec := range []compress.Codec{&parquet.Uncompressed, &parquet.Snappy, &parquet.Zstd, &parquet.Gzip,
		&parquet.Brotli} {
		for _, version := range []int{1, 2} {
			for _, n := range []int{0, 1, 10_000} {
				raw := table(t, n, parquet.Compression(codec), parquet.DataPageVersion(version), parquet.PageBufferSize(4096))
				require.NoError(t, check(raw), "%v, pages of version %d, %d rows", codec, version, n)
			}
		}
	}
	same := make([]byte, 4<<20) // zeros, like the log-probs of context
	var b bytes.Buffer
	w := parquet.NewGenericWriter[struct{ B []byte }](&b, parquet.Compression(&parquet.Zstd))
	_, err := w.Write([]struct{ B []byte }{{same}})
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.NoError(t, check(b.Bytes()))
	require.ErrorContains(t, check(table(t, 100, parquet.Compression(&parquet.Lz4Raw))), "LZ4")
}

// TestFootersWithTooLongListsAreRefused builds the start of a footer by hand: field 1, an
// int32; field 2, a list of structs.
func TestFootersWithTooLongListsAreRefused(t *testing.T) {
	file := func(footer ...byte) []byte {
		raw := append([]byte("PAR1"), footer...)
		return append(binary.LittleEndian.AppendUint32(raw, uint32(len(footer))), "PAR1"...)
	}
	footer := func(raw []byte) error { return parquetsize.Footer(bytes.NewReader(raw), int64(len(raw))) }
	require.NoError(t, footer(file(0x15, 2, 0x19, 0x1c, 0, 0)))
	for says, raw := range map[string][]byte{
		"a list of 268435455 items in 1 bytes": file(0x19, 0xfc, 0xff, 0xff, 0xff, 0x7f, 0),
		"16383 bytes needed, 1 left":           file(0x18, 0xff, 0x7f, 0),
		"the data is truncated":                file(0x15, 2),
		"a number is truncated":                file(0x15, 0xff),
		"the unknown kind 14":                  file(0x1e, 0),
		"more than 32 deep":                    file(bytes.Repeat([]byte{0x1c}, 200)...),
		"a footer of 1000000 bytes":            append([]byte("PAR1\x40\x42\x0f\x00"), "PAR1"...),
		"a file of 3 bytes":                    []byte("PAR"),
	} {
		require.ErrorIs(t, footer(raw), parquetsize.ErrSize)
		require.ErrorContains(t, footer(raw), says)
	}
}

// FuzzFooter: every footer is accepted or refused, without a panic.
func FuzzFooter(f *testing.F) {
	f.Add([]byte{0x15, 2, 0x19, 0x1c, 0, 0})
	f.Fuzz(func(t *testing.T, footer []byte) {
		raw := append(append([]byte("PAR1"), footer...), "\x00\x00\x00\x00PAR1"...)
		binary.LittleEndian.PutUint32(raw[len(raw)-8:], uint32(len(footer)))
		if err := parquetsize.Footer(bytes.NewReader(raw), int64(len(raw))); err != nil {
			require.ErrorIs(t, err, parquetsize.ErrSize)
		}
	})
}
