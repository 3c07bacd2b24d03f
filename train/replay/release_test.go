package replay_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/durable"
	"vagen/internal/testkit"
	"vagen/internal/traintest"
	"vagen/train/proof"
	"vagen/train/replay"
	"vagen/train/run"
	"vagen/train/rundir"
	"vagen/train/view"
)

// TestRunsOfOtherReleasesAreReadAlike: the configuration of a run may have keys that are aliases now, or that do
// not exist any more. Every reader accepts both, and names the latter.
func TestRunsOfOtherReleasesAreReadAlike(t *testing.T) {
	c := traintest.Small()
	c.Agent.Actor.Optim.Style = "cosine"
	today, err := c.Stored()
	require.NoError(t, err)
	alias := strings.Replace(string(today), "warmup_style: cosine", "lr_scheduler_type: cosine", 1)
	removed := strings.Replace(string(today), "\nmodel:\n", "\nmodel:\n  speed: 5\n", 1)
	require.NotEqual(t, string(today), alias)
	require.NotEqual(t, string(today), removed)
	const key = "model.speed: 5 → no such key"

	// folder has the configuration and the start of the record of a run.
	folder := func(t *testing.T, text string) string {
		dir := t.TempDir()
		name := filepath.Join(dir, rundir.ConfigName)
		testkit.Write(t, name, text)
		testkit.Write(t, filepath.Join(dir, rundir.MetricsName), "")
		sum, err := durable.SumOf(name)
		require.NoError(t, err)
		r, err := proof.Open(dir, nil)
		require.NoError(t, err)
		facts := proof.NewFacts([]byte(text), c.Run.Seed, "")
		if text == removed {
			facts.Build.Version = "v0.0.1"
		}
		require.NoError(t, r.Begin(proof.Line{
			Kind: proof.KindStart, Facts: facts,
			Files: map[string]string{rundir.ConfigName: sum.SHA256},
		}, 0))
		require.NoError(t, r.Close())
		return dir
	}
	readers := map[string]func(t *testing.T, dir string) (says string){
		"resume": func(t *testing.T, dir string) string {
			f, err := run.OpenFolder(dir, &c)
			require.NoError(t, err)
			return strings.Join(f.Changed, "\n")
		},
		"replay": func(t *testing.T, dir string) string {
			var log bytes.Buffer
			_, err := replay.Step(t.Context(), dir, nil, 1, nil, slog.New(slog.NewTextHandler(&log, nil)))
			require.ErrorContains(t, err, "recorded no episodes")
			return log.String()
		},
		"credit": func(t *testing.T, dir string) string {
			var log bytes.Buffer
			_, err := replay.OpenCredit(t.Context(), dir, nil, 1, nil, slog.New(slog.NewTextHandler(&log, nil)))
			require.ErrorIs(t, err, run.ErrTorn, "there is no checkpoint")
			return log.String()
		},
		"verify": func(t *testing.T, dir string) string {
			r, err := replay.Verify(t.Context(), dir, replay.VerifyOptions{Steps: 1})
			require.NoError(t, err)
			require.Empty(t, r.Faults())
			raw, err := json.Marshal(r.Checks)
			require.NoError(t, err)
			return string(raw)
		},
		"bisect": func(t *testing.T, dir string) string {
			b, err := proof.Bisect(t.Context(), folder(t, string(today)), dir)
			require.NoError(t, err)
			require.Empty(t, b.Config)
			return strings.Join(b.Notes, "\n")
		},
		"view": func(t *testing.T, dir string) string {
			h, err := (&view.Server{Runs: []string{dir}}).Handler()
			require.NoError(t, err)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/api/runs", nil))
			require.Contains(t, w.Body.String(), `"estimator":"`+c.Algorithm.Estimator)
			return w.Body.String()
		},
		"report": func(t *testing.T, dir string) string {
			var page bytes.Buffer
			require.NoError(t, (&view.Report{Runs: []string{dir}}).Write(&page))
			return page.String()
		},
	}
	for reader, read := range readers {
		t.Run(reader, func(t *testing.T) {
			for about, text := range map[string]string{"today": string(today), "alias": alias, "removed": removed} {
				says := read(t, folder(t, text))
				if about == "removed" {
					require.Contains(t, says, key, about)
					if reader == "replay" || reader == "credit" {
						require.Contains(t, says, "version of vagen: v0.0.1")
					}
				} else {
					require.NotContains(t, says, "no such key", about)
				}
			}
		})
	}
}

// TestARunsConfigurationIsNamed: the error about a wrong setting of a run says in which file it is.
func TestARunsConfigurationIsNamed(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, rundir.ConfigName)
	testkit.Write(t, name, "algorithm: {adv_estimator: nowhere}\n")
	_, err := replay.Step(t.Context(), dir, nil, 1, nil, nil)
	require.ErrorContains(t, err, name)
	require.ErrorContains(t, err, "nowhere")
}
