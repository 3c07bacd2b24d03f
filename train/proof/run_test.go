package proof_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/internal/traintest"
	"vagen/policy"
	"vagen/train/config"
	"vagen/train/proof"
	"vagen/train/run"
	"vagen/train/track"
)

// recorded is a run of six steps that stores its episodes and keeps three checkpoints.
func recorded() config.Config {
	c := traintest.Small()
	c.Trainer.Steps, c.Trainer.SaveFreq, c.Trainer.TestFreq = 6, 1, 3
	keep := 3
	c.Trainer.KeepActors, c.Trainer.KeepCritics = &keep, &keep
	return c
}

// learner is a bandit whose weights are a file of their own.
type learner struct{ *traintest.Bandit }

func (l learner) Save(ctx context.Context, dir string) error {
	raw, err := l.Table()
	if err == nil {
		err = os.Mkdir(filepath.Join(dir, "actor"), 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "actor", "policy"), raw, 0o644)
	}
	if err != nil {
		return err
	}
	return l.Bandit.Save(ctx, dir)
}

// train trains in a folder, or resumes the run there. spoil, if not nil, changes the run.
func train(t *testing.T, dir string, c config.Config, spoil func(r *run.Run, b *traintest.Bandit)) error {
	t.Helper()
	return trainLogged(t, dir, c, spoil, nil)
}

func trainLogged(
	t *testing.T, dir string, c config.Config, spoil func(r *run.Run, b *traintest.Bandit), log *slog.Logger,
) error {
	t.Helper()
	if c.Trainer.RolloutDir == nil {
		episodes := filepath.Join(dir, "rollouts")
		c.Trainer.RolloutDir = &episodes
	}
	b := traintest.Guesser()
	r, err := run.Open(t.Context(), c, run.Options{
		Dir: dir, Envs: (&traintest.Arena{}).Registry(t), Log: log,
		Learner: func(context.Context, string) (policy.Learner, error) { return learner{b}, nil },
	})
	require.NoError(t, err)
	if spoil != nil {
		spoil(r, b)
	}
	err = r.Train(t.Context())
	require.NoError(t, r.Close())
	return err
}

// stopAt ends a run before it writes an event to metrics.jsonl, as a kill would.
func stopAt(event int) func(r *run.Run, _ *traintest.Bandit) {
	return func(r *run.Run, _ *traintest.Bandit) {
		r.Sinks = append([]track.Sink{r.Sinks[0], track.SinkFunc(func(track.Event) error {
			if event--; event < 0 {
				return traintest.ErrBroken
			}
			return nil
		})}, r.Sinks[1:]...)
	}
}

func verify(t *testing.T, dir string) *proof.Report {
	t.Helper()
	r, err := proof.Verify(t.Context(), dir)
	require.NoError(t, err)
	return r
}

// whole is a folder with a complete run.
func whole(t *testing.T, c config.Config) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	require.NoError(t, train(t, dir, c, nil))
	r := verify(t, dir)
	require.Empty(t, append(r.Faults(), r.Unfinished()...))
	return dir
}

// edit changes a file of a run.
func edit(t *testing.T, change func(text string) string, path ...string) {
	t.Helper()
	name := filepath.Join(path...)
	raw := testkit.Text(t, name)
	now := change(raw)
	require.NotEqual(t, raw, now, "the test changes the file")
	testkit.Write(t, name, now)
}

// flip changes the byte in the middle.
func flip(text string) string {
	raw := []byte(text)
	raw[len(raw)/2] ^= 1
	return string(raw)
}

func replace(old, new string) func(string) string {
	return func(text string) string { return strings.Replace(text, old, new, 1) }
}

// swap exchanges two lines.
func swap(i, j int) func(string) string {
	return func(text string) string {
		lines := strings.SplitAfter(text, "\n")
		lines[i], lines[j] = lines[j], lines[i]
		return strings.Join(lines, "")
	}
}

// without removes lines; a negative number counts from the end.
func without(i int) func(string) string {
	return func(text string) string {
		lines := strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n")
		lines[len(lines)-1] += "\n"
		if i < 0 {
			i += len(lines)
		}
		return strings.Join(append(lines[:i:i], lines[i+1:]...), "")
	}
}
