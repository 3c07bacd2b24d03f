package hub

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const commit = "0123456789abcdef0123456789abcdef01234567"

// fake is a hub with one model. Weights are stored with SHA-256, all else with
// git's object id.
type fake struct {
	*httptest.Server
	files map[string]string

	mu     sync.Mutex
	asked  []string // path and range
	auth   []string
	cut    int  // bytes after which an answer breaks off; 0 is never
	noPart bool // ranges are ignored
	lie    bool // contents differ from what is listed
	down   int  // answers to come that are 503
}

func serve(t *testing.T) *fake {
	t.Helper()
	h := &fake{files: map[string]string{
		"config.json": `{"a": 1}`, "model.safetensors": strings.Repeat("weights!", 10_000), "tokenizer.json": "{}", "chat_template.jinja": "x",
		"pytorch_model.bin": "old", "README.md": "read", "onnx/model.safetensors": "other", ".gitattributes.txt": "no",
	}}
	h.Server = httptest.NewServer(h)
	t.Cleanup(h.Close)
	return h
}

func (h *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = append(h.asked, r.URL.Path+" "+r.Header.Get("Range"))
	h.auth = append(h.auth, r.Header.Get("Authorization"))
	if h.down > 0 {
		h.down--
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if r.URL.Path == "/api/models/who/what/revision/main" {
		h.list(w)
		return
	}
	name, ok := strings.CutPrefix(r.URL.Path, "/who/what/resolve/"+commit+"/")
	body, there := h.files[name]
	if !ok || !there {
		http.NotFound(w, r)
		return
	}
	if h.lie {
		body = strings.Repeat("?", len(body))
	}
	if h.noPart {
		r.Header.Del("Range")
	}
	if h.cut > 0 && len(body) > h.cut {
		w = &cutting{w, h.cut}
	}
	http.ServeContent(w, r, name, time.Time{}, strings.NewReader(body))
}

// cutting breaks the connection after some bytes of the body.
type cutting struct {
	http.ResponseWriter
	left int
}

func (c *cutting) Write(p []byte) (int, error) {
	if len(p) <= c.left {
		c.left -= len(p)
		return c.ResponseWriter.Write(p)
	}
	_, _ = c.ResponseWriter.Write(p[:c.left])
	c.ResponseWriter.(http.Flusher).Flush()
	panic(http.ErrAbortHandler)
}

func (h *fake) list(w http.ResponseWriter) {
	var files []map[string]any
	for name, body := range h.files {
		git := sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(body), body))
		f := map[string]any{"rfilename": name, "size": len(body), "blobId": hex.EncodeToString(git[:])}
		if strings.HasSuffix(name, ".safetensors") {
			sum := sha256.Sum256([]byte(body))
			f["lfs"] = map[string]any{"sha256": hex.EncodeToString(sum[:]), "size": len(body)}
		}
		files = append(files, f)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"sha": commit, "siblings": files})
}

func (h *fake) options(t *testing.T) Options {
	return Options{Endpoint: h.URL + "/", Cache: t.TempDir(), Token: "secret", Pause: time.Millisecond}
}

func (h *fake) requireWhole(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 4, "config, weights, tokenizer, template")
	for _, e := range entries {
		raw, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		require.Equal(t, h.files[e.Name()], string(raw))
	}
}

// fetch fetches the whole model.
func (h *fake) fetch(t *testing.T, o Options) string {
	t.Helper()
	dir, err := Fetch(t.Context(), "who/what", o)
	require.NoError(t, err)
	h.requireWhole(t, dir)
	return dir
}

// set changes what the hub does next: a request that was given up may still be running.
func (h *fake) set(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
}

func (h *fake) requests() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := h.asked
	h.asked = nil
	return out
}

func TestFetchDownloadsOnlyNeededFilesOnce(t *testing.T) {
	h := serve(t)
	o := h.options(t)
	dir := h.fetch(t, o)
	require.Len(t, h.requests(), 5)
	for _, a := range h.auth {
		require.Equal(t, "Bearer secret", a)
	}
	require.Equal(t, dir, h.fetch(t, o))
	require.Len(t, h.requests(), 1, "the list alone")
	require.NoError(t, os.Remove(filepath.Join(dir, "tokenizer.json")))
	h.fetch(t, o)
	require.Len(t, h.requests(), 2)
}

func TestInterruptedDownloadsResume(t *testing.T) {
	for name, set := range map[string]func(*fake){"": func(*fake) {}, "ranges are ignored": func(h *fake) { h.noPart = true }} {
		h := serve(t)
		set(h)
		o := h.options(t)
		h.set(func() { h.cut = 30_000 })
		dir, err := Fetch(t.Context(), "who/what", o)
		if h.noPart {
			require.Error(t, err, name)
			h.set(func() { h.cut = 0 })
			h.fetch(t, o)
			continue
		}
		require.NoError(t, err, "30,000 of 80,000 bytes at a time")
		h.requireWhole(t, dir)
		var ranges []string
		for _, r := range h.requests() {
			if path, part, _ := strings.Cut(r, " "); strings.HasSuffix(path, ".safetensors") {
				ranges = append(ranges, part)
			}
		}
		require.Equal(t, []string{"", "bytes=30000-", "bytes=60000-"}, ranges)
	}
}

func TestLaterCallsResumeDownloads(t *testing.T) {
	h := serve(t)
	o := h.options(t)
	o.Attempts = 1
	h.set(func() { h.cut = 30_000 })
	var dir string
	var err error
	for range 3 {
		dir, err = Fetch(t.Context(), "who/what", o)
	}
	require.NoError(t, err)
	h.requireWhole(t, dir)
}

func TestFilesWithAWrongChecksumAreNotKept(t *testing.T) {
	h := serve(t)
	o := h.options(t)
	h.set(func() { h.lie = true })
	_, err := Fetch(t.Context(), "who/what", o)
	require.ErrorIs(t, err, ErrChecksum)
	left, err := filepath.Glob(filepath.Join(o.Cache, "*", commit, "*"))
	require.NoError(t, err)
	require.Empty(t, left)
	h.set(func() { h.lie = false })
	dir := h.fetch(t, o)
	// A partial file of something else is found out, and the next call begins anew.
	weights := filepath.Join(dir, "model.safetensors")
	require.NoError(t, os.Remove(weights))
	require.NoError(t, os.WriteFile(weights+".part", []byte("something else"), 0o644))
	_, err = Fetch(t.Context(), "who/what", o)
	require.ErrorIs(t, err, ErrChecksum)
	h.fetch(t, o)
}

func TestWithoutNetworkTheLastVersionIsUsed(t *testing.T) {
	h := serve(t)
	o := h.options(t)
	want := h.fetch(t, o)
	h.set(func() { h.down = 1 })
	h.fetch(t, o)
	h.Close()
	require.Equal(t, want, h.fetch(t, o))
	o.Revision = "other"
	_, err := Fetch(t.Context(), "who/what", o)
	require.Error(t, err, "which was never fetched")
}

func TestFetchSaysWhatIsWrong(t *testing.T) {
	h := serve(t)
	o := h.options(t)
	for _, id := range []string{"", "what", "/abs/path", "a/b/c", "../up", "a/..", "a/b?c", "who/what\n"} {
		require.False(t, IsID(id), id)
		_, err := Fetch(t.Context(), id, o)
		require.ErrorIs(t, err, ErrID)
	}
	_, err := Fetch(t.Context(), "who/else", o)
	require.ErrorIs(t, err, ErrNotFound)
	require.NotContains(t, err.Error(), "secret")
	bad := o
	bad.Revision = "../x"
	_, err = Fetch(t.Context(), "who/what", bad)
	require.ErrorContains(t, err, "revision")
	bad = o
	bad.Endpoint = "hub.local"
	_, err = Fetch(t.Context(), "who/what", bad)
	require.ErrorContains(t, err, `HF_ENDPOINT) is "hub.local", must be an address`)
	delete(h.files, "config.json")
	_, err = Fetch(t.Context(), "who/what", o)
	require.ErrorContains(t, err, "no config.json")
	ctx, stop := context.WithCancel(t.Context())
	stop()
	_, err = Fetch(ctx, "who/what", o)
	require.ErrorIs(t, err, context.Canceled)
	require.True(t, IsID("Qwen/Qwen2.5-VL-3B-Instruct"))
}

// The hub refers to other hosts for large files; they must not see the token.
func TestOtherHostsDoNotSeeTheToken(t *testing.T) {
	h := serve(t)
	seen := make(chan string, 1)
	store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Get("Authorization")
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(h.files["model.safetensors"]))
	}))
	t.Cleanup(store.Close)
	elsewhere := strings.Replace(store.URL, "127.0.0.1", "localhost", 1)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ".safetensors") {
			http.Redirect(w, r, elsewhere, http.StatusFound)
			return
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	o := h.options(t)
	o.Endpoint = front.URL
	h.fetch(t, o)
	require.Empty(t, <-seen)
}

// An answer that stops coming is given up, and asked for again from there on.
func TestStalledDownloadsAreRetried(t *testing.T) {
	h := serve(t)
	gone := make(chan struct{})
	defer close(gone)
	var hung atomic.Bool
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/model.safetensors") || hung.Swap(true) {
			h.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Length", "80000")
		_, _ = w.Write([]byte("weights!"))
		w.(http.Flusher).Flush()
		select {
		case <-gone:
		case <-r.Context().Done():
		}
	}))
	defer s.Close()
	o := h.options(t)
	o.Endpoint, o.Stall = s.URL, 500*time.Millisecond // the first bytes must come in that time
	h.fetch(t, o)
	require.Contains(t, h.requests(), "/who/what/resolve/"+commit+"/model.safetensors bytes=8-")
}

// Branches may have slashes in their names, which separate nothing in an address.
func TestRevisionsWithSlashesAreOnePartOfTheAddress(t *testing.T) {
	var asked string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.EscapedPath()
		http.NotFound(w, r)
	}))
	defer s.Close()
	_, err := Fetch(t.Context(), "who/what", Options{Endpoint: s.URL, Cache: t.TempDir(), Revision: "refs/pr/1"})
	require.ErrorIs(t, err, ErrNotFound)
	require.Equal(t, "/api/models/who/what/revision/refs%2Fpr%2F1", asked)
}
