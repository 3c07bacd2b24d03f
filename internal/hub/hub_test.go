package hub

import (
	"bufio"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"vagen/internal/transport"
)

// fake is a hub with storage. Files of more than 100 bytes must be sent to storage, those of
// more than 1000 in parts of 600.
type fake struct {
	t       *testing.T
	server  *httptest.Server // the endpoint
	storage *httptest.Server

	mu      sync.Mutex // protects the fields below
	created []map[string]any
	stored  map[string][]byte // by object
	parts   map[string][][]byte
	checked []string // objects that were verified
	tree    map[string]string
	commits []string
	fail    map[string]int // status by path
}

func newFake(t *testing.T) *fake {
	f := &fake{t: t, stored: map[string][]byte{}, parts: map[string][][]byte{}, tree: map[string]string{},
		fail: map[string]int{}}
	api := http.NewServeMux()
	api.HandleFunc("POST /api/repos/create", f.create)
	api.HandleFunc("GET /api/whoami-v2", func(w http.ResponseWriter, _ *http.Request) {
		_, err := io.WriteString(w, `{"type": "user", "name": "o"}`)
		require.NoError(t, err)
	})
	api.HandleFunc("POST /api/models/o/n/preupload/main", f.preupload)
	api.HandleFunc("POST /o/n.git/info/lfs/objects/batch", f.batch)
	api.HandleFunc("POST /verify", f.verify)
	api.HandleFunc("POST /api/models/o/n/commit/main", f.commit)
	f.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if r.Header.Get("Authorization") != "Bearer secret" {
			http.Error(w, "who are you", http.StatusUnauthorized)
			return
		}
		if code := f.fail[r.URL.Path]; code != 0 {
			http.Error(w, "not today", code)
			return
		}
		api.ServeHTTP(w, r)
	}))
	t.Cleanup(f.server.Close)
	f.storage = httptest.NewServer(http.HandlerFunc(f.store))
	t.Cleanup(f.storage.Close)
	return f
}

func (f *fake) client() *Client {
	f.t.Setenv("HF_TOKEN", "secret\n")
	f.t.Setenv("HF_ENDPOINT", f.server.URL+"/")
	c, err := FromEnvironment()
	require.NoError(f.t, err)
	return c
}

func read[T any](f *fake, r *http.Request) (v T) {
	assert.NoError(f.t, json.NewDecoder(r.Body).Decode(&v))
	return v
}

func (f *fake) create(w http.ResponseWriter, r *http.Request) {
	f.created = append(f.created, read[map[string]any](f, r))
	if len(f.created) > 1 {
		http.Error(w, "it is there", http.StatusConflict)
	}
}

func (f *fake) preupload(w http.ResponseWriter, r *http.Request) {
	var out []map[string]any
	for _, e := range read[struct {
		Files []struct {
			Path, Sample string
			Size         int64
		}
	}](f, r).Files {
		sample, err := base64.StdEncoding.DecodeString(e.Sample)
		assert.NoError(f.t, err)
		assert.Len(f.t, sample, int(min(e.Size, 512)))
		mode := "regular"
		if e.Size > 100 {
			mode = "lfs"
		}
		out = append(out, map[string]any{"path": e.Path, "uploadMode": mode,
			"shouldIgnore": strings.HasSuffix(e.Path, ".tmp")})
	}
	json.NewEncoder(w).Encode(map[string]any{"files": out})
}

type object struct {
	OID  string `json:"oid"`
	Size int64  `json:"size"`
}

func (f *fake) batch(w http.ResponseWriter, r *http.Request) {
	assert.Equal(f.t, lfsKind, r.Header.Get("Accept"))
	ask := read[struct {
		Operation string   `json:"operation"`
		Hash      string   `json:"hash_algo"`
		Objects   []object `json:"objects"`
	}](f, r)
	assert.Equal(f.t, []string{"upload", "sha256"}, []string{ask.Operation, ask.Hash})
	var out []map[string]any
	for _, o := range ask.Objects {
		answer := map[string]any{"oid": o.OID, "size": o.Size}
		if _, there := f.stored[o.OID]; !there {
			up := map[string]any{"href": f.storage.URL + "/whole/" + o.OID + "?signature=xyz"}
			if o.Size > 1000 {
				header := map[string]string{"chunk_size": "600"}
				for n := int64(1); (n-1)*600 < o.Size; n++ {
					header[fmt.Sprintf("%05d", n)] = fmt.Sprintf("%s/part/%s?n=%d", f.storage.URL, o.OID, n)
				}
				up = map[string]any{"href": f.storage.URL + "/complete/" + o.OID, "header": header}
			}
			answer["actions"] = map[string]any{"upload": up, "verify": map[string]any{"href": f.server.URL + "/verify"}}
		}
		out = append(out, answer)
	}
	json.NewEncoder(w).Encode(map[string]any{"objects": out})
}

func (f *fake) store(w http.ResponseWriter, r *http.Request) {
	assert.Empty(f.t, r.Header.Get("Authorization"), "storage must not see the token")
	_, kind, _ := strings.Cut(r.URL.Path, "/")
	kind, oid, _ := strings.Cut(kind, "/")
	raw, err := io.ReadAll(r.Body)
	assert.NoError(f.t, err)
	f.mu.Lock()
	defer f.mu.Unlock()
	if code := f.fail[kind]; code != 0 {
		http.Error(w, "disk full", code)
		return
	}
	switch kind {
	case "whole":
		f.stored[oid] = raw
	case "part":
		f.parts[oid] = append(f.parts[oid], raw)
		w.Header().Set("ETag", fmt.Sprintf(`"%d"`, len(f.parts[oid])))
	case "complete":
		var ask struct {
			OID   string `json:"oid"`
			Parts []struct {
				PartNumber int    `json:"partNumber"`
				ETag       string `json:"etag"`
			} `json:"parts"`
		}
		assert.NoError(f.t, json.Unmarshal(raw, &ask))
		for i, p := range ask.Parts {
			assert.Equal(f.t, []any{i + 1, fmt.Sprintf(`"%d"`, i+1)}, []any{p.PartNumber, p.ETag})
			f.stored[ask.OID] = append(f.stored[ask.OID], f.parts[ask.OID][i]...)
		}
	}
}

func (f *fake) verify(_ http.ResponseWriter, r *http.Request) {
	o := read[object](f, r)
	assert.Len(f.t, f.stored[o.OID], int(o.Size))
	f.checked = append(f.checked, o.OID)
}

func (f *fake) commit(w http.ResponseWriter, r *http.Request) {
	assert.Equal(f.t, "application/x-ndjson", r.Header.Get("Content-Type"))
	for in := bufio.NewScanner(r.Body); in.Scan(); {
		var line struct {
			Key   string
			Value struct {
				Path, Content, Encoding, OID, Algo, Summary string
				Size                                        int
			}
		}
		assert.NoError(f.t, json.Unmarshal(in.Bytes(), &line))
		switch v := line.Value; line.Key {
		case "header":
			f.commits = append(f.commits, v.Summary)
		case "file":
			raw, err := base64.StdEncoding.DecodeString(v.Content)
			assert.NoError(f.t, err)
			f.tree[v.Path] = string(raw)
		case "lfsFile":
			assert.Len(f.t, f.stored[v.OID], v.Size)
			f.tree[v.Path] = string(f.stored[v.OID])
		}
	}
	json.NewEncoder(w).Encode(map[string]string{"commitUrl": f.server.URL + "/o/n/commit/1"})
}

// folder creates files for every kind of upload, two of them equal.
func folder(t *testing.T) (string, map[string]string) {
	dir := t.TempDir()
	want := map[string]string{
		"config.json": "{}", "empty": "", "model.safetensors": strings.Repeat("0123456789", 170),
		"sub/vocab.json": strings.Repeat("v", 300), "sub/copy.json": strings.Repeat("v", 300),
	}
	for name, text := range want {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "x.tmp"), []byte("left out"), 0o644))
	return dir, want
}

func TestAFolderBecomesACommit(t *testing.T) {
	f := newFake(t)
	c := f.client()
	dir, want := folder(t)
	require.NoError(t, c.Create(t.Context(), "o/n", true))
	require.NoError(t, c.Create(t.Context(), "o/n", true), "an existing repository is no error")
	require.Equal(t, map[string]any{"type": "model", "name": "n", "organization": "o", "private": true}, f.created[0])
	place, err := c.Upload(t.Context(), "o/n", dir, "", "step 4")
	require.NoError(t, err)
	require.Equal(t, f.server.URL+"/o/n/commit/1", place)
	require.Equal(t, want, f.tree)
	require.Equal(t, []string{"step 4"}, f.commits)
	require.Len(t, f.stored, 2, "equal files are stored once")
	require.Len(t, f.checked, 2)
	sum := sha256.Sum256([]byte(want["model.safetensors"]))
	require.Len(t, f.parts[hex.EncodeToString(sum[:])], 3)

	f.tree = map[string]string{}
	_, err = c.Upload(t.Context(), "o/n", dir, "hf_model", "again")
	require.NoError(t, err)
	require.Equal(t, want["config.json"], f.tree["hf_model/config.json"])
	require.Len(t, f.checked, 2, "stored objects are not sent again")
}

func TestARepositoryWithoutOwnerBelongsToTheTokensUser(t *testing.T) {
	f := newFake(t)
	full, err := f.client().Full(t.Context(), "n")
	require.NoError(t, err)
	require.Equal(t, "o/n", full)
	f.fail["/api/whoami-v2"] = http.StatusForbidden
	_, err = f.client().Full(t.Context(), "n")
	require.ErrorContains(t, err, "403")
	full, err = f.client().Full(t.Context(), "a/n")
	require.NoError(t, err)
	require.Equal(t, "a/n", full, "no request is made")
}

// TestNothingIsCommittedAfterAFailure makes each kind of request fail once.
func TestNothingIsCommittedAfterAFailure(t *testing.T) {
	dir, _ := folder(t)
	for place, code := range map[string]int{
		"/api/models/o/n/preupload/main": 403, "/o/n.git/info/lfs/objects/batch": 500, "/verify": 404,
		"/api/models/o/n/commit/main": 412,
		"whole":                       507, "part": 503, "complete": 400,
	} {
		f := newFake(t)
		f.fail[place] = code
		_, err := f.client().Upload(t.Context(), "o/n", dir, "", "x")
		require.ErrorContains(t, err, fmt.Sprint(code), place)
		require.NotContains(t, err.Error(), "secret")
		require.NotContains(t, err.Error(), "signature")
		require.Empty(t, f.tree, place)
	}
	f := newFake(t)
	_, err := f.client().Upload(t.Context(), "o/n", t.TempDir(), "", "x")
	require.ErrorContains(t, err, "has no files")
	for _, repo := range []string{"n", "/n", "o/", "o/n/x", "o/n ?"} {
		_, err := f.client().Upload(t.Context(), repo, dir, "", "x")
		require.ErrorContains(t, err, "must be owner/name")
	}
}

func TestTokenAndEndpointComeFromTheEnvironment(t *testing.T) {
	from := func(token, endpoint string) (*Client, error) {
		t.Setenv("HF_TOKEN", token)
		t.Setenv("HF_ENDPOINT", endpoint)
		return FromEnvironment()
	}
	_, err := from(" ", "")
	require.ErrorIs(t, err, ErrNoToken)
	c, err := from("x", "")
	require.NoError(t, err)
	require.Equal(t, Endpoint, c.endpoint)
	_, err = from("x", "hub.local")
	require.ErrorContains(t, err, "HF_ENDPOINT")
}

func TestStalledUploadsEnd(t *testing.T) {
	f := newFake(t)
	release := make(chan struct{})
	f.storage.Config.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }) // reads nothing
	defer close(release)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "large"), make([]byte, 900), 0o600))
	c := f.client()
	require.Equal(t, stall, c.stall)
	c.stall = 200 * time.Millisecond
	_, err := c.Upload(t.Context(), "o/n", dir, "", "m")
	require.ErrorIs(t, err, transport.ErrStalled)
}
