package store

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
)

// scoresOf are rows of an episode with a critic and of one without.
func scoresOf() []Scores {
	return []Scores{
		{
			Group: 3, Index: 1, Row: 2, OldLogProbs: []float32{0, -0.5, float32(math.Copysign(0, -1))},
			Reference: []float32{0, -1, -2},
			Values:    []float32{0, 1e-30, 3}, Entropy: []float32{0, 0.25, 0.5}, Rewards: []float32{0, 0, 1},
			Advantages: []float32{0, 2, -2}, Returns: []float32{0, 4, 5},
			Loss: []bool{false, true, false}, Value: []bool{false, true, true}, Scored: []bool{false, true, true},
		},
		{Group: 4, Rewards: []float32{1}, Advantages: []float32{0.5}, Returns: []float32{0.25}, Loss: []bool{false},
			Value: []bool{false}, Scored: []bool{false}},
		{Group: 5},
	}
}

func TestScoresSurviveARoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "step_7.scores.parquet")
	require.NoError(t, SaveScores(path, 7, scoresOf()))
	got, err := LoadScores(path)
	require.NoError(t, err)
	require.Equal(t, scoresOf(), got, "columns that were not computed are nil")
	require.True(t, math.Signbit(float64(got[0].OldLogProbs[2])), "bits are kept")
	require.Equal(t, 3, got[0].Len())
	require.NoError(t, SaveScores(path, 7, nil))
	got, err = LoadScores(path)
	require.NoError(t, err)
	require.Empty(t, got)
}

func TestScoresAreCompleteOrAbsent(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "step_7.scores.parquet")
	bad := scoresOf()
	bad[0].Values = bad[0].Values[1:]
	require.ErrorContains(t, SaveScores(path, 7, bad),
		"scores 0 (group 3, index 1, row 2): values has 2 numbers, must be 3 or none")
	bad = scoresOf()
	bad[1].Row = -1
	require.ErrorContains(t, SaveScores(path, 7, bad), "row is -1")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)

	require.NoError(t, SaveScores(path, 7, scoresOf()))
	raw := testkit.Read(t, path)
	for n := range raw {
		testkit.Write(t, path, raw[:n])
		_, err := LoadScores(path)
		require.ErrorIs(t, err, ErrFormat, "%d bytes", n)
	}
}

// TestScoresAndEpisodesAreNotConfused: each reader refuses the other's files.
func TestScoresAndEpisodesAreNotConfused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.parquet")
	require.NoError(t, SaveScores(path, 7, scoresOf()))
	_, err := Load(path)
	require.ErrorIs(t, err, ErrFormat)
	require.NoError(t, Save(path, 7, nil))
	_, err = LoadScores(path)
	require.ErrorIs(t, err, ErrFormat)
	_, err = LoadScores(path + "x")
	require.ErrorIs(t, err, os.ErrNotExist)
}
