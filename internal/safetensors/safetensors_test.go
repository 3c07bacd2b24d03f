package safetensors

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
	"vagen/internal/testkit"
)

// both runs a test with and without a memory map.
func both(t *testing.T, fn func(t *testing.T, mapping bool)) {
	t.Run("mapped", func(t *testing.T) { fn(t, true) })
	t.Run("read", func(t *testing.T) { fn(t, false) })
}

// file builds a file from a header and data.
func file(header string, data []byte) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), data...)
}

func save(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path
}

func TestReaderGivesEveryTensorItsValues(t *testing.T) {
	both(t, func(t *testing.T, mapping bool) {
		// Written by hand: the data of "half" is first, although it is listed last.
		header := `{"__metadata__":{"format":"pt","made":"by hand"},
			"full":{"dtype":"F32","shape":[2,1],"data_offsets":[4,12]},
			"brain":{"dtype":"BF16","shape":[],"data_offsets":[12,14]},
			"half":{"dtype":"F16","shape":[2],"data_offsets":[0,4]},
			"ids":{"dtype":"I64","shape":[1],"data_offsets":[14,22]},
			"none":{"dtype":"F32","shape":[0,3],"data_offsets":[22,22]}}   `
		le := binary.LittleEndian
		data := le.AppendUint16(le.AppendUint16(nil, 0x3c00), 0xc100) // 1, -2.5
		data = le.AppendUint32(le.AppendUint32(data, math.Float32bits(0.1)), math.Float32bits(-3))
		data = le.AppendUint16(data, 0x4049)                           // 3.140625
		data = le.AppendUint64(data, uint64(math.MaxUint64)-uint64(6)) // -7
		r, err := open(save(t, "x.safetensors", file(header, data)), mapping)
		require.NoError(t, err)
		defer r.Close()

		require.Equal(t, []string{"half", "full", "brain", "ids", "none"}, r.Names())
		require.Equal(t, map[string]string{"format": "pt", "made": "by hand"}, r.Metadata())
		info, ok := r.Info("full")
		require.True(t, ok)
		require.Equal(t, Tensor{"full", F32, []int{2, 1}}, info)
		_, ok = r.Info("missing")
		require.False(t, ok)
		for name, want := range map[string][]float32{
			"half": {1, -2.5}, "full": {0.1, -3}, "brain": {3.140625}, "none": {},
		} {
			got, err := r.Float32(name, nil)
			require.NoError(t, err)
			require.Equal(t, want, append([]float32{}, got...), name)
		}
		raw, err := r.Bytes("ids")
		require.NoError(t, err)
		require.Equal(t, data[14:], raw)
		require.NoError(t, r.Release("full"))
		raw, err = r.Bytes("full")
		require.NoError(t, err)
		require.Equal(t, data[4:12], raw, "after Release")
	})
}

func TestConversionsRefuseOtherTypes(t *testing.T) {
	header := `{"i":{"dtype":"I32","shape":[0],"data_offsets":[0,0]},"f":{"dtype":"F64","shape":[0],"data_offsets":[0,0]}}`
	r, err := Open(save(t, "x.safetensors", file(header, nil)))
	require.NoError(t, err)
	defer r.Close()
	_, err = r.Float32("i", nil)
	require.ErrorIs(t, err, ErrDType)
	_, err = r.Float32("f", nil)
	require.ErrorIs(t, err, ErrDType, "narrowing F64 silently would lose digits")
	_, err = r.Float32("g", nil)
	testkit.Error(t, err, ErrNotFound, `"g"`)
}

func TestFloat32ReusesItsDestination(t *testing.T) {
	header := `{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`
	r, err := Open(save(t, "x.safetensors", file(header, make([]byte, 8))))
	require.NoError(t, err)
	defer r.Close()
	buf := make([]float32, 1, 5)
	got, err := r.Float32("a", buf)
	require.NoError(t, err)
	require.Len(t, got, 2)
	require.Same(t, &buf[0], &got[0])
}

func TestOpenReportsWhatIsWrong(t *testing.T) {
	type refused struct {
		Name, Header string
		Data         int
		Want         []string
	}
	for _, c := range append(golden.Table[[]refused](t, "headers.yaml"),
		refused{"deep nesting", `{"a":` + strings.Repeat("[", 1e6), 0, []string{`found "["`}},
		refused{"not UTF-8", "{\"\xff\":1}", 0, []string{"UTF-8"}}) {
		t.Run(c.Name, func(t *testing.T) {
			_, err := Open(save(t, "bad.safetensors", file(c.Header, make([]byte, c.Data))))
			require.ErrorIs(t, err, ErrFormat)
			for _, want := range append(c.Want, "bad.safetensors") {
				require.ErrorContains(t, err, want)
			}
		})
	}
}

func TestOpenChecksTheLengthBeforeItAllocates(t *testing.T) {
	for name, content := range map[string][]byte{
		"empty":                nil,
		"short":                {1, 2, 3},
		"longer than the file": append(binary.LittleEndian.AppendUint64(nil, 100), '{', '}'),
		"over the limit":       append(binary.LittleEndian.AppendUint64(nil, 1<<40), '{', '}'),
		"negative as int64":    append(binary.LittleEndian.AppendUint64(nil, math.MaxUint64), '{', '}'),
	} {
		_, err := Open(save(t, "x", content))
		require.ErrorIs(t, err, ErrFormat, name)
	}
	_, err := Open(filepath.Join(t.TempDir(), "missing"))
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = Open(t.TempDir())
	require.ErrorContains(t, err, "not a regular file")
}

func TestFurtherProblemsAreCounted(t *testing.T) {
	var parts []string
	for i := range 25 {
		parts = append(parts, fmt.Sprintf(`"t%d":{"dtype":"F9","shape":[],"data_offsets":[0,0]}`, i))
	}
	_, err := Open(save(t, "x", file("{"+strings.Join(parts, ",")+"}", nil)))
	require.ErrorContains(t, err, "and 15 more")
}

func TestClosedReaderRefuses(t *testing.T) {
	both(t, func(t *testing.T, mapping bool) {
		r, err := open(save(t, "x", file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, make([]byte, 4))), mapping)
		require.NoError(t, err)
		require.NoError(t, r.Close())
		require.NoError(t, r.Close())
		_, err = r.Float32("a", nil)
		require.ErrorIs(t, err, ErrClosed)
		_, err = r.Bytes("a")
		require.ErrorIs(t, err, ErrClosed)
	})
}

func TestReadingATruncatedFileIsAnError(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // a mapped file cannot be truncated on this system
	}
	both(t, func(t *testing.T, mapping bool) {
		path := save(t, "x", file(`{"a":{"dtype":"F32","shape":[100000],"data_offsets":[0,400000]}}`, make([]byte, 400000)))
		r, err := open(path, mapping)
		require.NoError(t, err)
		defer r.Close()
		require.NoError(t, os.Truncate(path, 1000))
		_, err = r.Float32("a", nil)
		require.ErrorContains(t, err, "truncated while it was open")
	})
}
