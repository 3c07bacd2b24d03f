package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/cli"
	"vagen/internal/testkit"
	"vagen/train/proof"
)

// TestRunsWithOldEpisodesAreReplayed: with episodes of several policies, every step equals its
// record, from its checkpoint with the episodes of the steps ahead and from the beginning.
func TestRunsWithOldEpisodesAreReplayed(t *testing.T) {
	config, out := setup(t)
	old := []string{"run.async=true", "run.max_staleness=2", "algorithm.rollout_correction.rollout_is=token",
		"trainer.total_training_steps=5"}
	require.Regexp(t, `memory plan: \d+MB at the peak: weights \d+MB, snapshots [1-9]\d*MB`,
		succeed(t, append([]string{"train", config, "--out", out, "--dry-run"}, old...)...))
	episodes := filepath.Join(t.TempDir(), "episodes")
	succeed(t, append([]string{"train", config, "--log", "error", "--out", out, "trainer.save_freq=2",
		"trainer.max_actor_ckpt_to_keep=null", "actor_rollout_ref.actor.optim.lr=1e-2", "trainer.rollout_data_dir=" +
			episodes}, old...)...)
	for step, from := range map[string]string{"2": "the beginning", "3": "the checkpoint of step 2",
		"4": "the checkpoint of step 2", "5": "the checkpoint of step 4"} {
		text := succeed(t, "replay", out, "--step", step, "--log", "error")
		require.Contains(t, text, "step "+step+" replayed from "+from)
		require.Contains(t, text, "everything equals the record\n")
	}
	require.Regexp(t, `replay +ok +step \d: 2 episodes with \d+ tokens, and all metrics, are equal bit by bit`,
		succeed(t, "verify", out, "--steps", "1", "--log", "error"))
	require.Contains(t, testkit.Text(t, filepath.Join(out, "metrics.jsonl")), `"rollout/staleness_max":2,`)
}

// TestVerifyReplaysAndBisectNamesTheSeed: a run equals its record, a changed metric is
// found, and another run is told apart from it.
func TestVerifyReplaysAndBisectNamesTheSeed(t *testing.T) {
	config, out := setup(t)
	args := []string{"train", config, "--log", "error", "trainer.total_training_steps=2", "trainer.save_freq=1",
		"trainer.max_actor_ckpt_to_keep=null"}
	succeed(t, append(args, "--out", out, "trainer.rollout_data_dir="+filepath.Join(out, "rollouts"))...)
	text := succeed(t, "verify", out, "--steps", "1", "--seed", "7", "--log", "error")
	require.Regexp(t, `replay +ok +step [12]: 2 episodes with \d+ tokens, and all metrics, are equal bit by bit`, text)
	require.Contains(t, text, "1 of 2 steps that can be replayed were drawn with seed 7\n")
	require.Contains(t, text, "1 other steps; 2 of all steps can be replayed")
	require.Regexp(t, `inputs +ok +\d+ files that the run read equal the record`, text)
	prints(t, "no step was replayed, as asked for", "verify", out, "--no-replay")
	refuse(t, "--no-replay replays no step", "verify", out, "--no-replay", "--seed", "3")
	record := filepath.Join(out, proof.FileName)
	whole := testkit.Text(t, record)
	cut := whole[:strings.LastIndex(strings.TrimSuffix(whole, "\n"), "\n")+1]
	testkit.Write(t, record, cut)
	stops(t, "the record does not reach the end of the run: "+out, "verify", out, "--no-replay")
	succeed(t, "verify", out, "--no-replay", "--unfinished")
	testkit.Write(t, record, whole)

	other := out + "-other"
	succeed(t, append(args, "--out", other, "run.seed=3", "trainer.rollout_data_dir="+filepath.Join(other, "rollouts"))...)
	text = succeed(t, "bisect", out, other)
	require.Regexp(t, `first difference +step 1, episodes: episode 0 `, text)
	require.Regexp(t, `likely cause +seed: run.seed: 0 → 3`, text)
	require.Regexp(t, `first weights +step 1: actor/model.safetensors: tensor .* weights differ`, text)
	b := decoded[proof.Bisection](t, "bisect", out, other, "--json")
	require.Equal(t, 1, b.First.Step)

	name := filepath.Join(out, "metrics.jsonl")
	require.NoError(
		t,
		os.WriteFile(name, []byte(strings.Replace(testkit.Text(t, name), `"train/turns":1`, `"train/turns":2`, 1)),
			0o644),
	)
	code, text, errs := launchRun(
		t, "", "verify", out, "--steps", "2", "--log", "error", "--json",
	) // with a random seed
	require.Equal(t, cli.Failed, code)
	require.Contains(t, errs, "the run does not equal its record")
	r := testkit.JSON[proof.Report](t, text)
	require.Contains(t, r.Faults()[0].Detail, "is not the recorded event: step of step ")
	require.Contains(t, text, "metrics differ: train/turns: 2 → 1")
}
