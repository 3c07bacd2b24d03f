package credit_test

import (
	"encoding/json"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/train/credit"
)

func TestUnknownNumbersAreNull(t *testing.T) {
	raw, err := json.Marshal([]credit.Number{1.5, credit.Number(math.NaN()), credit.Number(math.Inf(1))})
	require.NoError(t, err)
	require.Equal(t, "[1.5,null,null]", string(raw))
	back := testkit.JSON[[]credit.Number](t, raw)
	require.Equal(t, credit.Number(1.5), back[0])
	require.True(t, math.IsNaN(float64(back[1])))
}

func TestDamagedResultsAreRefused(t *testing.T) {
	dir, k := t.TempDir(), credit.Key{Step: 3, Group: 1, Index: 2}
	require.Equal(t, "train/3/1-2", k.String())
	_, err := credit.LoadMeasured(dir, k)
	require.ErrorIs(t, err, fs.ErrNotExist)
	path := credit.Path(dir, k)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	good := `{"step":3,"group":1,"index":2,"length":2,"turns":[{"turn":0,"q":null},{"turn":1}],"mistake":1}`
	for text, why := range map[string]string{
		"":            "unexpected end",
		good[:40]:     "unexpected end",
		"[]":          "cannot unmarshal",
		"{}":          "it is of episode train/0/0-0, must be of train/3/1-2",
		`{"step":-1}`: "train/-1",
		`{"step":3,"group":1,"index":2,"length":1,"turns":[{"turn":1}]}`:            "turns[0] is turn 1, must be in [0, 1)",
		`{"step":3,"group":1,"index":2,"length":3,"turns":[{"turn":1},{"turn":1}]}`: "turns[1] is turn 1, must be in [2, 3)",
		`{"step":3,"group":1,"index":2,"length":3,"turns":[{"turn":-1}]}`:           "turn -1",
		`{"step":3,"group":1,"index":2,"length":3,"mistake":3}`:                     "mistake is turn 3",
	} {
		testkit.Write(t, path, text)
		_, err := credit.LoadMeasured(dir, k)
		testkit.Error(t, err, credit.ErrFile, why)
	}
	testkit.Write(t, path, good)
	m, err := credit.LoadMeasured(dir, k)
	require.NoError(t, err)
	require.True(t, math.IsNaN(float64(m.Turns[0].Q)))
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.Mkdir(path, 0o755))
	_, err = credit.LoadMeasured(dir, k)
	require.ErrorIs(t, err, credit.ErrFile)
}
