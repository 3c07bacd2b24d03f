package backend

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/policy/vlm/internal/device"
)

// logTo returns a logger that writes lines of text.
func logTo(out *strings.Builder) *slog.Logger { return slog.New(slog.NewTextHandler(out, nil)) }

// withoutPlugin hides every plugin and forbids installing one. It returns the
// only folder that is searched besides the user's.
func withoutPlugin(t *testing.T) (dir string) {
	dir = t.TempDir()
	t.Setenv("HOME", t.TempDir())
	t.Setenv("PJRT_PLUGIN_LIBRARY_PATH", dir)
	t.Setenv("VAGEN_NO_PLUGIN_INSTALL", "1")
	return dir
}

// requireRuns runs a small program: 3x + 1.
func requireRuns(t *testing.T, d *device.Device) {
	t.Helper()
	p := d.Program("line", func(in []*graph.Node) []*graph.Node {
		return []*graph.Node{graph.AddScalar(graph.MulScalar(in[0], 3), 1)}
	})
	x, err := device.Put(d, []float32{1, 2, -1})
	require.NoError(t, err)
	y, err := p.Run([]*device.Array{x})
	require.NoError(t, err)
	got, err := device.ReadNew[float32](y[0])
	require.NoError(t, err)
	require.Equal(t, []float32{4, 7, -2}, got) // exact in float32
	device.FreeAll(x, y[0])
}

func TestUnknownBackendListsTheChoices(t *testing.T) {
	_, err := OpenDevice(t.Context(), "tpu", nil)
	require.ErrorIs(t, err, ErrUnknown)
	for _, word := range []string{`"tpu"`, "auto", "xla", "cuda", "go"} {
		require.ErrorContains(t, err, word)
	}
}

func TestAutoFallsBackToGoAndSaysWhyInOneLine(t *testing.T) {
	withoutPlugin(t)
	for _, choice := range []string{"", "auto"} {
		var log strings.Builder
		d, err := newEngines(openers).device(t.Context(), choice, logTo(&log))
		require.NoError(t, err)
		require.Equal(t, "go", d.Name())
		require.True(t, d.PureGo())
		requireRuns(t, d)
		require.Regexp(t, `^.* level=INFO msg="backend chosen" backend=go .*why=.*xla:cpu.*\n$`, log.String())
		require.Contains(t, log.String(), "slower than XLA: ")
	}
}

func TestAutoRunsWithWhatIsThere(t *testing.T) {
	t.Setenv("VAGEN_NO_PLUGIN_INSTALL", "1")
	var log strings.Builder
	d, err := OpenDevice(t.Context(), "auto", logTo(&log))
	require.NoError(t, err)
	defer d.Close()
	require.Contains(t, []string{"xla:cpu", "go"}, d.Name())
	require.Equal(t, d.Name() == "go", d.PureGo())
	require.Equal(t, 1, strings.Count(log.String(), "\n"))
	require.Contains(t, log.String(), "backend="+d.Name())
	requireRuns(t, d)
}

func TestNamedBackendDoesNotFallBack(t *testing.T) {
	withoutPlugin(t)
	for _, choice := range []string{"xla", "cuda"} {
		var log strings.Builder
		_, err := newEngines(openers).device(t.Context(), choice, logTo(&log))
		testkit.Error(t, err, ErrUnavailable, choice)
		require.Empty(t, log.String())
	}
}

func TestAutoStaysWithItsChoice(t *testing.T) {
	var opened, asked atomic.Int32
	e := newEngines(map[string]opener{
		XLA: func(ctx context.Context, log *slog.Logger) (*engine, error) {
			if asked.Add(1) > 1 {
				return openGo(ctx, log) // already installed
			}
			return nil, fmt.Errorf("%w: no plugin", ErrUnavailable)
		},
		Go: fakeGo("go", &opened),
	})
	var log strings.Builder
	for range 3 {
		d, err := e.device(t.Context(), "auto", logTo(&log))
		require.NoError(t, err)
		require.Equal(t, "go", d.Name())
	}
	require.EqualValues(t, 1, asked.Load())
	require.EqualValues(t, 1, opened.Load())
	require.Equal(t, 3, strings.Count(log.String(), "backend=go"))
}

// fakeGo opens the pure-Go backend under another name and counts that.
func fakeGo(name string, opened *atomic.Int32) opener {
	return func(ctx context.Context, log *slog.Logger) (*engine, error) {
		opened.Add(1)
		e, err := openGo(ctx, log)
		if err == nil {
			e.name = name
		}
		return e, err
	}
}

func TestAutoPrefersXLA(t *testing.T) {
	var x, g atomic.Int32
	var log strings.Builder
	d, err := newEngines(map[string]opener{XLA: fakeGo("xla:cpu", &x), Go: fakeGo("go", &g)}).device(t.Context(), "auto",
		logTo(&log))
	require.NoError(t, err)
	require.Equal(t, "xla:cpu", d.Name())
	require.Zero(t, g.Load())
	require.Equal(t, 1, strings.Count(log.String(), "backend=xla:cpu"))
}

func TestDevicesShareOneBackendAndClosingOneLeavesIt(t *testing.T) {
	var opened atomic.Int32
	e := newEngines(map[string]opener{XLA: fakeGo("xla:cpu", &opened)})
	var wg sync.WaitGroup
	devices := make([]*device.Device, 8)
	errs := make([]error, len(devices))
	for i := range devices {
		wg.Go(func() { devices[i], errs[i] = e.device(t.Context(), []string{"xla", "auto", ""}[i%3], nil) })
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	require.EqualValues(t, 1, opened.Load())
	for i, d := range devices {
		wg.Go(func() {
			if i%2 == 1 {
				d.Close()
				return
			}
			requireRuns(t, d)
		})
	}
	wg.Wait()
	requireRuns(t, devices[0])
}

func TestFailedOpeningIsTriedAgain(t *testing.T) {
	var opened atomic.Int32
	e := newEngines(map[string]opener{XLA: func(ctx context.Context, log *slog.Logger) (*engine, error) {
		if opened.Load() == 0 {
			opened.Add(1)
			return nil, errors.New("disk full")
		}
		return openGo(ctx, log)
	}})
	_, err := e.device(t.Context(), "auto", nil)
	require.ErrorContains(t, err, "disk full", "not a reason to run slowly")
	_, err = e.device(t.Context(), "xla", nil)
	require.NoError(t, err)
}

func TestWaitingForABackendEndsWithTheContext(t *testing.T) {
	begun, finish := make(chan struct{}), make(chan struct{})
	e := newEngines(map[string]opener{XLA: func(ctx context.Context, log *slog.Logger) (*engine, error) {
		close(begun)
		<-finish
		return openGo(ctx, log)
	}})
	var first error
	var wg sync.WaitGroup
	wg.Go(func() { _, first = e.device(t.Context(), "xla", nil) })
	<-begun
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := e.device(ctx, "auto", nil)
	require.ErrorIs(t, err, context.Canceled)
	close(finish)
	wg.Wait()
	require.NoError(t, first)
}
