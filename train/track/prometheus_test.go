package track_test

import (
	"io"
	"math"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/train/track"
)

func TestPrometheusShowsTheNewestValues(t *testing.T) {
	var p track.Prometheus
	server := httptest.NewServer(&p)
	defer server.Close()
	read := func() string {
		r, err := server.Client().Get(server.URL)
		require.NoError(t, err)
		defer r.Body.Close()
		require.Equal(t, "text/plain; version=0.0.4; charset=utf-8", r.Header.Get("Content-Type"))
		raw, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		return string(raw)
	}
	require.NotContains(t, read(), "vagen_step{", "nothing has happened yet")
	require.NoError(t, p.Event(track.Event{Kind: "step", Step: 1, Total: 9, Metrics: track.Metrics{"a/b": 1, "old": 7}}))
	require.NoError(t, p.Event(track.Event{Kind: "step", Step: 2, Total: 9,
		Metrics: track.Metrics{"a/b": math.NaN(), `"`: 0.5}}))
	require.NoError(t, p.Event(track.Event{Kind: "validate", Step: 2, Total: 9}))
	require.Equal(t, `# HELP vagen_step Steps done, by kind of event.
# TYPE vagen_step gauge
vagen_step{kind="step"} 2
vagen_step{kind="validate"} 2
# HELP vagen_steps_total Total steps, by kind of event.
# TYPE vagen_steps_total gauge
vagen_steps_total{kind="step"} 9
vagen_steps_total{kind="validate"} 9
# HELP vagen_metric The newest value of each metric of the run.
# TYPE vagen_metric gauge
vagen_metric{name="\""} 0.5
vagen_metric{name="a/b"} NaN
vagen_metric{name="old"} 7
`, read())
	require.NoError(t, p.Close())
}

func TestPrometheusIsReadWhileARunGoesOn(t *testing.T) {
	var p track.Prometheus
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 50 {
				require.NoError(t, p.Event(track.Event{Kind: "step", Step: i, Metrics: track.Metrics{"a": float64(i)}}))
				p.ServeHTTP(httptest.NewRecorder(), nil)
			}
		})
	}
	wg.Wait()
}
