package dataset

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
)

func write(t testing.TB, episodes []Episode, o ParquetOptions) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, WriteParquet(&b, episodes, o))
	return b.Bytes()
}

func read(data []byte, o Options) ([]Episode, error) {
	return ReadParquet(bytes.NewReader(data), int64(len(data)), o)
}

// episodes returns those of both kinds of files, without the fields that parquet does not
// store.
func episodes(t testing.TB) []Episode {
	t.Helper()
	f, err := ReadSpecs([]byte(specs), Options{Known: known})
	require.NoError(t, err)
	out, err := f.Episodes()
	require.NoError(t, err)
	more, err := expand(t.Context(), []byte(legacy), 0, Options{Known: known})
	require.NoError(t, err)
	out = append(out, more...)
	for i := range out {
		out[i].Entry = 0
	}
	return out
}

func TestEpisodesSurviveParquet(t *testing.T) {
	all := episodes(t)
	for _, o := range []ParquetOptions{{}, {JSON: true}} {
		got, err := read(write(t, all, o), Options{Known: known})
		require.NoError(t, err)
		require.Equal(t, all, got)
	}
}

// TestParquetKeepsZeros, empty texts, empty lists and lists of lists: they are not null.
func TestParquetKeepsZeros(t *testing.T) {
	zero := 0
	e := Episode{
		Name: "a", Env: "a", Source: "s", Split: "p", Seed: 0, Limits: Limits{ThinkTokens: &zero},
		Config: map[string]any{
			"i": int64(0), "f": 0.0, "b": false, "s": "", "l": []any{},
			"ll": []any{[]any{int64(1)}, []any{}, []any{int64(2), int64(3)}},
			"ml": []any{map[string]any{"x": int64(0)}, map[string]any{"x": int64(1), "y": "z"}}, "big": int64(math.MinInt64),
			"mixed": []any{0.5, int64(2)},
		},
	}
	got, err := read(write(t, []Episode{e,
		{Name: "b", Env: "b", Source: "s", Split: "p", Seed: -1, Config: map[string]any{}}}, ParquetOptions{}), Options{})
	require.NoError(t, err)
	want := e
	want.Config["mixed"] = []any{0.5, 2.0} // a column has one type
	require.Equal(t, want, got[0])
	require.Empty(t, got[1].Config)
	require.Nil(t, got[1].ThinkTokens)
}

func TestParquetHasTheLegacyColumns(t *testing.T) {
	data := write(t, episodes(t), ParquetOptions{})
	rows, err := parquet.Read[any](bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	require.Len(t, rows, 15)
	last := rows[14].(map[string]any)
	require.Equal(t, "frozenlake", last["data_source"])
	require.Equal(t, []any{map[string]any{"role": "user", "content": ""}}, last["prompt"])
	info := last["extra_info"].(map[string]any)
	require.Equal(t, []any{"frozenlake", int64(8484), "train"}, []any{info["env_name"], info["seed"], info["split"]})
	require.Nil(t, info["rules"], "files of the legacy system have no such column")
	require.Equal(t, "lite", rows[0].(map[string]any)["extra_info"].(map[string]any)["rules"])
}

func TestConfigurationsThatColumnsCannotStoreAreRefused(t *testing.T) {
	for want, configs := range map[string][]map[string]any{
		"episode 1: .extra_info.env_config.size is a list, but a whole number in an earlier episode": {{"size": int64(1)},
			{"size": []any{int64(1)}}},
		"env_config.o is an empty mapping": {{"o": map[string]any{}}},
		"env_config.l[1]: it is null":      {{"l": []any{int64(1), nil}}},
	} {
		var all []Episode
		for _, c := range configs {
			all = append(all, Episode{Name: "a", Env: "a", Source: "s", Split: "p", Config: c})
		}
		err := WriteParquet(&bytes.Buffer{}, all, ParquetOptions{})
		testkit.Error(t, err, ErrFile, want, "write configurations as JSON to store it")
		got, err := read(write(t, all, ParquetOptions{JSON: true}), Options{})
		require.NoError(t, err)
		for i := range all {
			require.Equal(t, all[i].Config, got[i].Config)
		}
	}
	for want, config := range map[string]map[string]any{
		"a chan int":                {"c": make(chan int)},
		"above 9223372036854775807": {"c": uint64(math.MaxUint64)},
	} {
		for _, o := range []ParquetOptions{{}, {JSON: true}} {
			require.Error(t, WriteParquet(&bytes.Buffer{}, []Episode{{Name: "a", Config: config}}, o), want)
		}
	}
	require.ErrorContains(t, WriteParquet(&bytes.Buffer{}, nil, ParquetOptions{}), "0 episodes")
	require.Error(t, WriteParquet(&bytes.Buffer{}, []Episode{{Name: "a", Config: map[string]any{"x": math.NaN()}}},
		ParquetOptions{JSON: true}))
}

// table returns a parquet file with the rows.
func table[T any](t *testing.T, rows ...T) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, parquet.Write(&b, rows))
	return b.Bytes()
}

func TestBadTablesAreReportedWithRowAndColumn(t *testing.T) {
	type named struct {
		Name   *string `parquet:"env_name,optional"`
		Seed   *int64  `parquet:"seed,optional"`
		Config string  `parquet:"env_config"`
		Turns  int32   `parquet:"max_turns"`
		Rules  string  `parquet:"rules"`
		Other  []byte  `parquet:"other"`
	}
	type table1 struct {
		Source string `parquet:"data_source"`
		Info   named  `parquet:"extra_info"`
		Image  []byte `parquet:"image"`
	}
	name, path, seed := "sokoban", "../x", int64(3)
	good := table1{Source: "s", Info: named{Name: &name, Seed: &seed, Config: `{"a": 1, "b": 1.5, "c": null}`, Turns: 2},
		Image: []byte("ignored")}
	got, err := read(table(t, good), Options{Known: known})
	require.NoError(t, err)
	require.Equal(t, []Episode{{Name: name, Env: name, Seed: 3, Config: map[string]any{"a": int64(1), "b": 1.5},
		Limits: Limits{MaxTurns: 2},
		Source: "s", Split: "default", Legacy: true}}, got)

	for want, change := range map[string]func(r *table1){
		"row 1: extra_info.env_name: it is empty": func(r *table1) { r.Info.Name = nil },
		`row 1: extra_info.env_name: "../x"`:      func(r *table1) { r.Info.Name = &path },
		"row 1: extra_info.seed is null":          func(r *table1) { r.Info.Seed = nil },
		`data_source: "a/b" contains '/'`:         func(r *table1) { r.Source = "a/b" },
		"env_config: it is not JSON":              func(r *table1) { r.Info.Config = "{" },
		"text after the JSON":                     func(r *table1) { r.Info.Config = "{} {}" },
		"must be a mapping":                       func(r *table1) { r.Info.Config = "[]" },
		"99999999999999999999 is outside":         func(r *table1) { r.Info.Config = `{"a": 99999999999999999999}` },
		"1e999 is outside":                        func(r *table1) { r.Info.Config = `{"a": 1e999}` },
		"config.state_reward: scorer":             func(r *table1) { r.Info.Config = `{"state_reward": {"scorer": "x"}}` },
		"extra_info.max_turns is -1":              func(r *table1) { r.Info.Turns = -1 },
		`extra_info.rules is "old"`:               func(r *table1) { r.Info.Rules = "old" },
	} {
		bad := good
		change(&bad)
		_, err := read(table(t, good, bad), Options{Known: known})
		testkit.Error(t, err, ErrFile, want)
	}

	type noSeed struct {
		Info struct {
			Name string `parquet:"env_name"`
		} `parquet:"extra_info"`
	}
	type wrongKind struct {
		Info struct {
			Name string `parquet:"env_name"`
			Seed string `parquet:"seed"`
		} `parquet:"extra_info"`
	}
	for want, data := range map[string][]byte{
		"the columns are Other": table(t, struct{ Other int }{1}),
		"extra_info with nested columns": table(t, struct {
			Info int `parquet:"extra_info"`
		}{1}),
		"extra_info.seed is missing; it has env_n": table(t, noSeed{}),
		"extra_info.seed is 7 (string)": table(t, wrongKind{struct {
			Name string `parquet:"env_name"`
			Seed string `parquet:"seed"`
		}{"a", "7"}}),
		"it has 0 rows": table[noSeed](t),
		"bad dataset":   []byte("PAR1 but then nothing PAR1"),
	} {
		_, err := read(data, Options{})
		testkit.Error(t, err, ErrFile, want)
	}
}

// TestDamagedFilesDoNotPanic: a truncated file, or one with a changed byte, gives an error
// or episodes.
func TestDamagedFilesDoNotPanic(t *testing.T) {
	data := write(t, episodes(t), ParquetOptions{})
	for n := 0; n < len(data); n += 41 {
		_, err := read(data[:n], Options{})
		require.ErrorIs(t, err, ErrFile)
		changed := bytes.Clone(data)
		changed[n] ^= 0x41
		if _, err := read(changed, Options{}); err != nil {
			require.ErrorIs(t, err, ErrFile)
		}
	}
}

func TestFilesAreSavedAtomically(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.parquet")
	require.NoError(t, SaveParquet(path, episodes(t), ParquetOptions{}))
	before := testkit.Read(t, path)
	require.Error(t, SaveParquet(path, nil, ParquetOptions{}))
	require.Equal(t, before, testkit.Read(t, path))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1, "no temporary file remains")
	require.ErrorIs(t, SaveParquet(filepath.Join(dir, "none", "a.parquet"), episodes(t), ParquetOptions{}), os.ErrNotExist)
}
