package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/internal/tinymodel"
	"vagen/internal/traintest"
	"vagen/train/proof"
	"vagen/train/run"
)

// asCommand is the environment variable that makes the test binary run the command.
const asCommand = "VAGEN_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
	}
	os.Exit(m.Run())
}

// command runs the program in a separate process with the given working directory.
func command(t *testing.T, dir string, args ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0], args...)
	c.Env, c.Dir = append(os.Environ(), asCommand+"=1"), dir
	said := new(bytes.Buffer)
	c.Stderr = said
	return c, said
}

// killable writes a vision model and a configuration that trains it, with everything
// that has state: an adaptive KL coefficient, running statistics of rewards, a critic,
// epochs, validations, the best policy, checkpoints.
func killable(t *testing.T) []string {
	t.Helper()
	dir := t.TempDir()
	model := tinymodel.Create(t, tinymodel.Shape(), tinymodel.Tags, 1) // also for the race detector
	config := filepath.Join(dir, "run.yaml")
	testkit.Write(t, config, `
env: {name: frozenlake, config: {render_mode: vision, tile_size: 14, prompt: brief, size: 2, format_reward: 0.1}}
model: {backend: go, cache_tokens: 256, micro_tokens: 512}
algorithm:
  adv_estimator: bi_level_gae
  use_kl_in_reward: true
  kl_ctrl: {type: adaptive, kl_coef: 0.01, target_kl: 0.1, horizon: 100}
reward: {normalize: environment, running: true}
actor_rollout_ref:
  model: {path: `+model+`}
  actor: {ppo_mini_batch_size: 2, ppo_epochs: 2, optim: {lr: 1e-3}}
critic: {kind: separate, optim: {lr: 1e-3}}
data: {train_batch_size: 2, val_batch_size: 2, max_response_length: 4}
rollout_manager: {max_turns: 2}
trainer:
  {total_training_steps: 7, save_freq: 2, test_freq: 3, max_actor_ckpt_to_keep: 3, max_critic_ckpt_to_keep: 2, save_best_actor: true, rollout_data_dir: run/trajectories, rollout_data_scores: true, logger: [console]}
huggingface_hub: {hf_save_freq: 4}
`)
	return []string{"train", config, "--log", "warn", "--out", "run"}
}

// leavings returns the files of a run's folder, without its random ID and the record of its sessions.
func leavings(t *testing.T, dir string) map[string]string {
	t.Helper()
	return traintest.Files(t, dir, "run.id", "run.txt", proof.FileName)
}

// requireSame compares the files of two runs, without printing weights.
func requireSame(t *testing.T, want, got map[string]string, why string) {
	t.Helper()
	for name := range want {
		require.Contains(t, got, name, why)
	}
	for name := range got {
		require.Contains(t, want, name, why)
		if filepath.Ext(name) == ".jsonl" {
			require.Equal(t, want[name], got[name], "%s: %s", why, name)
		}
		require.True(t, want[name] == got[name], "%s: %s differs", why, name)
	}
}

// kills is the total number of times that processes are killed: VAGEN_KILLS, or few.
func kills(t *testing.T) int {
	text := os.Getenv("VAGEN_KILLS")
	if text == "" {
		return 2
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err, "VAGEN_KILLS")
	return n
}

// TestKilledTrainingResumesToTheSameBytes stops runs of the command at random times, by
// SIGKILL or by an interrupt, and restarts them until they end. Weights, optimiser,
// metrics, episodes and images equal those of an uninterrupted run, byte for byte.
func TestKilledTrainingResumesToTheSameBytes(t *testing.T) {
	args := killable(t)
	home := t.TempDir()
	begin := time.Now()
	c, said := command(t, home, args...)
	require.NoError(t, c.Run(), said.String())
	took := time.Since(begin)
	want := leavings(t, filepath.Join(home, "run"))
	for _, name := range []string{"checkpoints/step_7/optimizer/critic.safetensors",
		"checkpoints/actor_step_4/model.safetensors", "best_actor/best.json", "hf/step_4/hf_model/tokenizer.json",
		"curve.png"} {
		require.Contains(t, want, name)
	}
	orders := []syscall.Signal{syscall.SIGTERM, syscall.SIGINT}
	for name, choose := range map[string]func(session int) syscall.Signal{
		"killed":       func(int) syscall.Signal { return syscall.SIGKILL },
		"told to stop": func(session int) syscall.Signal { return orders[session%2] },
	} {
		t.Run(name, func(t *testing.T) {
			stopped := 0
			for session := 1; stopped < kills(t); session++ {
				home := t.TempDir()
				stopped += untilItEnds(t, args, home, took, func() syscall.Signal { return choose(session) })
				requireSame(t, want, leavings(t, filepath.Join(home, "run")), fmt.Sprint(name, ", run ", session))
				r, err := proof.Verify(t.Context(), filepath.Join(home, "run"))
				require.NoError(t, err)
				require.Empty(
					t, append(r.Faults(), r.Unfinished()...),
					"a run that was stopped and resumed equals its record",
				)
				t.Logf("%s %d times in %d runs of %v", name, stopped, session, took)
			}
		})
	}
}

// untilItEnds starts a run repeatedly until it ends, and sends it a signal each time at
// a random time. It returns how often the signal stopped the run.
func untilItEnds(
	t *testing.T, args []string, home string, took time.Duration, choose func() syscall.Signal,
) (stopped int) {
	t.Helper()
	for {
		signal := choose()
		c, said := command(t, home, args...)
		require.NoError(t, c.Start())
		dead := time.AfterFunc(rand.N(took), func() { _ = c.Process.Signal(signal) })
		err := c.Wait()
		if dead.Stop() || err == nil {
			require.NoError(t, err, "%v: %s", signal, said)
			return stopped
		}
		stopped++
		requireStopped(t, c, said.String(), signal)
		requireReported(t, filepath.Join(home, "run"))
	}
}

// requireStopped checks that the process reports the signal that ended it.
func requireStopped(t *testing.T, c *exec.Cmd, said string, by syscall.Signal) {
	t.Helper()
	status, ok := c.ProcessState.Sys().(syscall.WaitStatus)
	require.True(t, ok)
	if status.Signaled() { // before it handled signals, or by SIGKILL
		require.Equal(t, by, status.Signal(), said)
		return
	}
	require.NotEqual(t, syscall.SIGKILL, by, said)
	require.Equal(t, 128+int(by), status.ExitStatus(), said)
	require.True(t, strings.HasSuffix(said, "vagen: interrupted\n"), said)
}

// requireReported checks that every checkpoint that a run reported exists.
func requireReported(t *testing.T, dir string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "metrics.jsonl"))
	if os.IsNotExist(err) {
		return
	}
	require.NoError(t, err)
	saved := ""
	for line := range strings.Lines(string(raw)) {
		if _, step, ok := strings.Cut(line, `{"kind":"save","step":`); ok && strings.HasSuffix(line, "\n") {
			saved = strings.TrimRight(step, "}\n")
		}
	}
	if saved == "" {
		return
	}
	p, err := (&run.Checkpoints{Dir: filepath.Join(dir, "checkpoints")}).Latest(t.Context())
	require.NoError(t, err)
	step, err := strconv.Atoi(saved)
	require.NoError(t, err)
	require.GreaterOrEqual(t, p.State.Step, step, "it was reported as saved")
}
