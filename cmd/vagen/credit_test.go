package main

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/train/credit"
	"vagen/train/view"
)

// TestCreditIsMeasuredFromWhatARunRecorded, and is the same where episodes and numbers have
// to be made anew.
func TestCreditIsMeasuredFromWhatARunRecorded(t *testing.T) {
	config, out := setup(t)
	episodes := filepath.Join(t.TempDir(), "episodes")
	succeed(t, "train", config, "--log", "error", "--out", out, "trainer.total_training_steps=3", "trainer.save_freq=1",
		"trainer.max_actor_ckpt_to_keep=3",
		"rollout_manager.max_turns=2", "rollout_manager.n_trajectory=2", "actor_rollout_ref.actor.optim.lr=1e-3",
		"trainer.rollout_data_dir="+episodes, "trainer.rollout_data_scores=true")
	before := leavings(t, out)
	measure := func(more ...string) string {
		return succeed(t, append([]string{"credit", out, "--log", "error", "--episodes", "3", "--branches", "2",
			"--alternatives", "1"}, more...)...)
	}
	text := measure("--step", "2", "--set", "algorithm.lam=0.5", "--estimators", "masked_gae,grpo,remax")
	require.Contains(t, text, "checkpoint of step 2: recorded episodes of step 3 with their recorded numbers\n3 episodes, 6 turns with 2 continuations of each side, discount between turns 1\n")
	require.Regexp(t, `(?m)^masked_gae +\d+ `, text)
	require.Regexp(t, `(?m)^grpo +\d+ `, text)
	require.Contains(t, text, "return minus mean *")
	require.Contains(t, text, "not computed: remax: it subtracts the reward of the greedy episode")

	table := measure("--step", "2", "--json")
	parsed := testkit.JSON[credit.Table](t, table)
	require.Equal(t, []int{2, 3, 3, 6, 2}, []int{parsed.Checkpoint, parsed.Step, parsed.Episodes, parsed.Turns,
		parsed.Branches})
	results, err := filepath.Glob(filepath.Join(out, "credit", "train", "3", "*.json"))
	require.NoError(t, err)
	require.Len(t, results, 3)
	played := filepath.Join(credit.PlayedFolder(out), "step_3.parquet")
	require.NoFileExists(t, played, "the run has these episodes")
	original := testkit.Read(t, filepath.Join(episodes, "step_3.parquet"))
	scores := testkit.Read(t, filepath.Join(episodes, "step_3.scores.parquet"))

	// Without the recorded numbers the checkpoint computes them, without the episodes it
	// plays them: both give what was recorded.
	require.NoError(t, os.Remove(filepath.Join(episodes, "step_3.scores.parquet")))
	require.NoError(t, os.RemoveAll(filepath.Join(out, "credit")))
	require.Equal(t, table, measure("--step", "2", "--json"))
	require.Contains(t, measure("--step", "2"), "recorded episodes of step 3, scored by the checkpoint now")
	require.Equal(t, scores, testkit.Read(t, filepath.Join(credit.PlayedFolder(out), "step_3.scores.parquet")),
		"numbers that were computed now are kept")
	require.NoError(t, os.Remove(filepath.Join(episodes, "step_3.parquet")))
	require.NoError(t, os.RemoveAll(filepath.Join(out, "credit")))
	require.Equal(t, table, measure("--step", "2", "--json"))
	// What was played is kept like what training records, and shown with its result.
	require.Equal(t, scores, testkit.Read(t, filepath.Join(credit.PlayedFolder(out), "step_3.scores.parquet")))
	require.FileExists(t, played)
	shown := shownMeasured(t, out)
	require.Len(t, shown, 3, "those that were measured")
	for _, e := range shown {
		require.Equal(t, []any{"measured", 3.0, true, true}, []any{e["kind"], e["step"], e["scores"], e["measured"]})
	}
	// When the run has recorded the step, its own episodes are shown.
	testkit.Write(t, filepath.Join(episodes, "step_3.parquet"), original)
	testkit.Write(t, filepath.Join(episodes, "step_3.scores.parquet"), scores)
	require.Equal(t, table, measure("--step", "2", "--json"))
	require.NoFileExists(t, played)
	require.Empty(t, shownMeasured(t, out))

	require.Contains(t, measure("--step", "3", "--turns", "0", "--seed", "4"),
		"checkpoint of step 3: episodes of step 4 played now, and scored by the checkpoint: the run recorded none\n3 episodes, 3 turns")

	require.NoError(t, os.RemoveAll(filepath.Join(out, "credit")))
	requireSame(t, before, leavings(t, out), "nothing else is changed")
}

// shownMeasured are the episodes of kind measured that vagen view shows.
func shownMeasured(t *testing.T, run string) (list []map[string]any) {
	t.Helper()
	h, err := (&view.Server{Runs: []string{run}}).Handler()
	require.NoError(t, err)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "http://127.0.0.1/api/runs/r0/episodes?kind=measured", nil))
	require.Equal(t, 200, w.Code)
	var a struct{ Episodes []map[string]any }
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &a))
	return a.Episodes
}

func TestWrongUsesOfCreditAreRefused(t *testing.T) {
	config, out := setup(t)
	succeed(t, "train", config, "--log", "error", "--out", out)
	for want, args := range map[string][]string{
		"--step is 0, must be 1 or more":                  {out},
		"flag -turns: found \"3-1\"":                      {out, "--step", "1", "--turns", "3-1"},
		"flag -turns: found \"x\"":                        {out, "--step", "1", "--turns", "0,x"},
		"\"-3m\" for flag -budget":                        {out, "--step", "1", "--budget", "-3m"},
		"\"much\" for flag -budget":                       {out, "--step", "1", "--budget", "much"},
		"\"-1\" for flag -seed":                           {out, "--step", "1", "--seed", "-1"},
		"Gamma is NaN, must be in [0, 1]":                 {out, "--step", "1", "--gamma", "NaN"},
		"Branches is 1, must be at least 2":               {out, "--step", "1", "--branches", "1"},
		"found \"trainer.save_freq=1\", must be a key of": {out, "--step", "1", "--set", "trainer.save_freq=1"},
		"the run has checkpoints of the steps [1]":        {out, "--step", "7"},
		"config.yaml: no such f":                          {filepath.Join(out, "none"), "--step", "1"},
		"estimator \"gea\": unknown name":                 {out, "--step", "1", "--estimators", "gea"},
		"trainer.total_training_steps: 1 → 5":             {out, "trainer.total_training_steps=5", "--step", "1"},
	} {
		stops(t, want, append([]string{"credit", "--log", "error"}, args...)...)
	}
}
