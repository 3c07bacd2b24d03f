package store

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/rollout"
)

// TestSmallFilesThatAreLargeInMemoryAreRefused while a limit is set, before their pages are read:
// long texts, texts of dictionaries, of which every episode has a copy, and many small values.
func TestSmallFilesThatAreLargeInMemoryAreRefused(t *testing.T) {
	const most = 1 << 20
	file := func(ts ...*rollout.Trajectory) *Reader {
		path := filepath.Join(t.TempDir(), "a.parquet")
		require.NoError(t, Save(path, 7, ts))
		r, err := Open(path)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, r.Close()) })
		r.NamesOnly()
		r.Limit(most)
		return r
	}
	read := func(r *Reader) []error {
		_, summaries := r.Summaries()
		_, texts := r.Texts()
		_, one := r.At(0)
		var all error
		for _, err := range r.All() {
			all = err
		}
		return []error{summaries, texts, one, all}
	}
	one := trajectories(t)[0]
	for _, err := range read(file(trajectories(t)...)) {
		require.NoError(t, err)
	}
	long, short := *one, *one
	long.Turns = append([]rollout.Turn{}, one.Turns...)
	long.Turns[0].Response = strings.Repeat("a", 2*most)
	errs := read(file(&long))
	require.NoError(t, errs[0], "which needs no texts")
	for _, err := range errs[1:] {
		testkit.Error(t, err, ErrFormat, "bytes or more in memory, at most 1048576 are allowed")
	}
	short.Turns, short.Rows = nil, nil
	short.Env = strings.Repeat("e", 1<<10)
	many := make([]*rollout.Trajectory, 1200)
	for i := range many {
		many[i] = &short
	}
	errs = read(file(many...))
	require.ErrorIs(t, errs[0], ErrFormat, "a copy of the name for each episode")
	require.NoError(t, errs[1])
	require.ErrorIs(t, errs[2], ErrFormat)

	scores := make([]Scores, 10)
	for i := range scores {
		scores[i] = Scores{Index: i, Rewards: make([]float32, most/40), Loss: make([]bool, most/40)}
	}
	path := filepath.Join(t.TempDir(), "s.parquet")
	require.NoError(t, SaveScores(path, 7, scores))
	_, err := LoadScores(path)
	require.NoError(t, err, "no limit")
	for limit, want := range map[int64]error{most: ErrFormat, 2 * most: nil} {
		f, err := os.Open(path)
		require.NoError(t, err)
		_, err = ReadScores(f, limit)
		require.ErrorIs(t, err, want)
	}
}
