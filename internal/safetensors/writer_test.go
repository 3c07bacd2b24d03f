package safetensors

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
)

var sample = []Tensor{
	{"model.embed", F32, []int{5, 4}}, {"scalar", F32, nil}, {"empty", F32, []int{0, 7}},
	{"w.bf16", BF16, []int{3, 3}}, {"w.f16", F16, []int{2, 5}}, {`odd "name" <é>`, F32, []int{3}},
}

func values(t Tensor) []float32 {
	rng := rand.New(rand.NewPCG(7, uint64(len(t.Name))))
	v := make([]float32, t.Len())
	for i := range v {
		v[i] = float32(rng.NormFloat64())
	}
	return v
}

func write(t *testing.T, w *Writer, tensors []Tensor) {
	t.Helper()
	for _, ts := range tensors {
		require.NoError(t, w.Float32(ts.Name, values(ts)))
	}
	require.NoError(t, w.Commit())
}

// requireSample checks that r holds sample, rounded to its types.
func requireSample(t *testing.T, r *Reader) {
	t.Helper()
	for _, ts := range sample {
		info, ok := r.Info(ts.Name)
		require.True(t, ok, ts.Name)
		require.Equal(t, ts.DType, info.DType)
		require.Equal(t, append([]int{}, ts.Shape...), append([]int{}, info.Shape...))
		got, err := r.Float32(ts.Name, nil)
		require.NoError(t, err)
		// Half a unit in the last place: 2^-9 for BF16, 2^-12 for F16 of values in [2, 4).
		tol := map[DType]float64{F32: 0, BF16: 1.0 / 256 * 2, F16: 1.0 / 2048 * 2}[ts.DType]
		require.Len(t, got, ts.Len())
		for i, want := range values(ts) {
			require.InDelta(t, want, got[i], tol, "%s[%d]", ts.Name, i)
		}
	}
}

func TestWriterAndReaderAgree(t *testing.T) {
	both(t, func(t *testing.T, mapping bool) {
		path := filepath.Join(t.TempDir(), "m.safetensors")
		w, err := Create(path, sample, map[string]string{"note": "x"})
		require.NoError(t, err)
		write(t, w, sample)
		r, err := open(path, mapping)
		require.NoError(t, err)
		defer r.Close()
		require.Equal(t, map[string]string{"format": "pt", "note": "x"}, r.Metadata())
		requireSample(t, r)
		var names []string
		for _, ts := range sample {
			names = append(names, ts.Name)
		}
		require.Equal(t, names, r.Names(), "the order given")
	})
}

func TestWriterIsDeterministicAndAligned(t *testing.T) {
	var files [][]byte
	for range 2 {
		path := filepath.Join(t.TempDir(), "m.safetensors")
		w, err := Create(path, sample, map[string]string{"b": "1", "a": "2"})
		require.NoError(t, err)
		write(t, w, sample)
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		files = append(files, b)
	}
	require.Equal(t, files[0], files[1])
	require.Zero(t, (8+int(files[0][0])+int(files[0][1])<<8)%8, "the data begins at a multiple of 8")
}

func TestATensorMayBeWrittenInPieces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.safetensors")
	n := chunkBytes/2 + 3
	w, err := Create(path, []Tensor{{"a", BF16, []int{n}}}, nil)
	require.NoError(t, err)
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(i % 200)
	}
	require.NoError(t, w.Float32("a", v[:1]))
	require.NoError(t, w.Float32("a", v[1:]))
	require.NoError(t, w.Commit())
	r, err := Open(path)
	require.NoError(t, err)
	defer r.Close()
	got, err := r.Float32("a", nil)
	require.NoError(t, err)
	require.Equal(t, v, got)
}

func TestNoFileHasItsFinalNameBeforeCommit(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "m.safetensors")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
	w, err := Create(path, sample, nil)
	require.NoError(t, err)
	require.NoError(t, w.Float32(sample[0].Name, values(sample[0])))
	err = w.Commit()
	require.ErrorContains(t, err, `"scalar": 4 bytes are missing`)
	require.ErrorIs(t, w.Commit(), ErrClosed)
	require.NoError(t, w.Close())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1, "no temporary file is left")
	old, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "old", string(old))
}

func TestWriterRefusesMisuse(t *testing.T) {
	try := func(fn func(w *Writer) error) error {
		w, err := Create(filepath.Join(t.TempDir(), "m"), []Tensor{
			{"a", F16, []int{2}}, {"b", I32, []int{1}}, {"none", F32, []int{0}},
		}, nil)
		require.NoError(t, err)
		defer w.Close()
		return fn(w)
	}
	require.ErrorContains(t, try(func(w *Writer) error { return w.Float32("b", nil) }), `the next one is "a"`)
	require.ErrorContains(t, try(func(w *Writer) error { return w.Float32("a", make([]float32, 3)) }), "only 2 are left")
	require.ErrorContains(t, try(func(w *Writer) error { return w.Float32("a", []float32{1, 70000}) }),
		"value 70000 at index 1 is too large for F16")
	require.NoError(t, try(func(w *Writer) error { return w.Float32("a", []float32{1, float32(math.Inf(-1))}) }))
	require.ErrorIs(t, try(func(w *Writer) error {
		require.NoError(t, w.Float32("a", make([]float32, 2)))
		return w.Float32("b", []float32{1})
	}), ErrDType)
	require.ErrorContains(t, try(func(w *Writer) error {
		require.NoError(t, w.Bytes("a", make([]byte, 4)))
		require.NoError(t, w.Bytes("b", make([]byte, 4)))
		require.NoError(t, w.Bytes("none", nil))
		return w.Bytes("none", nil)
	}), "all tensors are written")
	require.ErrorContains(t, try(func(w *Writer) error {
		require.Error(t, w.Bytes("b", nil))
		return w.Commit()
	}), "must be written in order", "an error stays")
}

func TestCreateListsBadTensors(t *testing.T) {
	_, err := Create(filepath.Join(t.TempDir(), "m"), []Tensor{
		{"", F32, nil}, {"a", F32, nil}, {"a", F32, nil}, {"__metadata__", F32, nil},
		{"neg", F32, []int{-1}}, {"big", F32, []int{math.MaxInt, 2}}, {"type", 0, nil}, {"\xff", F32, nil},
	}, nil)
	for _, want := range []string{`tensor 0: the name ""`, `"a" is repeated`, `"__metadata__" is not`, "negative",
		"overflows", "no dtype", `"\xff"`} {
		require.ErrorContains(t, err, want)
	}
}

func TestShardsAreSplitIndexedAndReadBack(t *testing.T) {
	both(t, func(t *testing.T, mapping bool) {
		dir := t.TempDir()
		w, err := CreateSharded(dir, sample, nil, 84)
		require.NoError(t, err)
		write(t, w, sample)
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		require.Equal(t, []string{"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
			"model.safetensors.index.json"}, names)
		r, err := openSharded(dir, mapping)
		require.NoError(t, err)
		defer r.Close()
		requireSample(t, r)
		require.Equal(t, "model-00001-of-00002.safetensors", r.Shard("scalar"))
		require.Equal(t, "model-00002-of-00002.safetensors", r.Shard("w.f16"))
		require.Equal(t, "", r.Shard("nothing"))
		index, err := os.ReadFile(filepath.Join(dir, "model.safetensors.index.json"))
		require.NoError(t, err)
		require.Contains(t, string(index), `"total_size": 134`)

		_, err = CreateSharded(dir, sample, nil, 0)
		require.ErrorIs(t, err, ErrExists)
	})
}

func TestOneShardNeedsNoIndex(t *testing.T) {
	dir := t.TempDir()
	w, err := CreateSharded(dir, sample, nil, 0)
	require.NoError(t, err)
	write(t, w, sample)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.Equal(t, "model.safetensors", entries[0].Name())
	r, err := OpenSharded(dir)
	require.NoError(t, err)
	defer r.Close()
	requireSample(t, r)
}

func TestLargeTensorGetsItsOwnShard(t *testing.T) {
	counts, total := split([]Tensor{{"a", U8, []int{3}}, {"b", U8, []int{100}}, {"c", U8, []int{4}}, {"d", U8, []int{6}}},
		10)
	require.Equal(t, []int{1, 1, 2}, counts)
	require.Equal(t, int64(113), total)
}

func TestOpenShardedAcceptsOnlyPlainFileNames(t *testing.T) {
	for _, bad := range []string{"../x.safetensors", "/etc/x.safetensors", "a/b.safetensors", `a\b.safetensors`, "x.bin",
		"", ".safetensors", "c:x.safetensors"} {
		dir := t.TempDir()
		index := `{"weight_map":{"a":` + string(quote(bad)) + `}}`
		require.NoError(t, os.WriteFile(filepath.Join(dir, indexName), []byte(index), 0o600))
		_, err := OpenSharded(dir)
		testkit.Error(t, err, ErrFormat, string(quote(bad)))
	}
}

func TestOpenShardedReportsWhatIsMissing(t *testing.T) {
	dir := t.TempDir()
	_, err := OpenSharded(dir)
	require.ErrorIs(t, err, ErrNotFound)
	w, err := Create(filepath.Join(dir, "one.safetensors"), []Tensor{{"a", F32, nil}, {"extra", F32, nil}}, nil)
	require.NoError(t, err)
	require.NoError(t, w.Float32("a", []float32{1}))
	require.NoError(t, w.Float32("extra", []float32{1}))
	require.NoError(t, w.Commit())
	put := func(index string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, indexName), []byte(index), 0o600))
	}
	put(`{"weight_map":{"a":"one.safetensors","b":"one.safetensors","c":"two.safetensors"}}`)
	_, err = OpenSharded(dir)
	testkit.Error(t, err, ErrNotFound, `tensor "b" in shard one.safetensors`, "shard two.safetensors with 1 tensors")

	put(`{"metadata":{"deep":[[1],{"x":null}]},"weight_map":{"a":"one.safetensors"}}`)
	r, err := OpenSharded(dir)
	require.NoError(t, err)
	defer r.Close()
	require.Equal(t, []string{"a"}, r.Names(), "tensors that the map does not list are ignored")

	for name, bad := range map[string]string{
		"no map": `{"metadata":{}}`, "empty map": `{"weight_map":{}}`, "not an object": `[]`,
		"twice": `{"weight_map":{"a":"x.safetensors","a":"y.safetensors"}}`,
		"deep":  `{"x":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `,"weight_map":{"a":"one.safetensors"}}`,
	} {
		put(bad)
		_, err = OpenSharded(dir)
		require.ErrorIs(t, err, ErrFormat, name)
	}
}
