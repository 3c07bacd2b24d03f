package view_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/rollout/store"
)

func problems(t *testing.T, s served) string {
	t.Helper()
	r := s.runs(t)
	return strings.Join(r.Runs[0].Problems, "\n")
}

// TestTornEpisodesAreAProblem cuts a file of episodes at many places: the others are
// listed, and the file is again when it is complete.
func TestTornEpisodesAreAProblem(t *testing.T) {
	f := trainRun(t, 2)
	path := filepath.Join(f.rollouts, "step_2.parquet")
	raw := testkit.Read(t, path)
	s := serveRuns(t, "", f.dir)
	n := len(f.episodes[1])
	for at := 0; at < len(raw); at += len(raw)/40 + 1 {
		testkit.Write(t, path, raw[:at])
		var l listAnswer
		s.get(t, 200, "/api/runs/r0/episodes", &l)
		require.Equal(t, n, l.Total)
		require.Contains(t, problems(t, s), "The episodes of step 2 (train) cannot be read")
		s.refused(t, 422, "/api/runs/r0/episode?key=train/2/0-0")
	}
	testkit.Write(t, path, raw)
	require.Empty(t, problems(t, s))
}

// TestDamagedScoresAreAProblemOfTheEpisode: its tokens are shown without them.
func TestDamagedScoresAreAProblemOfTheEpisode(t *testing.T) {
	f := trainRun(t, 1)
	path := filepath.Join(f.rollouts, "step_1.scores.parquet")
	s := serveRuns(t, "", f.dir)
	ask := func() detailAnswer {
		a := s.episode(t, "train/1/0-0")
		require.NotEmpty(t, a.Rows[0].Tokens)
		return a
	}
	require.Contains(t, ask().Rows[0].Columns, "advantage")
	testkit.Write(t, path, "PAR1")
	a := ask()
	require.NotContains(t, a.Rows[0].Columns, "advantage")
	require.Contains(t, a.Problems[0], "The numbers of the tokens cannot be read")
	c := s.credit(t, "estimator=bi_level_gae&key=train/1/0-0")
	require.Contains(t, c.Problem, "cannot be read")

	short := f.scores[1][0]
	short.Row, short.Group, short.Index = 0, 0, 0
	short = store.Scores{Rewards: short.Rewards[:1]}
	require.NoError(t, store.SaveScores(path, 1, []store.Scores{short}))
	require.Contains(t, strings.Join(ask().Problems, " "), "are for 1 tokens")
	c = s.credit(t, "estimator=bi_level_gae&key=train/1/0-0")
	require.NotEmpty(t, c.Problem)

	// A run of an earlier version has none.
	require.NoError(t, os.Remove(path))
	a = ask()
	require.Contains(t, a.Rows[0].Columns, "sampled")
	require.Contains(t, a.Problems[0], "were not recorded")
	c = s.credit(t, "estimator=bi_level_gae&key=train/1/0-0")
	require.Contains(t, c.Problem, "not recorded")
	c = s.credit(t, "estimator=grpo&key=train/1/0-0")
	require.Empty(t, c.Problem, "which needs no critic")
}

func TestMissingImagesAreNull(t *testing.T) {
	f := trainRun(t, 1)
	require.NoError(t, os.RemoveAll(filepath.Join(f.rollouts, "images")))
	s := serveRuns(t, "", f.dir)
	a := s.episode(t, "train/1/0-0")
	require.Len(t, a.Turns[0].Images, 1)
	require.Nil(t, a.Turns[0].Images[0])
	require.Contains(t, a.Problems[0], "3 images of the episode are not stored")
}

// TestOldAndForeignFoldersAreProblems: what cannot be read is said, and the rest shown.
func TestOldAndForeignFoldersAreProblems(t *testing.T) {
	f, s := viewed(t, 1)
	config := testkit.Read(t, filepath.Join(f.dir, "config.yaml"))
	for text, says := range map[string]string{
		"trainer: {no_such_key: 1}\n": "no_such_key", "trainer: [\n": "config.yaml cannot be read", "": "",
		"\x00": "config.yaml cannot be read",
	} {
		f.write(t, "config.yaml", text)
		require.Contains(t, problems(t, s), says, "%q", text)
		var m metricsAnswer
		s.get(t, 200, "/api/runs/r0/metrics", &m)
		require.Positive(t, m.Lines)
	}
	// A key that does not exist any more is named, and the rest is used.
	f.write(t, "config.yaml", regexp.MustCompile(`(?m)^( +)high_level_gamma:`).ReplaceAllString(string(config),
		"${1}an_old_key: 1\n${0}"))
	require.Contains(t, problems(t, s), "an_old_key")
	var old listAnswer
	s.get(t, 200, "/api/runs/r0/episodes", &old)
	require.Equal(t, len(f.episodes[1]), old.Total)
	credit := s.credit(t, "estimator=grpo&key="+old.Episodes[0].Key)
	require.Empty(t, credit.Problem)
	f.write(t, "config.yaml", string(config))
	require.Empty(t, problems(t, s))
	f.write(t, "rollouts/run.txt", "OTHER\n/elsewhere\n")
	require.Contains(t, problems(t, s), "belongs to another run")
	var l listAnswer
	s.get(t, 200, "/api/runs/r0/episodes", &l)
	require.Zero(t, l.Total)
	require.NoError(t, os.Remove(filepath.Join(f.rollouts, "run.txt")))
	require.Contains(t, problems(t, s), "has no run.txt")
	f.write(t, "rollouts/run.txt", "ID\n")

	// A run that was moved keeps its episodes.
	moved := filepath.Join(t.TempDir(), "moved")
	require.NoError(t, os.Rename(f.dir, moved))
	require.Contains(t, problems(t, s), "The run's folder cannot be read")
	s.get(t, 200, "/api/runs/r0/episodes", &l)
	s = serveRuns(t, "", moved)
	require.Empty(t, problems(t, s))
	s.get(t, 200, "/api/runs/r0/episodes", &l)
	require.Equal(t, len(f.episodes[1]), l.Total)
}

// TestNumbersThatAreNotFiniteAreNull in every answer.
func TestNumbersThatAreNotFiniteAreNull(t *testing.T) {
	f := trainRun(t, 1)
	f.write(t, "metrics.jsonl", event(1, "1e999")+event(2, "null"))
	s := serveRuns(t, "", f.dir)
	var m metricsAnswer
	s.get(t, 200, "/api/runs/r0/metrics", &m)
	require.Len(t, m.Series["a"], 1, "1e999 is no number of JSON")
	for i := range f.scores[1] {
		f.scores[1][i].Values[1] = float32(math.Inf(1))
		f.scores[1][i].Scored[1] = true
	}
	require.NoError(t, store.SaveScores(filepath.Join(f.rollouts, "step_1.scores.parquet"), 1, f.scores[1]))
	a := s.episode(t, fmt.Sprintf("train/1/%d-%d", f.scores[1][0].Group, f.scores[1][0].Index))
	require.Nil(t, a.Rows[0].Columns["value"][1])
}
