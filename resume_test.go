package vagen_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vagen"
)

// childFolder names the run folder of a process that TestMain turns into a run.
const childFolder = "VAGEN_TEST_RUN_FOLDER"

func TestMain(m *testing.M) {
	dir := os.Getenv(childFolder)
	if dir == "" {
		os.Exit(m.Run())
	}
	if err := goOn(context.Background(), dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// slowSaver takes its time, so that processes die inside saves, too.
type slowSaver struct{ *bandit }

func (s slowSaver) Save(ctx context.Context, dir string) error {
	if err := s.bandit.Save(ctx, dir); err != nil {
		return err
	}
	time.Sleep(2 * time.Millisecond)
	return os.WriteFile(filepath.Join(dir, "more"), []byte("of it"), 0o644)
}

// goOn is a program that trains: it begins a run, or goes on with the one that is
// in the folder, wherever that stopped.
func goOn(ctx context.Context, dir string) error {
	c := small()
	c.Trainer.Steps, c.Trainer.SaveFreq, c.Trainer.TestFreq, c.Trainer.ValBefore = 12, 2, 3, true
	c.Algorithm.KLInReward, c.Algorithm.KLCtrl = true, vagen.KLConfig{Type: "adaptive", Coef: 0.1, Target: 0.01, Horizon: 50}
	b := guesser()
	a := &arena{}
	t := &vagen.Trainer{Config: c, Learner: b}
	var err error
	if t.Envs, err = a.open(); err != nil {
		return err
	}
	folder, err := vagen.CreateRun(dir, &c)
	if errors.Is(err, vagen.ErrRunExists) {
		folder, err = vagen.OpenRun(dir, &c, false)
	}
	if err != nil {
		return err
	}
	points := folder.Checkpoints(0, nil)
	done := -1
	switch p, err := points.Latest(ctx); {
	case err == nil:
		done = p.State.Step
		if err := errors.Join(b.Restore(ctx, p.Path), t.Restore(p.State)); err != nil {
			return err
		}
	case !errors.Is(err, vagen.ErrNoCheckpoint):
		return err
	}
	if _, err := folder.Rewind(done, c.Trainer.Steps); err != nil {
		return err
	}
	metrics, err := folder.Metrics()
	if err != nil {
		return err
	}
	t.Sinks = []vagen.Sink{metrics}
	t.Save = func(ctx context.Context, _ int) error {
		s, err := t.State()
		if err != nil {
			return err
		}
		return points.Save(ctx, slowSaver{b}, s, &c)
	}
	return errors.Join(t.Run(ctx), metrics.Close())
}

var times = regexp.MustCompile(`"time/[^"]*":[^,}]*,?`)

// outcome is everything that a finished run leaves, times aside.
func outcome(t *testing.T, dir string) map[string]string {
	out := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		out[name] = string(times.ReplaceAll(raw, nil))
		return err
	}))
	return out
}

// TestKilledRunsEndAsUninterruptedOnes kills a run again and again, at moments
// that nobody chose, and starts it again until it ends. What it leaves is what a
// run leaves that nobody killed, byte for byte.
func TestKilledRunsEndAsUninterruptedOnes(t *testing.T) {
	want := filepath.Join(t.TempDir(), "whole")
	require.NoError(t, goOn(t.Context(), want))
	dir := filepath.Join(t.TempDir(), "killed")
	kills := 0
	// Later lives are longer, so that the run comes to an end on any machine.
	for life := 10 * time.Millisecond; ; life += 4 * time.Millisecond {
		child := exec.CommandContext(t.Context(), os.Args[0])
		child.Env = append(os.Environ(), childFolder+"="+dir)
		var complaint strings.Builder
		child.Stderr = &complaint
		require.NoError(t, child.Start())
		dead := time.AfterFunc(life+rand.N(life), func() { _ = child.Process.Kill() })
		err := child.Wait()
		if dead.Stop() || err == nil {
			require.NoError(t, err, complaint.String())
			break
		}
		kills++
		require.Empty(t, complaint.String(), "a run that is killed says nothing")
	}
	t.Logf("killed %d times", kills)
	require.Positive(t, kills)
	require.Equal(t, outcome(t, want), outcome(t, dir))
}

// TestARunGoesOnFromEveryCheckpoint puts a finished run back to each of its
// checkpoints, with every line after it still in metrics.jsonl.
func TestARunGoesOnFromEveryCheckpoint(t *testing.T) {
	whole := filepath.Join(t.TempDir(), "whole")
	require.NoError(t, goOn(t.Context(), whole))
	want := outcome(t, whole)
	steps, err := (&vagen.Checkpoints{Dir: filepath.Join(whole, "checkpoints")}).Steps()
	require.NoError(t, err)
	require.Equal(t, []int{12, 10, 8, 6, 4, 2}, steps)
	back := filepath.Join(t.TempDir(), "back")
	require.NoError(t, os.CopyFS(back, os.DirFS(whole)))
	for _, step := range steps {
		require.NoError(t, goOn(t.Context(), back))
		require.Equal(t, want, outcome(t, back), "before step %d was taken away", step)
		for _, later := range steps {
			if later >= step {
				require.NoError(t, os.RemoveAll(filepath.Join(back, "checkpoints", fmt.Sprint("step_", later))))
			}
		}
	}
	require.NoError(t, goOn(t.Context(), back))
	require.Equal(t, want, outcome(t, back), "from the beginning")
}

func TestAnotherConfigurationIsShownAndRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	c := small()
	_, err := vagen.CreateRun(dir, &c)
	require.NoError(t, err)
	c.Run.Workers = 99
	_, err = vagen.OpenRun(dir, &c, false)
	require.NoError(t, err, "workers change no result")

	low := 0.125
	c.Algorithm.Lambda, c.Agent.Actor.ClipLow, c.Env.Config = 0.5, &low, map[string]any{"turns": 3}
	_, err = vagen.OpenRun(dir, &c, false)
	require.ErrorIs(t, err, vagen.ErrOtherConfig)
	require.ErrorContains(t, err, `env.config: {"turns":2} → {"turns":3}`)
	require.ErrorContains(t, err, "algorithm.lam: 0.95 → 0.5")
	require.ErrorContains(t, err, "actor_rollout_ref.actor.clip_ratio_low: null → 0.125")
	_, err = vagen.OpenRun(dir, &c, true)
	require.NoError(t, err)
	_, err = vagen.OpenRun(dir, &c, false)
	require.NoError(t, err, "what was allowed is the run's configuration now")

	_, err = vagen.OpenRun(filepath.Join(dir, "none"), &c, false)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.yaml"), []byte("nonsense: 1\n"), 0o644))
	_, err = vagen.OpenRun(dir, &c, false)
	require.ErrorIs(t, err, vagen.ErrConfig)
}

func TestRewindKeepsWhatWasSavedAndTellsIt(t *testing.T) {
	f := &vagen.RunFolder{Path: t.TempDir()}
	path := filepath.Join(f.Path, "metrics.jsonl")
	write := func(text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o644)) }
	imitate := `{"kind":"imitate","step":16,"imitate/loss":0.5}` + "\n"
	one := `{"kind":"validate","step":0}` + "\n" + `{"kind":"step","step":1,"a":2,"b":null}` + "\n"
	saved := `{"kind":"save","step":1}` + "\n"
	saved0 := `{"kind":"save","step":0}` + "\n"
	later := `{"kind":"step","step":2,"a":3}` + "\n"

	write(imitate + one + saved + later + `{"kind":"st`)
	events, err := f.Rewind(1, 9)
	require.NoError(t, err)
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, imitate+one+saved, string(raw))
	require.Equal(t, []vagen.Event{
		{Kind: vagen.KindImitate, Step: 16, Total: 9, Metrics: vagen.Metrics{"imitate/loss": 0.5}},
		{Kind: vagen.KindValidate, Total: 9, Metrics: vagen.Metrics{}},
		{Kind: vagen.KindStep, Step: 1, Total: 9, Metrics: vagen.Metrics{"a": 2}},
		{Kind: vagen.KindSave, Step: 1, Total: 9, Metrics: vagen.Metrics{}},
	}, events)

	write(imitate + one)
	_, err = f.Rewind(1, 9)
	require.NoError(t, err)
	raw, err = os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, imitate+one+saved, string(raw), "the process died between saving and saying so")

	write(imitate + saved0 + one)
	_, err = f.Rewind(0, 9)
	require.NoError(t, err)
	raw, err = os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, imitate+saved0, string(raw), "step 0 is saved before the validation of step 0")

	write(imitate + one + saved)
	events, err = f.Rewind(-1, 9)
	require.NoError(t, err)
	require.Empty(t, events)
	raw, err = os.ReadFile(path)
	require.NoError(t, err)
	require.Empty(t, raw, "from the beginning")

	for _, bad := range []string{"{}\n", "nonsense\n", `{"kind":1,"step":1}` + "\n"} {
		write(imitate + bad)
		_, err = f.Rewind(1, 9)
		require.ErrorContains(t, err, "metrics.jsonl: line 2: ")
	}
	require.NoError(t, os.Remove(path))
	events, err = f.Rewind(-1, 9)
	require.NoError(t, err)
	require.Empty(t, events)
}
