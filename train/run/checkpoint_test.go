package run_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/policy"
	"vagen/train"
	"vagen/train/config"
	"vagen/train/run"
)

// saver is a learner that saves only the number of its saves.
type saver struct {
	policy.Learner
	saved int
	err   error
}

func (s *saver) Save(_ context.Context, dir string) error {
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		return errors.Join(err, errors.New("the folder must be empty"))
	}
	s.saved++
	if err := os.WriteFile(filepath.Join(dir, "saved"), []byte{byte('0' + s.saved)}, 0o644); err != nil {
		return err
	}
	return s.err
}

// names lists a folder.
func names(t testing.TB, dir string) (out []string) {
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range list {
		out = append(out, e.Name())
	}
	return out
}

// TestACheckpointIsReplacedWhole saves over an old checkpoint and over what a
// killed run left, and fails to save: a folder is the old one or the new one.
func TestACheckpointIsReplacedWhole(t *testing.T) {
	c := config.Default()
	points := &run.Checkpoints{Dir: filepath.Join(t.TempDir(), "checkpoints")}
	saved := func() string {
		return testkit.Text(t, filepath.Join(points.Dir, "step_7", "saved"))
	}
	s, state := &saver{}, train.State{Step: 7, KLCoef: 0.25}
	require.NoError(t, points.Save(t.Context(), s, state, &c))
	require.Equal(t, []string{"step_7"}, names(t, points.Dir))
	require.Equal(t, []string{"config.yaml", "manifest.json", "saved", "state.json"},
		names(t, filepath.Join(points.Dir, "step_7")))
	require.Equal(t, "1", saved())

	testkit.Write(t, filepath.Join(points.Dir, "step_7", "of the old one"), "")
	require.NoError(t, os.MkdirAll(filepath.Join(points.Dir, "step_7.tmp", "torn"), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(points.Dir, "step_7.old", "torn"), 0o755))
	require.NoError(t, points.Save(t.Context(), s, state, &c))
	require.Equal(t, []string{"step_7"}, names(t, points.Dir))
	require.Equal(t, "2", saved())
	require.NoFileExists(t, filepath.Join(points.Dir, "step_7", "of the old one"))

	s.err = errors.New("disk full")
	require.ErrorIs(t, points.Save(t.Context(), s, state, &c), s.err)
	require.Equal(t, []string{"step_7"}, names(t, points.Dir), "nothing is left of the failure")
	require.Equal(t, "2", saved())

	s.err = nil
	points.Export = func(_ context.Context, dir string, _ train.State) error { return os.RemoveAll(dir) }
	require.ErrorIs(t, points.Save(t.Context(), s, state, &c), os.ErrNotExist, "there is nothing to put in its place")
	require.Equal(t, []string{"step_7"}, names(t, points.Dir))
	require.Equal(t, "2", saved())

	require.NoError(t, os.Mkdir(filepath.Join(points.Dir, "step_007"), 0o755))
	steps, err := points.Steps()
	require.NoError(t, err)
	require.Equal(t, []int{7}, steps, "a folder with a similar name is not a checkpoint")

	p, err := points.Latest(t.Context())
	require.NoError(t, err)
	require.Equal(t, state, p.State)
	require.Equal(t, filepath.Join(points.Dir, "step_7"), p.Path)
	yaml, err := c.YAML()
	require.NoError(t, err)
	require.Equal(t, string(yaml), string(p.Config))
}

func TestACheckpointThatCannotBeWrittenIsAnError(t *testing.T) {
	c := config.Default()
	points := &run.Checkpoints{Dir: filepath.Join(t.TempDir(), "checkpoints")}
	testkit.Write(t, points.Dir, "")
	require.ErrorContains(t, points.Save(t.Context(), &saver{}, train.State{Step: 1}, &c), "run: checkpoint: ")
	_, err := points.Latest(t.Context())
	require.ErrorContains(t, err, "rundir: open "+points.Dir)
}

func TestOnlyTheNewestCheckpointsAreKept(t *testing.T) {
	c := config.Default()
	points := &run.Checkpoints{Dir: t.TempDir(), Keep: 2}
	for step := range 12 {
		require.NoError(t, points.Save(t.Context(), &saver{}, train.State{Step: step}, &c))
	}
	steps, err := points.Steps()
	require.NoError(t, err)
	require.Equal(t, []int{11, 10}, steps, "numbers, not names, are compared")
	require.Len(t, names(t, points.Dir), 2)
}

// TestATornCheckpointIsPassedOver damages the newest of two checkpoints in every
// way that a disk may; the one before it is found, and the warning names the file.
func TestATornCheckpointIsPassedOver(t *testing.T) {
	c := config.Default()
	cut := func(name string) func(string) error {
		return func(dir string) error { return os.Truncate(filepath.Join(dir, name), 1) }
	}
	for name, damage := range map[string]func(dir string) error{
		"saved":         func(dir string) error { return os.WriteFile(filepath.Join(dir, "saved"), []byte("x"), 0o644) },
		"state.json":    cut("state.json"),
		"config.yaml":   func(dir string) error { return os.Remove(filepath.Join(dir, "config.yaml")) },
		"manifest.json": cut("manifest.json"),
		"no manifest":   func(dir string) error { return os.Remove(filepath.Join(dir, "manifest.json")) },
		"state.json: not a regular file": func(dir string) error {
			name := filepath.Join(dir, "state.json")
			return errors.Join(os.Remove(name), os.Mkdir(name, 0o755))
		},
	} {
		var log bytes.Buffer
		points := &run.Checkpoints{Dir: t.TempDir(), Log: slog.New(slog.NewTextHandler(&log, nil))}
		for _, step := range []int{3, 20} {
			require.NoError(t, points.Save(t.Context(), &saver{}, train.State{Step: step}, &c))
		}
		require.NoError(t, damage(filepath.Join(points.Dir, "step_20")))
		p, err := points.Latest(t.Context())
		require.NoError(t, err, name)
		require.Equal(t, 3, p.State.Step, name)
		require.Contains(t, log.String(), "step_20")
		if name != "no manifest" {
			require.Contains(t, log.String(), name)
		}
		_, err = run.OpenCheckpoint(t.Context(), filepath.Join(points.Dir, "step_20"))
		require.ErrorIs(t, err, run.ErrTorn)
	}
}

// deep is a learner that saves a file in a folder.
type deep struct{ policy.Learner }

func (deep) Save(_ context.Context, dir string) error {
	dir = filepath.Join(dir, "actor")
	return errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, "weights"), nil, 0o644))
}

func TestAFileInPlaceOfAFolderIsDamage(t *testing.T) {
	c := config.Default()
	points := &run.Checkpoints{Dir: t.TempDir()}
	require.NoError(t, points.Save(t.Context(), deep{}, train.State{Step: 3}, &c))
	actor := filepath.Join(points.Dir, "step_3", "actor")
	require.NoError(t, errors.Join(os.RemoveAll(actor), os.WriteFile(actor, nil, 0o644)))
	_, err := points.Latest(t.Context())
	testkit.Error(t, err, run.ErrTorn, filepath.Join(actor, "weights"))
}

// TestACheckpointThatWasBeingReplacedIsNotLost stops between the two renames of a
// replacement, with no other checkpoint to go back to.
func TestACheckpointThatWasBeingReplacedIsNotLost(t *testing.T) {
	c := config.Default()
	stopped := func() *run.Checkpoints {
		points := &run.Checkpoints{Dir: t.TempDir(), Keep: 1}
		require.NoError(t, points.Save(t.Context(), &saver{}, train.State{Step: 7, Interrupted: true}, &c))
		final := filepath.Join(points.Dir, "step_7")
		require.NoError(t, os.Rename(final, final+".old"))
		require.NoError(t, os.MkdirAll(final+".tmp", 0o755))
		return points
	}
	points := stopped()
	p, err := points.Latest(t.Context())
	require.NoError(t, err)
	require.Equal(t, filepath.Join(points.Dir, "step_7"), p.Path)
	require.Equal(t, train.State{Step: 7, Interrupted: true}, p.State)
	require.NoError(t, points.Tidy(7))
	require.Equal(t, []string{"step_7"}, names(t, points.Dir))

	points = stopped() // half removed instead
	require.NoError(t, os.Remove(filepath.Join(points.Dir, "step_7.old", "saved")))
	_, err = points.Latest(t.Context())
	require.ErrorIs(t, err, run.ErrNoCheckpoint)

	points = stopped()
	require.NoError(t, points.Save(t.Context(), &saver{}, train.State{Step: 3}, &c))
	p, err = points.Latest(t.Context())
	require.NoError(t, err)
	require.Equal(t, 3, p.State.Step, "a save completes the interrupted replacement")
}

func TestNoCheckpointIsAnErrorOfItsOwn(t *testing.T) {
	points := &run.Checkpoints{Dir: filepath.Join(t.TempDir(), "none")}
	_, err := points.Latest(t.Context())
	testkit.Error(t, err, run.ErrNoCheckpoint, points.Dir)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := config.Default()
	require.ErrorIs(t, points.Save(ctx, &saver{}, train.State{}, &c), context.Canceled)
	require.Empty(t, names(t, points.Dir), "a cancelled save leaves nothing")
}
