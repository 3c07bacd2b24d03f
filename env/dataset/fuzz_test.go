package dataset

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzYAML: every input is an error, or gives episodes that survive parquet.
func FuzzYAML(f *testing.F) {
	f.Add([]byte(specs))
	f.Add([]byte(legacy))
	f.Add([]byte("envs: [{name: a, n_envs: 2, config: {x: [1, {y: ~}], z: .nan}}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		none := map[string]Seeder{}
		o := Options{Legacy: LegacyOptions{Seeders: none}}
		if list, err := ReadSpecs(data, o); err == nil {
			total := 0
			for _, s := range list.Specs {
				total += s.Count
			}
			if total > 1000 {
				return // valid but slow
			}
			episodes, err := list.Episodes()
			require.NoError(t, err)
			require.Len(t, episodes, total)
			var b bytes.Buffer
			if WriteParquet(&b, episodes, ParquetOptions{JSON: true}) == nil {
				again, err := read(b.Bytes(), Options{})
				require.NoError(t, err)
				require.Len(t, again, total)
			}
		} else {
			require.ErrorIs(t, err, ErrFile)
		}
		if doc, err := parse(data); err == nil {
			if _, err := readLegacy(doc, o); err != nil {
				require.ErrorIs(t, err, ErrFile)
			}
		}
	})
}

// FuzzParquet: damaged tables are errors.
func FuzzParquet(f *testing.F) {
	for _, o := range []ParquetOptions{{}, {JSON: true}} {
		f.Add(write(f, episodes(f)[:6], o))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := read(data, Options{Known: known}); err != nil {
			require.ErrorIs(t, err, ErrFile)
		}
	})
}
