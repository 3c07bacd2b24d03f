package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/cli"
	"vagen/internal/testkit"
	"vagen/rollout"
	"vagen/rollout/store"
	"vagen/train/replay"
)

// TestReplayReportsTheFirstDifference replays steps of a run, then changes the record in
// several places.
func TestReplayReportsTheFirstDifference(t *testing.T) {
	config, out := setup(t)
	episodes := filepath.Join(t.TempDir(), "episodes")
	succeed(t, "train", config, "--log", "error", "--out", out, "trainer.total_training_steps=4", "trainer.save_freq=2",
		"trainer.max_actor_ckpt_to_keep=null",
		"trainer.test_freq=3", "rollout_manager.max_turns=2", "actor_rollout_ref.actor.optim.lr=1e-3",
		"trainer.rollout_data_dir="+episodes, "trainer.rollout_data_scores=true")
	before := leavings(t, out)
	for step, from := range map[string]string{"1": "the beginning", "2": "the beginning", "3": "the checkpoint of step 2",
		"4": "the checkpoint of step 2"} {
		text := succeed(t, "replay", out, "--step", step, "--log", "error")
		require.Contains(t, text, "step "+step+" replayed from "+from+": 2 episodes with ")
		require.Contains(t, text, "everything equals the record\n")
	}
	requireSame(t, before, leavings(t, out), "a replay changes no file")

	path := filepath.Join(episodes, "step_2.scores.parquet")
	scores, err := store.LoadScores(path)
	require.NoError(t, err)
	scores[1].Values[3]++
	require.NoError(t, store.SaveScores(path, 2, scores))
	_, text, _ := launchRun(t, "", "replay", out, "--step", "2", "--log", "error")
	require.Regexp(t, `first difference: episode 1 \(group 1, index 0\): scores of conversation 0: values\[3\] was `, text)

	path = filepath.Join(episodes, "step_3.parquet")
	stored, err := store.Load(path)
	require.NoError(t, err)
	var ts []*rollout.Trajectory
	for _, s := range stored {
		ts = append(ts, s.Trajectory)
	}
	row := &ts[1].Rows[0]
	start, _, ok := row.TurnAt(1)
	require.True(t, ok)
	row.LogProbs[start] -= 1
	require.NoError(t, store.Save(path, 3, ts))
	lines := strings.SplitAfter(testkit.Text(t, filepath.Join(out, "metrics.jsonl")), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, `{"kind":"step","step":3,`) {
			lines[i] = strings.Replace(line, `"train/turns":2`, `"train/turns":5`, 1)
		}
	}
	testkit.Write(t, filepath.Join(out, "metrics.jsonl"), strings.Join(lines, ""))
	code, text, errs := launchRun(t, "", "replay", out, "--step", "3", "--log", "error")
	require.Equal(t, cli.Failed, code)
	require.Contains(t, errs, "the replay differs from the record: step 3")
	require.Regexp(t, `first difference: episode 1 \(group 1, index 0\), turn 1, conversation 0, position \d+: log-prob of token \d+ was -`, text)
	require.Contains(t, text, "metric train/turns: 5 → 2\n")
	_, text, _ = launchRun(t, "", "replay", out, "--step", "3", "--log", "error", "--json")
	r := testkit.JSON[replay.Result](t, text)
	require.Equal(t, []int{3, 2, 1, 1, start}, []int{r.Step, r.From, r.First.Episode, r.First.Turn, r.First.Token})

	row.LogProbs[start] += 1
	ts[1].Turns[1].Parsed.Actions = append(ts[1].Turns[1].Parsed.Actions, "Up")
	require.NoError(t, store.Save(path, 3, ts))
	code, text, _ = launchRun(t, "", "replay", out, "--step", "3", "--log", "error")
	require.Equal(t, cli.Failed, code)
	require.Contains(t, text, "length of turns[1].parsed.actions was ")

	for want, args := range map[string][]string{
		"--step is 0":             {out},
		"bad step: it is 9, must": {out, "--step", "9"},
		"config.yaml: no such f":  {filepath.Join(out, "none"), "--step", "1"},
	} {
		refuse(t, want, append([]string{"replay", "--log", "error"}, args...)...)
	}
	config, out = setup(t)
	succeed(t, "train", config, "--log", "error", "--out", out)
	stops(t, "trainer.rollout_data_dir is null", "replay", out, "--step", "1")
}

// TestReplayNeedsNoStoredImages: tokens are compared, so trainer.log_image can be off.
func TestReplayNeedsNoStoredImages(t *testing.T) {
	config, out := setup(t)
	episodes := filepath.Join(t.TempDir(), "episodes")
	succeed(t, "train", config, "--log", "error", "--out", out, "env.config.render_mode=vision",
		"data.max_prompt_length=0", "trainer.rollout_data_dir="+episodes)
	require.NoDirExists(t, filepath.Join(episodes, "images"))
	prints(t, "everything equals the record\n", "replay", out, "--step", "1", "--log", "error")
}
