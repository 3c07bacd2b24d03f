package run_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/internal/traintest"
	"vagen/policy"
	"vagen/train"
	"vagen/train/config"
	"vagen/train/run"
	"vagen/train/track"
)

// childRole is run in a process that TestMain turns into a run, childFolder names its folder, and childStaleness is its
// run.max_staleness if it collects ahead.
const (
	childRole      = "VAGEN_TEST_ROLE"
	childFolder    = "VAGEN_TEST_RUN_FOLDER"
	childStaleness = "VAGEN_TEST_RUN_STALENESS"
)

// childRun is the run of such a process, with a staleness of 0 for episodes of the current policy.
func childRun(staleness int) config.Config {
	c := thrifty()
	if staleness > 0 {
		c = ahead(c)
		c.Run.MaxStaleness = staleness
	}
	return c
}

func TestMain(m *testing.M) {
	traintest.Main(m, childRole, map[string]func() error{"run": func() error {
		staleness, err := strconv.Atoi(os.Getenv(childStaleness))
		if err != nil {
			return err
		}
		return trainIn(context.Background(), os.Getenv(childFolder), childRun(staleness), nil)
	}})
}

// slowSaver saves slowly in the background, so that processes are also killed during
// saves.
type slowSaver struct{ *traintest.Bandit }

func (s slowSaver) Snapshot(context.Context) (policy.Snapshot, error) {
	raw, err := s.Bandit.Table()
	return slowSnapshot(raw), err
}

type slowSnapshot []byte

func (s slowSnapshot) Save(_ context.Context, dir string) error {
	if err := os.Mkdir(filepath.Join(dir, "actor"), 0o755); err != nil {
		return err
	}
	time.Sleep(2 * time.Millisecond)
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "table.json"), s, 0o644),
		os.WriteFile(filepath.Join(dir, "actor", "policy"), s, 0o644),
	)
}

// long is a run of twelve steps that keeps all checkpoints.
func long() config.Config {
	c := traintest.Small()
	c.Trainer.Steps, c.Trainer.SaveFreq, c.Trainer.TestFreq, c.Trainer.ValBefore = 12, 2, 3, true
	c.Trainer.KeepActors, c.Trainer.KeepCritics, c.Trainer.BestActor = nil, nil, true
	c.Data.Pools.Share = 0.5
	c.Algorithm.KLInReward, c.Algorithm.KLCtrl = true,
		config.KLConfig{Type: "adaptive", Coef: 0.1, Target: 0.01, Horizon: 50}
	return c
}

// thrifty is long with two checkpoints and two additional policies kept.
func thrifty() config.Config {
	c := long()
	whole, actors := 2, 4
	c.Trainer.KeepCritics, c.Trainer.KeepActors = &whole, &actors
	return c
}

// brisk is thrifty with half the steps.
func brisk() config.Config {
	c := thrifty()
	c.Trainer.Steps = 6
	return c
}

// trainIn is a program that trains: it starts a run, or resumes the one in the folder from
// where it stopped. spoil may be nil.
func trainIn(ctx context.Context, dir string, c config.Config, spoil func(*train.Trainer)) error {
	b := traintest.Guesser()
	a := &traintest.Arena{}
	t := &train.Trainer{Config: c, Learner: b, Handled: []string{"trainer."}}
	var err error
	if t.Envs, err = a.Open(); err != nil {
		return err
	}
	folder, err := run.CreateFolder(dir, &c)
	if errors.Is(err, run.ErrExists) {
		folder, err = run.OpenFolder(dir, &c)
	}
	if err != nil {
		return err
	}
	points := folder.Checkpoints(&c, nil)
	var from *train.State
	switch p, err := points.Latest(ctx); {
	case err == nil:
		from = &p.State
		if err := errors.Join(points.Tidy(from.Step), b.Restore(ctx, p.Path), t.Restore(p.State)); err != nil {
			return err
		}
	case !errors.Is(err, run.ErrNoCheckpoint):
		return err
	}
	if _, err := folder.Rewind(from, c.Trainer.Steps); err != nil {
		return err
	}
	metrics, err := folder.Metrics()
	if err != nil {
		return err
	}
	t.Sinks = []track.Sink{metrics}
	t.Checkpointer = traintest.Hooks{
		OnBegin: func(ctx context.Context, s train.State) (*train.Pending, error) {
			return points.Begin(ctx, slowSaver{b}, s, &c)
		},
		OnRollback: func(ctx context.Context) (train.State, error) {
			p, err := points.Latest(ctx)
			if err != nil {
				return train.State{}, err
			}
			return p.State, b.Restore(ctx, p.Path)
		},
		OnKeepBest: func(ctx context.Context, best train.Best) error { return folder.SaveBest(ctx, best, b.Save) },
	}
	if spoil != nil {
		spoil(t)
	}
	return errors.Join(t.Run(ctx), metrics.Close())
}

// beginFunc is Checkpointer.Begin.
type beginFunc func(ctx context.Context, s train.State) (*train.Pending, error)

// wrapBegin puts a function around the Begin of a Trainer's Checkpointer.
func wrapBegin(
	tr *train.Trainer, around func(ctx context.Context, s train.State, begin beginFunc) (*train.Pending, error),
) traintest.Hooks {
	h := tr.Checkpointer.(traintest.Hooks)
	begin := h.OnBegin
	h.OnBegin = func(ctx context.Context, s train.State) (*train.Pending, error) { return around(ctx, s, begin) }
	return h
}

// TestKilledRunsEndAsUninterruptedOnes kills a run again and again at arbitrary moments,
// and restarts it until it ends. Its files equal those of an uninterrupted run byte for
// byte.
func TestKilledRunsEndAsUninterruptedOnes(t *testing.T) {
	t.Parallel()
	for _, staleness := range []int{0, 3} { // without episodes that wait, and with several of them
		t.Run(fmt.Sprint("staleness ", staleness), func(t *testing.T) { killRuns(t, staleness) })
	}
}

func killRuns(t *testing.T, staleness int) {
	want := filepath.Join(t.TempDir(), "whole")
	require.NoError(t, trainIn(t.Context(), want, childRun(staleness), nil))
	dir := filepath.Join(t.TempDir(), "killed")
	kills := 0
	// Later processes are killed later, so that the run ends on any machine.
	for life := 10 * time.Millisecond; ; life += 4 * time.Millisecond {
		child := exec.CommandContext(t.Context(), os.Args[0])
		child.Env = append(os.Environ(), childRole+"=run", childFolder+"="+dir, childStaleness+"="+strconv.Itoa(staleness))
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
		require.Empty(t, complaint.String(), "a killed run logs nothing")
	}
	t.Logf("killed %d times", kills)
	require.Positive(t, kills)
	got := traintest.Files(t, dir)
	require.Equal(t, traintest.Files(t, want), got)
	for _, name := range []string{
		"checkpoints/actor_step_6/policy", "checkpoints/actor_step_8/policy", "checkpoints/step_10/state.json",
		"checkpoints/step_12/actor/policy", "best_actor/best.json",
	} {
		require.Contains(t, got, name)
	}
	require.Len(t, names(t, filepath.Join(dir, "checkpoints")), 4)
}

// TestARunThatStopsAnywhereEndsAsIfItHadNot stops a run before and after every single
// event, and in every save, and resumes it. The events include both ends of an epoch, a
// validation and the last step.
func TestARunThatStopsAnywhereEndsAsIfItHadNot(t *testing.T) {
	t.Parallel()
	whole, events := requireResumesAfterEveryEvent(t, "brisk", brisk(), asItIs)
	want := traintest.Files(t, whole)
	require.Len(t, *events, 6+3+3)
	places := map[string]func(*train.Trainer){}
	for i := range *events {
		places[fmt.Sprint("before event ", i)] = func(tr *train.Trainer) {
			tr.Sinks = append([]track.Sink{brokenAfter(i)}, tr.Sinks...)
		}
	}
	for step := 2; step <= 6; step += 2 {
		places[fmt.Sprint("before save ", step)] = func(tr *train.Trainer) {
			tr.Checkpointer = wrapBegin(tr, func(ctx context.Context, s train.State, begin beginFunc) (*train.Pending, error) {
				if s.Step == step {
					return nil, traintest.ErrBroken
				}
				return begin(ctx, s)
			})
		}
		places[fmt.Sprint("after save ", step)] = func(tr *train.Trainer) {
			tr.Checkpointer = wrapBegin(tr, func(ctx context.Context, s train.State, begin beginFunc) (*train.Pending, error) {
				p, err := begin(ctx, s)
				if s.Step == step {
					return nil, errors.Join(err, p.Wait(), traintest.ErrBroken)
				}
				return p, err
			})
		}
	}
	for place, spoil := range places {
		dir := filepath.Join(t.TempDir(), "run")
		require.ErrorIs(t, trainIn(t.Context(), dir, brisk(), spoil), traintest.ErrBroken, place)
		require.NoError(t, trainIn(t.Context(), dir, brisk(), nil), place)
		require.Equal(t, want, traintest.Files(t, dir), place)
	}
}

func TestRewindKeepsWhatWasSavedAndTellsIt(t *testing.T) {
	f := &run.Folder{Path: t.TempDir()}
	path := filepath.Join(f.Path, "metrics.jsonl")
	write := func(text string) { testkit.Write(t, path, text) }
	imitate := `{"kind":"imitate","step":16,"imitate/loss":0.5}` + "\n"
	one := `{"kind":"validate","step":0}` + "\n" + `{"kind":"step","step":1,"a":2,"b":null}` + "\n"
	saved := `{"kind":"save","step":1}` + "\n"
	saved0 := `{"kind":"save","step":0}` + "\n"
	later := `{"kind":"step","step":2,"a":3}` + "\n"

	write(imitate + one + saved + later + `{"kind":"st`)
	events, err := f.Rewind(&train.State{Step: 1}, 9)
	require.NoError(t, err)
	require.Equal(t, imitate+one, testkit.Text(t, path), "the Trainer says again that the checkpoint was saved")
	require.True(t, math.IsNaN(events[2].Metrics["b"]))
	delete(events[2].Metrics, "b")
	require.Equal(t, []track.Event{
		{Kind: track.KindImitate, Step: 16, Total: 9, Metrics: track.Metrics{"imitate/loss": 0.5}},
		{Kind: track.KindValidate, Total: 9, Metrics: track.Metrics{}},
		{Kind: track.KindStep, Step: 1, Total: 9, Metrics: track.Metrics{"a": 2}},
	}, events)

	validated := `{"kind":"validate","step":1}` + "\n"
	write(imitate + one + validated + saved)
	_, err = f.Rewind(&train.State{Step: 1}, 9)
	require.NoError(t, err)
	require.Equal(t, imitate+one+validated, testkit.Text(t, path))
	_, err = f.Rewind(&train.State{Step: 1, Interrupted: true}, 9)
	require.NoError(t, err)
	require.Equal(t, imitate+one, testkit.Text(t, path), "what is due after the step is done again")

	write(imitate + saved0 + one)
	_, err = f.Rewind(&train.State{}, 9)
	require.NoError(t, err)
	require.Equal(t, imitate+saved0, testkit.Text(t, path), "step 0 is saved before the validation of step 0")

	write(imitate + one + saved)
	events, err = f.Rewind(nil, 9)
	require.NoError(t, err)
	require.Empty(t, events)
	require.Empty(t, testkit.Read(t, path), "from the beginning")

	for _, bad := range []string{"{}\n", "nonsense\n", `{"kind":1,"step":1}` + "\n"} {
		write(imitate + bad)
		_, err = f.Rewind(&train.State{Step: 1}, 9)
		require.ErrorContains(t, err, "metrics.jsonl: line 2: ")
	}
	require.NoError(t, os.Remove(path))
	events, err = f.Rewind(nil, 9)
	require.NoError(t, err)
	require.Empty(t, events)
}
