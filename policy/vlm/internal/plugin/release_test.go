package plugin

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
)

// tarball packs files in the order given: name, content, name, content.
func tarball(t *testing.T, pairs ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	gz := gzip.NewWriter(&b)
	w := tar.NewWriter(gz)
	for i := 0; i < len(pairs); i += 2 {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: pairs[i], Mode: 0o644, Size: int64(len(pairs[i+1]))}))
		_, err := w.Write([]byte(pairs[i+1]))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	require.NoError(t, gz.Close())
	return b.Bytes()
}

// releaseAt is go-xla's release at another address.
func releaseAt(folder string) release {
	r := goXLA
	r.folder = folder
	return r
}

func TestReleaseOfGoXLAIsInstalled(t *testing.T) {
	user := sandbox(t)
	body := tarball(t, "README", "hello", "LICENSE", "free", "pjrt_c_api_cpu_"+ReleaseVersion+"_plugin.so",
		string(good("go-xla")))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/"+ReleaseVersion+"/pjrt_cpu_linux_amd64.tar.gz" {
			_, _ = w.Write(body)
		}
	}))
	defer server.Close()
	p, err := newTest(nil, source{"release", releaseAt(server.URL + "/" + ReleaseVersion).fetch}).ensure(t.Context())
	require.NoError(t, err)
	require.Equal(t, digest(good("go-xla")), p.SHA256)
	require.Contains(t, p.Source, ReleaseVersion+" pjrt_cpu_linux_amd64.tar.gz")
	require.FileExists(t, filepath.Join(user, "licenses", "go-xla-"+ReleaseVersion, "LICENSE"))
	require.Len(t, names(t, user), 3)
}

func TestSlowDownloadIsNotTakenForAStall(t *testing.T) {
	sandbox(t)
	body := tarball(t, "pjrt_c_api_cpu_plugin.so", string(good("slow")))
	r := goXLA
	r.stallTimeout = 3 * time.Second
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for piece := range slices.Chunk(body, len(body)/24) { // takes longer than a stall, each piece much less
			time.Sleep(r.stallTimeout / 20)
			_, _ = w.Write(piece)
			w.(http.Flusher).Flush()
		}
	}))
	defer server.Close()
	r.folder = server.URL
	p, err := newTest(nil, source{"release", r.fetch}).ensure(t.Context())
	require.NoError(t, err)
	require.Equal(t, digest(good("slow")), p.SHA256)
}

func TestBadDownloadsAreRefused(t *testing.T) {
	whole := tarball(t, "pjrt_c_api_cpu_plugin.so", string(good("go-xla")))
	var gone atomic.Int32
	for name, c := range map[string]struct {
		serve http.HandlerFunc
		says  string
	}{
		"not there": {http.NotFound, "404"},
		"cut off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100000")
			_, _ = w.Write(whole)
		}, "EOF"},
		"without a plugin": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(tarball(t, "README", "hello"))
		}, "contains no plugin"},
		"not an archive": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(good("x")) }, "unpacking"},
		"standing still": {func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write(whole[:10])
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			gone.Add(1)
		}, "no progress"},
	} {
		t.Run(name, func(t *testing.T) {
			user := sandbox(t)
			server := httptest.NewServer(c.serve)
			defer server.Close() // waits for the handler
			r := releaseAt(server.URL)
			if c.says == "no progress" {
				r.stallTimeout = 200 * time.Millisecond
			}
			_, err := newTest(nil, source{"release", r.fetch}).ensure(t.Context())
			testkit.Error(t, err, ErrMissing, c.says)
			require.Empty(t, names(t, user))
		})
	}
	require.EqualValues(t, 1, gone.Load(), "the connection that stood still was given up")
}

func TestSilentNetworkIsGivenUp(t *testing.T) {
	sandbox(t)
	silent := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	server := httptest.NewServer(http.HandlerFunc(silent))
	defer server.Close()
	r := releaseAt(server.URL)
	r.answerTimeout = time.Millisecond
	_, err := newTest(nil, source{"release", r.fetch}).ensure(t.Context())
	testkit.Error(t, err, ErrMissing, "no answer within 1ms")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = newTest(nil, source{"release", r.fetch}).ensure(ctx)
	require.ErrorIs(t, err, context.Canceled)
}
