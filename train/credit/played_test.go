package credit_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/rollout/store"
	"vagen/train/credit"
)

// TestPlayedEpisodesAreKeptLikeRecordedOnes: what is read from the folder gives the numbers
// of the estimators that the measurement compared.
func TestPlayedEpisodesAreKeptLikeRecordedOnes(t *testing.T) {
	s := newSetup(t, twoTurns(), 4, true)
	run := t.TempDir()
	require.NoError(t, credit.RemovePlayed(run, 5), "there is none")
	require.NoError(t, s.step.SavePlayed(run, 5, nil))
	dir := credit.PlayedFolder(run)
	stored, err := store.Load(filepath.Join(dir, "step_5.parquet"))
	require.NoError(t, err)
	again := &credit.Step{Config: s.step.Config}
	for _, e := range stored {
		require.Equal(t, 5, e.Step)
		again.Episodes = append(again.Episodes, e.Trajectory)
	}
	again.Scores, err = store.LoadScores(filepath.Join(dir, "step_5.scores.parquet"))
	require.NoError(t, err)
	want, err := s.step.Estimate("bi_level_gae", s.step.Config.Algorithm.Params)
	require.NoError(t, err)
	got, err := again.Estimate("bi_level_gae", s.step.Config.Algorithm.Params)
	require.NoError(t, err)
	require.Equal(t, want, got)

	require.NoError(t, credit.RemovePlayed(run, 5))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)

	// A folder that cannot be written to is an error.
	require.NoError(t, os.RemoveAll(dir))
	testkit.Write(t, dir, "")
	require.Error(t, s.step.SavePlayed(run, 5, nil))
}
