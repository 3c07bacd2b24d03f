package vagen_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen"
)

// tracker behaves like an MLflow server, as its reference describes it.
type tracker struct {
	mu      sync.Mutex
	broken  int // requests to fail
	refuse  bool
	exists  bool // the experiment
	runs    map[string]map[string]any
	metrics map[string]float64 // newest, by run/name/step
	latest  int                // step that a run has of a
	params  map[string]string
	auth    string
	calls   []string
}

func (s *tracker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.auth = r.Header.Get("Authorization")
	what := r.URL.Path[len("/sub/api/2.0/mlflow/"):]
	s.calls = append(s.calls, what)
	fail := func(status int, code string) {
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"error_code":%q,"message":"no"}`, code)
	}
	if s.broken > 0 {
		s.broken--
		fail(503, "TEMPORARILY_UNAVAILABLE")
		return
	}
	if s.refuse {
		fail(401, "UNAUTHENTICATED")
		return
	}
	var in struct {
		RunID  string `json:"run_id"`
		Name   string `json:"run_name"`
		Status string `json:"status"`
		Params []struct{ Key, Value string }
		Values []struct {
			Key   string
			Value float64
			Step  int64
		} `json:"metrics"`
	}
	if r.Method == http.MethodPost {
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			fail(400, "BAD_REQUEST")
			return
		}
	}
	switch what {
	case "experiments/get-by-name":
		if !s.exists {
			fail(404, "RESOURCE_DOES_NOT_EXIST")
			return
		}
		fmt.Fprint(w, `{"experiment":{"experiment_id":"7","lifecycle_stage":"active"}}`)
	case "experiments/create":
		s.exists = true
		fmt.Fprint(w, `{"experiment_id":"7"}`)
	case "runs/create":
		id := fmt.Sprintf("r%d", len(s.runs))
		s.runs[id] = map[string]any{"name": in.Name}
		fmt.Fprintf(w, `{"run":{"info":{"run_id":%q}}}`, id)
	case "runs/get":
		id := r.URL.Query().Get("run_id")
		if s.runs[id] == nil {
			fail(404, "RESOURCE_DOES_NOT_EXIST")
			return
		}
		fmt.Fprintf(w, `{"run":{"data":{"metrics":[{"key":"a","step":%d}]}}}`, s.latest)
	case "runs/log-batch":
		for _, p := range in.Params {
			s.params[p.Key] = p.Value
		}
		for _, m := range in.Values {
			key := fmt.Sprintf("%s/%s/%d", in.RunID, m.Key, m.Step)
			if _, twice := s.metrics[key]; twice {
				s.calls = append(s.calls, "twice "+key)
			}
			s.metrics[key] = m.Value
		}
		fmt.Fprint(w, `{}`)
	case "runs/update":
		s.runs[in.RunID]["status"] = in.Status
		fmt.Fprint(w, `{}`)
	default:
		fail(404, "ENDPOINT_NOT_FOUND")
	}
}

func track(t *testing.T) (*tracker, func(string) (string, bool)) {
	s := &tracker{latest: 2, runs: map[string]map[string]any{}, metrics: map[string]float64{}, params: map[string]string{}}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	return s, func(name string) (string, bool) {
		v, ok := map[string]string{"MLFLOW_TRACKING_URI": h.URL + "/sub/", "MLFLOW_TRACKING_TOKEN": "secret"}[name]
		return v, ok
	}
}

// TestMLflowHasTheWholeRun: parameters, every finite figure and the state, also
// when the server is away at first, and once when the run goes on.
func TestMLflowHasTheWholeRun(t *testing.T) {
	s, getenv := track(t)
	s.broken = 1
	dir := t.TempDir()
	var log bytes.Buffer
	c := vagen.Default()
	m, err := vagen.NewMLflow(dir, &c, getenv, slog.New(slog.NewTextHandler(&log, nil)))
	require.NoError(t, err)
	for step := 1; step <= 2; step++ {
		require.NoError(t, m.Event(vagen.Event{Kind: "step", Step: step, Metrics: vagen.Metrics{"a": float64(step), "b: c//d": 4, "bad": math.NaN()}}))
	}
	m.Ended(context.Canceled)
	require.NoError(t, m.Close())
	require.NoError(t, m.Close(), "once is enough")
	require.Equal(t, map[string]any{"name": "run", "status": "KILLED"}, s.runs["r0"])
	require.Equal(t, map[string]float64{"r0/a/1": 1, "r0/a/2": 2, "r0/b_ c/_/d/1": 4, "r0/b_ c/_/d/2": 4}, s.metrics)
	require.Equal(t, `"gae"`, s.params["algorithm.adv_estimator"])
	require.Equal(t, "Bearer secret", s.auth)
	require.Contains(t, log.String(), "MLflow does not answer")
	require.Contains(t, log.String(), "MLflow answers again")
	require.NotContains(t, log.String(), "secret")

	m, err = vagen.NewMLflow(dir, &c, getenv, nil)
	require.NoError(t, err)
	for step := 1; step <= 3; step++ {
		require.NoError(t, m.Event(vagen.Event{Kind: "step", Step: step, Metrics: vagen.Metrics{"a": float64(step)}}))
	}
	m.Ended(nil)
	require.NoError(t, m.Close())
	require.Len(t, s.runs, 1, "the run goes on under its id")
	require.Equal(t, "FINISHED", s.runs["r0"]["status"])
	require.InDelta(t, 3, s.metrics["r0/a/3"], 0)
	for _, call := range s.calls {
		require.NotContains(t, call, "twice")
	}
}

// TestMLflowNeverStopsTraining: nobody answers, or the server refuses. Both are said.
func TestMLflowNeverStopsTraining(t *testing.T) {
	s, getenv := track(t)
	s.refuse = true
	var log bytes.Buffer
	c := vagen.Default()
	m, err := vagen.NewMLflow(t.TempDir(), &c, getenv, slog.New(slog.NewTextHandler(&log, nil)))
	require.NoError(t, err)
	for step := range 1000 {
		require.NoError(t, m.Event(vagen.Event{Kind: "step", Step: step, Metrics: vagen.Metrics{"a": 1}}))
	}
	require.NoError(t, m.Close())
	require.Len(t, s.calls, 1, "who is refused does not ask again")
	require.Contains(t, log.String(), "MLflow refuses this run")
	require.Contains(t, log.String(), "401 UNAUTHENTICATED")
}

func TestMLflowNeedsTheAddressOfAServer(t *testing.T) {
	c := vagen.Default()
	for _, address := range []string{"", "sqlite:///m.db", "./mlruns", "http://"} {
		_, err := vagen.NewMLflow(t.TempDir(), &c, func(string) (string, bool) { return address, true }, nil)
		require.ErrorIs(t, err, vagen.ErrConfig, address)
		require.ErrorContains(t, err, "MLFLOW_TRACKING_URI")
	}
}

// TestWandBWritesOneFileForARun: rows of steps that go up, also when it goes on.
func TestWandBWritesOneFileForARun(t *testing.T) {
	dir := t.TempDir()
	c := vagen.Default()
	history := []vagen.Event{
		{Kind: vagen.KindImitate, Step: 60, Metrics: vagen.Metrics{"imitate/loss": 3}},
		{Kind: vagen.KindValidate, Step: 0, Metrics: vagen.Metrics{"val/success": 0.25}},
		{Kind: vagen.KindStep, Step: 1, Metrics: vagen.Metrics{"train/score": 0.5}},
		{Kind: vagen.KindSave, Step: 1},
	}
	var sizes []int
	var first string
	for i := range 2 {
		w, err := vagen.NewWandB(dir, &c)
		require.NoError(t, err)
		for _, e := range history {
			require.NoError(t, w.Event(e))
		}
		w.Ended(nil)
		require.NoError(t, w.Close())
		require.NoError(t, w.Close())
		if i == 0 {
			first = w.Dir()
		}
		require.Equal(t, first, w.Dir())
		files, err := filepath.Glob(filepath.Join(w.Dir(), "run-*.wandb"))
		require.NoError(t, err)
		require.Len(t, files, 1)
		raw, err := os.ReadFile(files[0])
		require.NoError(t, err)
		require.Equal(t, 4, bytes.Count(raw, []byte("\x12\x05_step")), "two rows, each as history and as summary")
		require.Equal(t, 2, bytes.Count(raw, []byte("imitate/loss")))
		sizes = append(sizes, len(raw))
	}
	require.InDelta(t, sizes[0], sizes[1], 64, "the same, but for times")
}
