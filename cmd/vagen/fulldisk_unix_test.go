//go:build unix

package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/cli"
	"vagen/internal/durable"
	"vagen/internal/testkit"
)

// fileLimit is the environment variable with the maximum size of a file that a process
// of the test may write. It simulates a full disk.
const fileLimit = "VAGEN_TEST_FILE_LIMIT"

func init() {
	n, err := strconv.ParseUint(os.Getenv(fileLimit), 10, 64)
	if err != nil {
		return
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: n, Max: n}); err != nil {
		panic(err)
	}
}

// TestAFullDiskCostsNoCheckpoint trains until the disk is full, and resumes when there
// is space again.
func TestAFullDiskCostsNoCheckpoint(t *testing.T) {
	config, out := setup(t)
	args := []string{
		"train", config, "trainer.save_freq=1", "trainer.max_actor_ckpt_to_keep=null", "--log", "error", "--out",
		out, "trainer.total_training_steps=3",
	}
	c, said := command(t, t.TempDir(), args...)
	c.Env = append(c.Env, fileLimit+"=100000") // enough for metrics, too little for weights
	require.Error(t, c.Run())
	require.Equal(t, cli.Failed, c.ProcessState.ExitCode())
	require.Contains(t, said.String(), "checkpoint: ")
	require.Contains(t, said.String(), "model.safetensors")
	require.Contains(t, said.String(), "file too large")
	require.Empty(t, list(t, filepath.Join(out, "checkpoints")), "no part of a checkpoint remains")
	require.NotContains(t, testkit.Text(t, filepath.Join(out, "metrics.jsonl")), `"kind":"save"`)

	whole := filepath.Join(t.TempDir(), "whole")
	args2 := append(append([]string{}, args...), "--out", whole)
	succeed(t, args2...)
	succeed(t, args...)
	require.Equal(t, []string{"step_1", "step_2", "step_3"}, list(t, filepath.Join(out, "checkpoints")))
	weights := "checkpoints/step_3/actor/model.safetensors"
	equalFiles(t, filepath.Join(whole, weights), filepath.Join(out, weights))

	require.NoError(t, os.Truncate(filepath.Join(out, weights), 1000))
	torn, said := command(t, t.TempDir(), args...)
	require.NoError(t, torn.Run(), said.String())
	equalFiles(t, filepath.Join(whole, weights), filepath.Join(out, weights)) // repeated from the checkpoint before
}

// TestAFullDiskLeavesNoPartOfAFile: the commands fail and name the file, of which nothing remains, and an
// output that cannot be written is a failure, too.
func TestAFullDiskLeavesNoPartOfAFile(t *testing.T) {
	config, out := setup(t)
	succeed(t, "train", config, "--log", "error", "--out", out, "trainer.save_freq=1")
	in := testkit.File(t, "list.yaml", lakes)
	built := filepath.Join(t.TempDir(), "list.parquet")
	before := leavings(t, out)
	measure := []string{"credit", out, "--log", "error", "--step", "1", "--branches", "2"}
	for file, args := range map[string][]string{built: {"dataset", "build", in, built}, "step_2.scores.parquet": measure} {
		c, said := command(t, t.TempDir(), args...)
		c.Env = append(c.Env, fileLimit+"=100")
		require.Error(t, c.Run())
		require.Equal(t, cli.Failed, c.ProcessState.ExitCode())
		require.Contains(t, said.String(), file)
		require.Contains(t, said.String(), "file too large")
	}
	require.Empty(t, list(t, filepath.Dir(built)))
	for name := range leavings(t, filepath.Join(out, "credit")) {
		require.NotContains(t, name, durable.Unfinished)
	}
	require.NoError(t, os.RemoveAll(filepath.Join(out, "credit")))
	require.Equal(t, before, leavings(t, out), "the run is as it was")

	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		require.NotEqual(t, "linux", runtime.GOOS, "Linux has this device: %v", err)
		t.Skip("the system has no device that is always full")
	}
	defer full.Close()
	for _, args := range [][]string{{"dataset", "build", in, built}, {"dataset", "show", in}, measure} {
		c, said := command(t, t.TempDir(), args...)
		c.Stdout = full
		require.Error(t, c.Run())
		require.Equal(t, cli.Failed, c.ProcessState.ExitCode(), args)
		require.Contains(t, said.String(), "no space left", args)
	}
}
