package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/builtin"
	"vagen/internal/testkit"
	"vagen/policy/vlm"
	"vagen/train/config"
	"vagen/train/proof"
	"vagen/train/replay"
	"vagen/train/run"
)

// asProgram makes the test binary behave as the program, to be sent signals.
const asProgram = "QUICKSTART_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	switch os.Getenv(asProgram) {
	case "yes":
		main()
		os.Exit(0)
	case "stuck": // a run that does not end when it is asked to
		ctx, _ := run.UntilSignal(context.Background())
		fmt.Println("training")
		<-ctx.Done()
		select {}
	}
	os.Exit(m.Run())
}

// args are flags for a run in a folder of the test's.
func args(t *testing.T, more ...string) (list []string, out string) {
	t.Helper()
	out = filepath.Join(t.TempDir(), "run")
	return append([]string{"-recipe", "tiny", "-backend", "go", "-out", out}, more...), out
}

type line struct {
	Kind string
	Step int
}

// metrics reads what a run has written so far.
func metrics(t *testing.T, out string) []line {
	t.Helper()
	raw := testkit.Read(t, filepath.Join(out, "metrics.jsonl"))
	require.True(t, bytes.HasSuffix(raw, []byte("\n")), "the last line is whole")
	var lines []line
	for text := range bytes.Lines(raw) {
		l := testkit.JSON[line](t, text)
		lines = append(lines, l)
	}
	return lines
}

func TestFlagsChooseTheRun(t *testing.T) {
	o, err := parse(nil, os.Stderr)
	require.NoError(t, err)
	require.Equal(t, filepath.Join("runs", "default-seed0"), o.out)
	require.Equal(t, recipes["default"].steps, recipes["default"].configure(o).Trainer.Steps)

	o, err = parse([]string{"-seed", "3", "-steps", "0", "-workers", "5", "-out", "x", "-backend", "go", "-recipe",
		"long"}, os.Stderr)
	require.NoError(t, err)
	require.Equal(t, options{seed: 3, steps: 0, workers: 5, out: "x", backend: "go", recipe: "long", name: "long-seed3"},
		o)
	c := recipes["long"].configure(o)
	require.Equal(t, 0, c.Trainer.Steps)
	require.Equal(t, uint64(3), c.Run.Seed)
	require.Equal(t, 5, c.Run.Workers)
	require.Equal(t, "go", c.Model.Backend)
}

func TestFlagsThatMeanNothingAreRefused(t *testing.T) {
	for args, want := range map[string]string{
		"-recipe none":                 `there is no recipe "none"; choose one of`,
		"-steps -2":                    "-steps is -2, must be -1 or more",
		"-seed 137438953472":           "-seed is 137438953472, must be below 137438953472",
		"-seed -1":                     `invalid value "-1" for flag -seed`,
		"-step 3":                      "flag provided but not defined: -step",
		"-seed 1 default":              `there are only flags, but ["default"] is given`,
		"-steps many":                  `invalid value "many" for flag -steps`,
		"-recipe default -seed 1 -out": "flag needs an argument: -out",
	} {
		var out bytes.Buffer
		_, err := parse(strings.Fields(args), &out)
		require.Error(t, err, args)
		require.Contains(t, out.String(), want, args)
	}
	var out bytes.Buffer
	_, err := parse([]string{"-h"}, &out)
	require.Error(t, err)
	for _, name := range []string{"-seed", "-steps", "-workers", "-out", "-backend", "-recipe", "default ", "long ",
		"hour ", "sokoban ", "navigation "} {
		require.Contains(t, out.String(), name)
	}
}

func TestBadSettingsAreFoundBeforeAnythingIsMade(t *testing.T) {
	for args, want := range map[string]string{
		"-workers -1":                  "run.workers is -1, must not be negative",
		"-backend tpu":                 `model.backend is "tpu"`,
		"-steps 9223372036854775807":   "trainer.total_training_steps is 9223372036854775807",
		"-workers 9223372036854775807": "run.workers is 9223372036854775807",
	} {
		out := filepath.Join(t.TempDir(), "run")
		o, err := parse(append([]string{"-out", out}, strings.Fields(args)...), os.Stderr)
		require.NoError(t, err)
		err = quickstart(t.Context(), o, os.Stdout, os.Stderr)
		testkit.Error(t, err, config.ErrConfig, want)
		require.NoDirExists(t, out)
	}
}

// TestEveryRecipeKeepsItsLevelsApart: lessons, training and validation share no
// level, whatever the seed; seeds share no training level.
func TestEveryRecipeKeepsItsLevelsApart(t *testing.T) {
	for name, r := range recipes {
		end := int64(0)
		for _, seed := range []uint64{0, 1, 2, maxSeed - 1} {
			c := r.configure(options{seed: seed, steps: -1, workers: 1, backend: "auto"})
			require.NoError(t, c.Validate(), "%s, seed %d", name, seed)
			first := c.Env.Seed
			for _, l := range r.lessons {
				first -= int64(l.transcripts)
			}
			require.GreaterOrEqual(t, first, c.Env.ValSeed+int64(c.Data.ValBatch), "%s, seed %d", name, seed)
			require.GreaterOrEqual(t, first, end, "%s, seed %d", name, seed)
			end = c.Env.Seed + int64(c.Trainer.Steps*c.Data.TrainBatch)
			require.NoError(t, func() error {
				c := r.reduced().configure(options{seed: seed, steps: -1, workers: 1, backend: "go"})
				return c.Validate()
			}())
		}
	}
	require.Equal(t, 12000, recipes["default"].lessons[0].transcripts, "reduced leaves the recipe alone")

	// Small rooms of different seeds are often equal.
	r := recipes["sokoban"]
	c := r.configure(options{steps: -1})
	held, ok := r.env["held_out"].(int)
	require.True(t, ok)
	require.GreaterOrEqual(t, int64(held), c.Env.ValSeed+int64(c.Data.ValBatch))
	require.Less(t, int64(held), c.Env.Seed-int64(r.lessons[0].transcripts+r.lessons[1].transcripts))
}

// TestARunWritesItsFolder plays the tiny recipe to its end, twice with the same
// numbers.
func TestARunWritesItsFolder(t *testing.T) {
	var first []byte
	for _, workers := range []string{"1", "3"} {
		list, out := args(t, "-seed", "4", "-workers", workers)
		o, err := parse(list, os.Stderr)
		require.NoError(t, err)
		var said bytes.Buffer
		require.NoError(t, quickstart(t.Context(), o, &said, os.Stderr))
		for _, want := range []string{"pure-Go backend", "recipe tiny: for tests", "[████████████████████████] 2/2",
			"success: random", "report with curves, episodes and credit: " + filepath.Join(out, "report.html")} {
			require.Contains(t, said.String(), want)
		}
		require.NotContains(t, said.String(), "\x1b")
		require.NotContains(t, said.String(), "\r", "no terminal, no overwriting")
		for _, name := range []string{
			"config.yaml", "metrics.jsonl", "curve.png", "report.html", "model/config.json",
			"checkpoints/step_2/actor/model.safetensors",
			"episodes/step_0/episode_0.json", "episodes/step_2/episode_0_turn_0_0.png", "rollouts/step_2.parquet",
			"rollouts/step_2.scores.parquet",
		} {
			require.FileExists(t, filepath.Join(out, name))
		}
		require.Equal(t, []line{
			{"imitate", 1}, {"imitate", 2}, {"imitate", 1}, {"validate", 0}, {"step", 1}, {"save", 1}, {"step", 2},
			{"validate", 2}, {"save", 2},
		}, metrics(t, out))
		weights := testkit.Read(t, filepath.Join(out, "checkpoints/step_2/actor/model.safetensors"))
		if first == nil {
			first = weights
		}
		require.True(t, bytes.Equal(first, weights), "the number of workers changes no weight")
		c, err := config.Load(filepath.Join(out, "config.yaml"))
		require.NoError(t, err, "what is written can be read")
		require.Equal(t, uint64(4), c.Run.Seed)

		if workers == "1" {
			verified(t, out)
		}

		before := metrics(t, out)
		require.ErrorIs(t, quickstart(t.Context(), o, &said, os.Stderr), run.ErrExists)
		require.Equal(t, before, metrics(t, out), "another run's folder is left alone")
	}
}

// TestEveryWorldIsTrainedOn plays the tiny recipes of the other environments to their ends. What
// the scripts write and the model reads has a token for each word.
func TestEveryWorldIsTrainedOn(t *testing.T) {
	for world, c := range map[string]struct{ player, best, picture string }{
		"sokoban":    {"straight to the box 0.", "shortest path 1.00", "episodes/step_2/episode_0_turn_0_0.png"},
		"navigation": {"straight to the target ", "shortest path ", "report.html"}, // it reads text
	} {
		list, out := args(t, "-recipe", "tiny "+world)
		o, err := parse(list, os.Stderr)
		require.NoError(t, err)
		var said bytes.Buffer
		require.NoError(t, quickstart(t.Context(), o, &said, os.Stderr))
		for _, want := range []string{"[████████████████████████] 2/2", c.player, c.best,
			"success: random 0."} {
			require.Contains(t, said.String(), want)
		}
		require.FileExists(t, filepath.Join(out, c.picture))
		verified(t, out)

		model, err := vlm.Open(t.Context(), filepath.Join(out, "model"), vlm.Options{Backend: "go"})
		require.NoError(t, err)
		r := recipes[world]
		e, err := builtin.Registry().New(r.world, r.env)
		require.NoError(t, err)
		system, err := e.System(t.Context())
		require.NoError(t, err)
		for seed := range int64(20) {
			first, err := e.Reset(t.Context(), seed)
			require.NoError(t, err)
			text, err := e.(env.Teacher).Teach("random", 0, rand.New(rand.NewPCG(uint64(seed), 0)))
			require.NoError(t, err)
			for _, written := range []string{system.Text, first.Text, text} {
				ids, err := model.Tokenizer().Encode(strings.ReplaceAll(written, env.ImageMark, ""))
				require.NoError(t, err)
				for _, id := range ids {
					require.True(t, id >= 256 || slices.Contains(r.words, string(rune(id))), "%q has the byte %q as a token", written,
						id)
				}
			}
		}
	}
}

// verified checks that the run equals its record: the files of the model that it began with,
// and its last step, which is replayed from the checkpoint before it.
func verified(t *testing.T, out string) {
	t.Helper()
	r, err := replay.Verify(t.Context(), out, replay.VerifyOptions{Steps: 3})
	require.NoError(t, err)
	require.Empty(t, r.Faults())
	passed := map[string]string{}
	for _, c := range r.Checks {
		if c.State == proof.Passed {
			passed[c.What] += c.Detail
		}
	}
	require.Contains(t, passed["inputs"], "files that the run read equal the record")
	require.Contains(t, passed["replay"], "step 2: ")
	require.NotContains(t, passed["replay"], "step 1: ", "it followed imitation, of which no checkpoint exists")
}

func TestAFolderThatCannotBeMadeIsAnError(t *testing.T) {
	file := testkit.File(t, "file", "")
	o, err := parse([]string{"-recipe", "tiny", "-backend", "go", "-out", filepath.Join(file, "run")}, os.Stderr)
	require.NoError(t, err)
	err = quickstart(t.Context(), o, &bytes.Buffer{}, os.Stderr)
	var path *os.PathError
	require.ErrorAs(t, err, &path)
}

func TestACancelledRunKeepsWhatItHas(t *testing.T) {
	list, out := args(t, "-steps", "1000000")
	o, err := parse(list, os.Stderr)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	said := writerFunc(func(p []byte) {
		if bytes.Contains(p, []byte("training")) {
			cancel()
		}
	})
	require.ErrorIs(t, quickstart(ctx, o, said, os.Stderr), context.Canceled)
	lines := metrics(t, out)
	require.Equal(t, line{"step", 1}, lines[len(lines)-1])
}

type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) { f(p); return len(p), nil }

// program starts the test binary as the program and returns its first lines of
// output up to one that contains until.
func program(t *testing.T, how, until string, args ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	binary, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Env = append(os.Environ(), asProgram+"="+how)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	cmd.WaitDelay = time.Minute
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.Contains(lines.Text(), until) {
			go func() { // nothing may block on a full pipe
				for lines.Scan() {
				}
			}()
			return cmd, &stderr
		}
	}
	_ = cmd.Wait()
	t.Fatalf("the program never wrote %q: %s", until, stderr.String())
	return nil, nil
}

// TestCtrlCEndsARunInOrder sends a real signal: exit code 130, and the metrics of
// the last finished step are in the file.
func TestCtrlCEndsARunInOrder(t *testing.T) {
	list, out := args(t, "-steps", "1000000")
	cmd, stderr := program(t, "yes", "training", list...)
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	var exit *exec.ExitError
	require.ErrorAs(t, cmd.Wait(), &exit)
	require.Equal(t, 130, exit.ExitCode(), stderr.String())
	require.Contains(t, stderr.String(), "quickstart: interrupted\n")
	lines := metrics(t, out)
	require.Equal(t, "step", lines[len(lines)-1].Kind)
}

func TestASecondCtrlCEndsTheProgram(t *testing.T) {
	cmd, _ := program(t, "stuck", "training")
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		_ = cmd.Process.Signal(syscall.SIGINT) // the process may be gone by now
		select {
		case err := <-ended:
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit)
			require.Equal(t, syscall.SIGINT, exit.Sys().(syscall.WaitStatus).Signal(), "it did not end by itself")
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func TestTheProgramExitsWithTwoForBadFlags(t *testing.T) {
	binary, err := os.Executable()
	require.NoError(t, err)
	for args, code := range map[string]int{"-recipe none": 2, "-workers -1": 1, "-h": 0} {
		cmd := exec.CommandContext(t.Context(), binary, strings.Fields(args)...)
		cmd.Env = append(os.Environ(), asProgram+"=yes")
		cmd.Dir = t.TempDir()
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			require.Equal(t, code, exit.ExitCode(), "%s: %s", args, out)
		} else {
			require.NoError(t, err)
			require.Zero(t, code, args)
		}
	}
}
