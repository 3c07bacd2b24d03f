package plugin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
)

// serving is a source that has the library, and counts how often it is asked.
func serving(data []byte, asked *atomic.Int32) source {
	return source{"a test", func(_ context.Context, s *setup, stage string) (fetched, error) {
		asked.Add(1)
		name := fileName(s.kind, s.goos)
		out := filepath.Join(stage, outDir)
		if err := writeSynced(filepath.Join(out, licenseDir, "test-1", "LICENSE"),
			strings.NewReader("all free")); err != nil {
			return fetched{}, err
		}
		return fetched{plugin: name, source: "a test, 1"}, os.WriteFile(filepath.Join(out, name), data, 0o600)
	}}
}

func failing(err error) source {
	return source{"nowhere", func(context.Context, *setup, string) (fetched, error) { return fetched{}, err }}
}

func TestEnsureInstallsOnceAndThenWorksOffline(t *testing.T) {
	user := sandbox(t)
	data := good("version 1")
	var asked atomic.Int32
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	p, err := newTest(log, serving(data, &asked)).ensure(t.Context())
	require.NoError(t, err)
	want := Plugin{Path: filepath.Join(user, "pjrt_c_api_cpu_plugin.so"), Size: int64(len(data)), SHA256: digest(data),
		Source: "a test, 1"}
	require.Equal(t, want, p)
	require.Equal(t, []string{"licenses", "pjrt_c_api_cpu_plugin.so", "pjrt_c_api_cpu_plugin.so.sha256"}, names(t, user))
	require.FileExists(t, filepath.Join(user, "licenses", "test-1", "LICENSE"))
	info, err := os.Stat(p.Path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o755), info.Mode().Perm())
	require.Contains(t, out.String(), fmt.Sprintf(`"XLA plugin installed" file=%s sha256=%s source="a test, 1"`, p.Path,
		p.SHA256))

	before := out.Len()
	p, err = newTest(log, failing(errors.New("no network"))).ensure(t.Context())
	require.NoError(t, err)
	require.Equal(t, want, p)
	require.Equal(t, before, out.Len(), "nothing to tell when the plugin is there")
}

func TestSourcesAreTriedInOrder(t *testing.T) {
	sandbox(t)
	var asked, never atomic.Int32
	p, err := newTest(nil, failing(errors.New("host unreachable")), serving(good("x")[:200], &asked),
		serving(good("third"), &asked), serving(good("fourth"), &never)).ensure(t.Context())
	require.NoError(t, err)
	require.Equal(t, digest(good("third")), p.SHA256, "the second one is cut off")
	require.EqualValues(t, 2, asked.Load())
	require.Zero(t, never.Load())
}

func TestNothingIsLeftWhenAllSourcesFail(t *testing.T) {
	user := sandbox(t)
	var asked atomic.Int32
	write(t, filepath.Join(user, stagePrefix+"123", "half of a download"), []byte("x")) // of a killed process
	_, err := newTest(nil, failing(errors.New("host unreachable")), serving(good("x")[:200], &asked)).ensure(t.Context())
	require.ErrorIs(t, err, ErrMissing)
	require.NotErrorIs(t, err, ErrCorrupt, "a bad download is not a damaged plugin of the user")
	require.ErrorContains(t, err, "host unreachable")
	require.ErrorContains(t, err, "not a complete shared library")
	require.Empty(t, names(t, user))
}

func TestDamagedPluginIsNeitherLoadedNorReplaced(t *testing.T) {
	user := sandbox(t)
	var asked atomic.Int32
	path := write(t, filepath.Join(user, "pjrt_c_api_cpu_plugin.so"), good("x")[:150])
	_, err := newTest(nil, serving(good("new"), &asked)).ensure(t.Context())
	testkit.Error(t, err, ErrCorrupt, path)
	require.Zero(t, asked.Load())

	require.NoError(t, os.Remove(path)) // as the error says
	p, err := newTest(nil, serving(good("new"), &asked)).ensure(t.Context())
	require.NoError(t, err)
	require.Equal(t, digest(good("new")), p.SHA256)
}

func TestStaleSidecarDoesNotOutliveItsPlugin(t *testing.T) {
	user := sandbox(t)
	write(t, filepath.Join(user, "pjrt_c_api_cpu_plugin.so"+recordSuffix),
		[]byte(Plugin{Size: 1, SHA256: digest(nil)}.record("old")))
	var asked atomic.Int32
	s := newTest(nil, serving(good("new"), &asked))
	_, err := s.ensure(t.Context())
	require.NoError(t, err)
	p, err := s.find(t.Context())
	require.NoError(t, err)
	require.Equal(t, digest(good("new")), p.SHA256)
}

func TestEnvironmentForbidsInstalling(t *testing.T) {
	for _, c := range []struct {
		name, value string
		forbids     bool
	}{
		{NoInstall, "1", true}, {NoInstall, "yes", true}, {NoInstall, "0", false}, {NoInstall, "False", false},
		{noAutoInstall, "1", true}, {noAutoInstall, "", true}, // GoMLX asks only whether it is set
	} {
		t.Run(c.name+"="+c.value, func(t *testing.T) {
			user := sandbox(t)
			t.Setenv(c.name, c.value)
			var asked atomic.Int32
			_, err := newTest(nil, serving(good("x"), &asked)).ensure(t.Context())
			if !c.forbids {
				require.NoError(t, err)
				return
			}
			testkit.Error(t, err, ErrMissing, "$"+c.name)
			require.Zero(t, asked.Load())
			require.NoDirExists(t, user)
		})
	}
}

func TestPlatformWithoutSourcesSaysSo(t *testing.T) {
	sandbox(t)
	for _, kind := range []Kind{CPU, CUDA} {
		list, _ := sources(kind, "freebsd", "riscv64")
		require.Empty(t, list)
	}
	_, err := newTest(nil).ensure(t.Context())
	testkit.Error(t, err, ErrMissing, "linux/amd64")
}

func TestCancellingStopsAndLeavesNothing(t *testing.T) {
	user := sandbox(t)
	ctx, cancel := context.WithCancel(t.Context())
	hang := source{"slow", func(ctx context.Context, _ *setup, stage string) (fetched, error) {
		if err := os.WriteFile(filepath.Join(stage, "half"), nil, 0o600); err != nil {
			return fetched{}, err
		}
		cancel()
		<-ctx.Done()
		return fetched{}, context.Cause(ctx)
	}}
	var never atomic.Int32
	_, err := newTest(nil, hang, serving(good("x"), &never)).ensure(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, ErrMissing, "being cancelled says nothing about the plugin")
	require.Zero(t, never.Load())
	require.Empty(t, names(t, user))
}

func TestInstallingHasALimit(t *testing.T) {
	user := sandbox(t)
	s := newTest(nil, source{"slow", func(ctx context.Context, _ *setup, _ string) (fetched, error) {
		<-ctx.Done()
		return fetched{}, context.Cause(ctx)
	}})
	s.timeout = time.Millisecond
	_, err := s.ensure(t.Context())
	testkit.Error(t, err, ErrMissing, "gave up after 1ms")
	require.Empty(t, names(t, user))
}

func TestInstallersAtTheSameTimeFetchOnce(t *testing.T) {
	// A lock of one open file keeps out another, in this process as in another.
	sandbox(t)
	var asked atomic.Int32
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() {
			p, err := newTest(nil, serving(good("x"), &asked)).ensure(t.Context())
			if err == nil && p.SHA256 != digest(good("x")) {
				err = fmt.Errorf("got %+v", p)
			}
			errs[i] = err
		})
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	require.EqualValues(t, 1, asked.Load())
}

func TestHomeThatCannotBeWrittenIsAReason(t *testing.T) {
	sandbox(t)
	home := os.Getenv("HOME")
	write(t, filepath.Join(home, ".local"), []byte("a file where a folder should be"))
	var never atomic.Int32
	_, err := newTest(nil, serving(good("x"), &never)).ensure(t.Context())
	testkit.Error(t, err, ErrMissing, filepath.Join(home, ".local"))
	require.Zero(t, never.Load())
}
