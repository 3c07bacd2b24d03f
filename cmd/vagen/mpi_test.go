//go:build mpi

package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/internal/tinymodel"
	"vagen/policy/vlm"
)

// ranks returns a command that starts processes of the command with the mpirun that the environment variable
// VAGEN_MPIRUN names, or that of the path.
func ranks(t *testing.T, dir string, count int, args ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	c, said := command(t, dir, append(args, fmt.Sprintf("model.num_nodes=%d", count))...)
	mpirun := os.Getenv("VAGEN_MPIRUN")
	if mpirun == "" {
		mpirun = "mpirun"
	}
	path, err := exec.LookPath(mpirun)
	require.NoError(t, err)
	c.Path, c.Args = path, append([]string{mpirun, "-n", strconv.Itoa(count)}, c.Args...)
	c.Env = append(c.Env, // Open MPI refuses these otherwise
		"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
		"OMPI_MCA_rmaps_base_oversubscribe=1", "PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe")
	c.Stdout = said
	return c, said
}

// launched starts ranks, which write to a folder, and returns when they have taken the first step.
func launched(t *testing.T, dir, out string, count int, args ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	c, said := ranks(t, dir, count, append(args, "--out", out, "trainer.total_training_steps=500")...)
	require.NoError(t, c.Start())
	t.Cleanup(func() { c.Process.Kill() })
	require.Eventually(t, func() bool {
		steps, _ := os.ReadFile(filepath.Join(dir, out, "metrics.jsonl"))
		return bytes.Contains(steps, []byte(`"step":2`))
	}, time.Minute, 10*time.Millisecond, "%s", said)
	return c, said
}

// processes are the ranks that write to a folder, by rank.
func processes(t *testing.T, out string) map[int]int {
	t.Helper()
	pids := map[int]int{}
	names, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, name := range names {
		line, _ := os.ReadFile(name)
		if !bytes.HasPrefix(line, []byte(os.Args[0]+"\x00")) || !bytes.Contains(line, []byte("\x00"+out+"\x00")) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		require.NoError(t, err)
		environ, _ := os.ReadFile(filepath.Join(filepath.Dir(name), "environ"))
		for _, v := range strings.Split(string(environ), "\x00") {
			key, value, _ := strings.Cut(v, "=")
			if key == "OMPI_COMM_WORLD_RANK" || key == "PMI_RANK" {
				rank, err := strconv.Atoi(value)
				require.NoError(t, err)
				pids[rank] = pid
			}
		}
	}
	return pids
}

// TestRanksChangeNoByteOfARun trains with the quickstart's model in one process, in two and in four. All files
// of the runs have the same bytes, except those that have the number of processes. A run that resumes on
// two ranks from a checkpoint of one ends with the same weights and moments.
func TestRanksChangeNoByteOfARun(t *testing.T) {
	dir := t.TempDir()
	config := divisible(t, dir)
	quickstart := tinymodel.Create(t, vlm.Small(), tinymodel.Tags, 1)
	train := []string{"train", config, "--log", "warn", "actor_rollout_ref.model.path=" + quickstart}
	run := func(c *exec.Cmd, said *bytes.Buffer, out string) map[string]string {
		require.NoError(t, c.Run(), "%s", said)
		return undivided(t, filepath.Join(dir, out))
	}
	alone := func(out string, args ...string) map[string]string {
		c, said := command(t, dir, append(args, "--out", out)...)
		return run(c, said, out)
	}
	several := func(out string, count int, args ...string) map[string]string {
		c, said := ranks(t, dir, count, append(args, "--out", out)...)
		return run(c, said, out)
	}
	want := alone("one", train...)
	requireTrained(t, want)
	requireSame(t, want, several("two", 2, append(train, "model.devices=2")...), "two ranks of two devices")
	requireSame(t, want, several("four", 4, train...), "four ranks")
	resume := []string{"trainer.resume_mode=resume_path", "trainer.resume_from_path=one/checkpoints/step_1"}
	requireSameState(t, want, several("more", 2, append(train, resume...)...), "two ranks after one process")

	taught := append([]string{"sft", config, "--log", "warn"}, strings.Fields(
		"actor_rollout_ref.actor.use_kl_loss=false critic.kind=none sft.lessons.teacher=shortest_path sft.lessons.episodes=8 sft.total_training_steps=2 "+
			"sft.save_freq=1 sft.train_batch_size=4 sft.max_length=1024 sft.truncation=drop sft.optim.lr_warmup_steps=0")...)
	want = alone("taught", taught...)
	require.Contains(t, want, trainedWeights)
	requireSameState(t, want, several("taught-by-two", 2, taught...), "two ranks of the supervised stage")
}

// TestSIGUSR1SavesARunOfSeveralRanks: mpirun passes it on. One process can go on.
func TestSIGUSR1SavesARunOfSeveralRanks(t *testing.T) {
	dir := t.TempDir()
	train := []string{"train", divisible(t, dir), "--log", "warn"}
	c, said := launched(t, dir, "asked", 2, append(train, "trainer.save_freq=100")...)
	require.NoError(t, c.Process.Signal(syscall.SIGUSR1))
	require.Error(t, c.Wait(), "%s", said)
	require.NotContains(t, said.String(), "failed")
	require.Equal(t, 128+int(syscall.SIGUSR1), c.ProcessState.ExitCode(), "%s", said)
	points, err := filepath.Glob(filepath.Join(dir, "asked", "checkpoints", "*", "manifest.json"))
	require.NoError(t, err)
	require.NotEmpty(t, points, "%s", said)
}

// TestALostRankEndsTheOthers: one that is killed, and one that stands still, as one whose host is cut off.
func TestALostRankEndsTheOthers(t *testing.T) {
	dir := t.TempDir()
	train := []string{"train", divisible(t, dir), "--log", "warn", "model.node_timeout=5"}
	for _, c := range []struct {
		out    string
		rank   int
		signal syscall.Signal
		says   string
	}{
		{"killed", 1, syscall.SIGKILL, ""}, // mpirun ends the others
		{"still", 1, syscall.SIGSTOP, "rank 1 gave no sign of life for 5s"},
		{"leader", 0, syscall.SIGSTOP, "rank 0 gave no sign of life for 5s"},
	} {
		mpirun, said := launched(t, dir, c.out, 2, train...)
		pids := processes(t, c.out)
		require.Len(t, pids, 2)
		require.NoError(t, syscall.Kill(pids[c.rank], c.signal))
		require.Error(t, mpirun.Wait(), c.out)
		require.Contains(t, said.String(), c.says, c.out)
		require.Eventually(t, func() bool { return len(processes(t, c.out)) == 0 }, 30*time.Second, 10*time.Millisecond,
			"none is left")
	}
	c, said := command(t, dir, append(train, "--out", "resumed", "trainer.resume_mode=resume_path",
		"trainer.resume_from_path=killed/checkpoints/step_1",
		"trainer.total_training_steps=3")...)
	require.NoError(t, c.Run(), "%s", said)
}

// undivided returns the files of a run without those that have the number of devices, or the hash
// of such a file.
func undivided(t *testing.T, run string) map[string]string {
	t.Helper()
	files := leavings(t, run)
	maps.DeleteFunc(files, func(name, _ string) bool {
		return slices.Contains([]string{"config.yaml", "manifest.json"}, filepath.Base(name))
	})
	return files
}

const trainedWeights, trainedMoments = "checkpoints/step_2/actor/model.safetensors",
	"checkpoints/step_2/optimizer/actor.safetensors"

// requireTrained: the second step changes weights.
func requireTrained(t *testing.T, files map[string]string) {
	t.Helper()
	const before = "checkpoints/step_1/actor/model.safetensors"
	require.Contains(t, files, before)
	require.False(t, files[before] == files[trainedWeights], "the second step trains")
}

// requireSameState compares the last weights and moments.
func requireSameState(t *testing.T, want, got map[string]string, about string) {
	t.Helper()
	for _, name := range []string{trainedWeights, trainedMoments} {
		require.Contains(t, want, name)
		require.True(t, want[name] == got[name], "%s differs with %s", name, about)
	}
}
