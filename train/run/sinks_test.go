package run

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/traintest"
	"vagen/policy"
	"vagen/train/config"
	"vagen/train/track"
)

// TestLoggersAreThoseOfTheConfiguration: a resumed run replays its history to the sinks
// that need it.
func TestLoggersAreThoseOfTheConfiguration(t *testing.T) {
	c := traintest.Small()
	c.Trainer.Logger = []string{config.LogTensorBoard, config.LogPrometheus}
	c.Trainer.Prometheus = "127.0.0.1:0"
	var console, log bytes.Buffer
	o := guessing(t)
	o.Console, o.Log = &console, slog.New(slog.NewTextHandler(&log, nil))
	o.Learner = func(context.Context, string) (policy.Learner, error) { return restorable{traintest.Guesser()}, nil }
	r, err := Open(t.Context(), c, o)
	require.NoError(t, err)
	folder := r.Folder
	for _, s := range r.Sinks {
		require.NoError(t, s.Event(track.Event{Kind: track.KindValidate, Step: 0, Total: 1,
			Metrics: track.Metrics{"val/success": 0.25}}))
	}
	url := regexp.MustCompile(`http://[\d.:]+/metrics`).FindString(log.String())
	answer, err := http.Get(url)
	require.NoError(t, err)
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, errors.Join(err, answer.Body.Close()))
	require.Contains(t, string(text), `vagen_metric{name="val/success"} 0.25`)
	require.NoError(t, r.Close())
	require.Empty(t, console.String(), "it is not in the list")
	found := func(pattern string) []string {
		files, err := filepath.Glob(filepath.Join(folder.Path, pattern))
		require.NoError(t, err)
		return files
	}
	require.Len(t, found("metrics.jsonl"), 1)
	require.Len(t, found("tensorboard/events.out.tfevents.*"), 1)
	_, err = http.Get(url)
	require.Error(t, err, "the server stops when the run has ended")

	r, err = Open(t.Context(), c, o)
	require.NoError(t, err)
	require.NoError(t, r.Close())

	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	c.Trainer.Prometheus = taken.Addr().String()
	_, err = Open(t.Context(), c, o)
	require.ErrorContains(t, err, "trainer.prometheus_address")
	open, _ := os.ReadDir("/proc/self/fd") // without it there is nothing to look at
	for _, f := range open {
		name, _ := os.Readlink(filepath.Join("/proc/self/fd", f.Name()))
		require.NotContains(t, name, folder.Path, "what was opened before is closed")
	}

	c.Trainer.Logger = []string{config.LogMLflow}
	t.Setenv("MLFLOW_TRACKING_URI", "")
	_, err = Open(t.Context(), c, o)
	require.ErrorContains(t, err, "MLFLOW_TRACKING_URI")
	_, err = os.Stat(filepath.Join(folder.Path, "config.yaml"))
	require.NoError(t, err)
}

// restorable is a learner that can be restored, to what it is.
type restorable struct{ *traintest.Bandit }

func (restorable) Restore(context.Context, string) error { return nil }
