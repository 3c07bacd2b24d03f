package proof_test

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/durable"
	"vagen/internal/testkit"
	"vagen/internal/traintest"
	"vagen/train/config"
	"vagen/train/proof"
)

// resumeLogged resumes a run and returns the warnings.
func resumeLogged(t *testing.T, dir string, c config.Config) string {
	t.Helper()
	var log strings.Builder
	require.NoError(
		t,
		trainLogged(t, dir, c, nil, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))),
	)
	return log.String()
}

// forgeWeights changes the policy of the checkpoint of step 6, and its manifest accordingly.
func forgeWeights(t *testing.T, dir string) {
	t.Helper()
	folder := filepath.Join(dir, "checkpoints", "step_6")
	path, manifest := filepath.Join(folder, "actor", "policy"), filepath.Join(folder, "manifest.json")
	edit(t, flip, path)
	sums := testkit.JSON[map[string]durable.Sum](t, testkit.Read(t, manifest))
	var err error
	sums["actor/policy"], err = durable.SumOf(path)
	require.NoError(t, err)
	raw, err := json.Marshal(sums)
	require.NoError(t, err)
	testkit.Write(t, manifest, raw)
}

// until keeps the lines up to the last one with a text.
func until(with string) func(string) string {
	return func(text string) string {
		at := strings.LastIndex(text, with)
		return text[:at+strings.IndexByte(text[at:], '\n')+1]
	}
}

// TestForgeriesWithoutANewChainAreFound: whoever edits a run and lets the program record it again
// does not get a run that verifies.
func TestForgeriesWithoutANewChainAreFound(t *testing.T) {
	dir, made := whole(t, recorded()), t.TempDir()
	require.NoError(t, os.CopyFS(made, os.DirFS(dir)))
	remove := func(t *testing.T, path ...string) { require.NoError(t, os.Remove(filepath.Join(path...))) }
	add := func(t *testing.T, path ...string) {
		name := filepath.Join(path...)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		testkit.Write(t, name, "x")
	}
	score := func(t *testing.T, dir string) {
		edit(t, replace(`"train/score":`, `"train/score":1`), dir, "metrics.jsonl")
	}
	for name, x := range map[string]struct {
		forge  func(t *testing.T, dir string)
		resume bool
		want   string
	}{
		"the record is removed": {func(t *testing.T, dir string) {
			score(t, dir)
			forgeWeights(t, dir)
			remove(t, dir, proof.FileName)
		}, true, "proof.jsonl: fault: the first line is a resume after step 6: what the run did before is in no record"},
		"record and configuration are removed": {func(t *testing.T, dir string) {
			score(t, dir)
			remove(t, dir, proof.FileName)
			remove(t, dir, "config.yaml")
		}, true, "proof.jsonl: fault: the first line is a resume after step 6"},
		"weights before a resume with another setting": {func(t *testing.T, dir string) {
			forgeWeights(t, dir)
		}, true, "proof.jsonl: fault: the run was resumed from a checkpoint of step 6 whose manifest.json has SHA-256 "},
		"record and metrics are cut before a resume": {func(t *testing.T, dir string) {
			forgeWeights(t, dir)
			edit(t, until(`"kind":"save","step":3`), dir, proof.FileName)
			edit(t, until(`"kind":"save","step":3`), dir, "metrics.jsonl")
		}, true, "proof.jsonl: fault: the chain is damaged: the run was resumed after step 6, but the record ends with step 3"},
		"the end is cut": {func(t *testing.T, dir string) {
			forgeWeights(t, dir)
			edit(t, until(`"kind":"step","step":6`), dir, proof.FileName)
			edit(t, until(`"kind":"step","step":6`), dir, "metrics.jsonl")
		}, false, "proof.jsonl: unfinished: the end of the run is not recorded: the run was stopped or is still training, or the record was cut off after step 6\n"},
		"a checkpoint at the end": {func(t *testing.T, dir string) {
			edit(t, without(-1), dir, proof.FileName) // the end
			edit(t, without(-1), dir, proof.FileName) // the last save
			edit(t, without(-1), dir, "metrics.jsonl")
		}, false, "checkpoints: unfinished: step 6 is in no record"},
		"episodes": {func(t *testing.T, dir string) { add(t, dir, "rollouts", "step_9.parquet") }, false,
			"episodes: fault: rollouts/step_9.parquet is in no record"},
		"scores": {func(t *testing.T, dir string) { add(t, dir, "rollouts", "step_2.scores.parquet") }, false,
			"episodes: fault: rollouts/step_2.scores.parquet is in no record"},
		"a file of a step": {func(t *testing.T, dir string) { add(t, dir, "checkpoints", "step_5", "actor", "more") }, false,
			"checkpoints: fault: checkpoints/step_5/actor/more is in no record"},
		"a kept policy": {func(t *testing.T, dir string) { add(t, dir, "checkpoints", "actor_step_7", "policy") }, false,
			"checkpoints: fault: checkpoints/actor_step_7/policy is in no record"},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, os.RemoveAll(dir)) // the run itself, because a copy is not resumed
			require.NoError(t, os.CopyFS(dir, os.DirFS(made)))
			x.forge(t, dir)
			if x.resume {
				c := recorded()
				c.Trainer.AllowChange, c.Algorithm.TurnGamma = true, 0.5
				require.NoError(t, train(t, dir, c, nil))
			}
			r := verify(t, dir)
			require.Contains(t, text(r), x.want)
			require.NotEmpty(t, append(r.Faults(), r.Unfinished()...))
		})
	}
}

// TestARunWhoseStartWasNotRecordedStartsAgain: a process that is killed before its first line
// leaves nothing that is in no record.
func TestARunWhoseStartWasNotRecordedStartsAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	require.ErrorIs(t, train(t, dir, recorded(), stopAt(0)), traintest.ErrBroken)
	testkit.Write(t, filepath.Join(dir, proof.FileName), "")
	testkit.Write(t, filepath.Join(dir, "metrics.jsonl"), "")
	require.NoError(t, train(t, dir, recorded(), nil))
	r := verify(t, dir)
	require.Empty(t, append(r.Faults(), r.Unfinished()...), text(r))
}
