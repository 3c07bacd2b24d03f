// Package hub uploads folders to the Hugging Face hub, or to a service that speaks
// its protocol: large files go to storage by Git LFS's batch API, in one piece or
// in parts, and one commit names them together with the small ones, so that a
// reader of the repository sees all of an upload or nothing.
//
// See huggingface.co/docs/hub/api and github.com/git-lfs/git-lfs/blob/main/docs/api/batch.md.
package hub

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"vagen/internal/origin"
)

// Endpoint is the hub's address.
const Endpoint = "https://huggingface.co"

// ErrNoToken means that the environment has no token.
var ErrNoToken = errors.New("the environment has no HF_TOKEN")

// maxInline is the largest file that is sent within a commit; the hub requires larger
// files to be uploaded to storage.
const maxInline = 16 << 20

// stall is how long a request may transfer no bytes. It includes the time that the hub
// needs to answer after all bytes are sent.
const stall = 2 * time.Minute

// Client uploads with a token, which it sends only to the endpoint's scheme, host and
// port, also if an answer redirects to another address.
type Client struct {
	endpoint, token string
	http            *http.Client
	stall           time.Duration
}

// FromEnvironment makes a client from HF_TOKEN and, where it is set, HF_ENDPOINT.
func FromEnvironment(getenv func(string) (string, bool)) (*Client, error) {
	token, _ := getenv("HF_TOKEN")
	if strings.TrimSpace(token) == "" {
		return nil, ErrNoToken
	}
	endpoint, _ := getenv("HF_ENDPOINT")
	if endpoint == "" {
		endpoint = Endpoint
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("hub: HF_ENDPOINT is %q, must be an address such as %s", endpoint, Endpoint)
	}
	return &Client{endpoint: strings.TrimRight(endpoint, "/"), token: strings.TrimSpace(token), stall: stall,
		http: &http.Client{CheckRedirect: origin.KeepKeys}}, nil
}

// Create makes a repository of a model, unless it is there.
func (c *Client) Create(ctx context.Context, repo string, private bool) error {
	owner, name, err := split(repo)
	if err != nil {
		return err
	}
	ask := map[string]any{"type": "model", "name": name, "organization": owner, "private": private}
	err = c.post(ctx, "/api/repos/create", "", ask, nil)
	var status *statusError
	if errors.As(err, &status) && status.code == http.StatusConflict {
		return nil
	}
	return err
}

// Full is the name of a repository with its owner: that of the token where repo
// names none.
func (c *Client) Full(ctx context.Context, repo string) (string, error) {
	if strings.Contains(repo, "/") {
		return repo, nil
	}
	var user struct {
		Name string `json:"name"`
	}
	if err := c.send(ctx, http.MethodGet, c.endpoint+"/api/whoami-v2", "", true, nil, 0, &user); err != nil {
		return "", err
	}
	if user.Name == "" {
		return "", fmt.Errorf("hub: the repository is %q, and the endpoint names no user for the token: write owner/name", repo)
	}
	return user.Name + "/" + repo, nil
}

func split(repo string) (owner, name string, err error) {
	owner, name, ok := strings.Cut(repo, "/")
	if !ok || owner == "" || name == "" || strings.ContainsAny(name, "/ ?#") || strings.ContainsAny(owner, " ?#") {
		return "", "", fmt.Errorf("hub: the repository is %q, must be owner/name", repo)
	}
	return owner, name, nil
}

// Upload commits the files of a folder to a repository's branch main, below the
// folder to. It returns the address of the commit.
func (c *Client) Upload(ctx context.Context, repo, dir, to, message string) (string, error) {
	if _, _, err := split(repo); err != nil {
		return "", err
	}
	files, err := list(dir, to)
	if err != nil {
		return "", fmt.Errorf("hub: %w", err)
	}
	if err := c.ask(ctx, repo, files); err != nil {
		return "", err
	}
	if err := c.store(ctx, repo, files); err != nil {
		return "", err
	}
	return c.commit(ctx, repo, files, message)
}

// ask requests from the hub which files must be uploaded to storage.
func (c *Client) ask(ctx context.Context, repo string, files []*file) error {
	type entry struct {
		Path   string `json:"path"`
		Size   int64  `json:"size"`
		Sample string `json:"sample"`
	}
	ask := struct {
		Files []entry `json:"files"`
	}{}
	at := map[string]*file{}
	for _, f := range files {
		ask.Files = append(ask.Files, entry{f.path, f.size, base64.StdEncoding.EncodeToString(f.sample)})
		at[f.path] = f
	}
	var answer struct {
		Files []struct {
			Path   string `json:"path"`
			Mode   string `json:"uploadMode"`
			Ignore bool   `json:"shouldIgnore"`
		} `json:"files"`
	}
	if err := c.post(ctx, "/api/models/"+repo+"/preupload/main", "", ask, &answer); err != nil {
		return err
	}
	for _, a := range answer.Files {
		if f := at[a.Path]; f != nil {
			f.mode, f.ignored = a.Mode, a.Ignore
		}
	}
	for _, f := range files {
		if f.mode != "lfs" && f.mode != "regular" {
			return fmt.Errorf("hub: the answer has %q as the way for %s, must be lfs or regular", f.mode, f.path)
		}
		if f.mode == "regular" && f.size > maxInline {
			return fmt.Errorf("hub: %s: the hub requires it within the commit, but it has %d bytes, at most %d are allowed", f.path, f.size, maxInline)
		}
	}
	return nil
}

// commit names all files at once.
func (c *Client) commit(ctx context.Context, repo string, files []*file, message string) (string, error) {
	var body bytes.Buffer
	out := json.NewEncoder(&body)
	line := func(key string, value map[string]any) error {
		return out.Encode(map[string]any{"key": key, "value": value})
	}
	err := line("header", map[string]any{"summary": message, "description": ""})
	for _, f := range files {
		switch {
		case err != nil || f.ignored:
		case f.mode == "lfs":
			err = line("lfsFile", map[string]any{"path": f.path, "algo": "sha256", "oid": f.oid, "size": f.size})
		default:
			var raw []byte
			if raw, err = f.read(); err == nil {
				err = line("file", map[string]any{"path": f.path, "encoding": "base64", "content": base64.StdEncoding.EncodeToString(raw)})
			}
		}
	}
	if err != nil {
		return "", fmt.Errorf("hub: %w", err)
	}
	var answer struct {
		URL string `json:"commitUrl"`
	}
	err = c.send(ctx, http.MethodPost, c.endpoint+"/api/models/"+repo+"/commit/main", "application/x-ndjson", true, &body, int64(body.Len()), &answer)
	return answer.URL, err
}

// post sends JSON to the endpoint and reads JSON. kind "" is plain JSON.
func (c *Client) post(ctx context.Context, path, kind string, ask, answer any) error {
	raw, err := json.Marshal(ask)
	if err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	if kind == "" {
		kind = "application/json"
	}
	return c.send(ctx, http.MethodPost, c.endpoint+path, kind, true, bytes.NewReader(raw), int64(len(raw)), answer)
}

// send sends a request. Only requests to the endpoint carry the token: addresses of
// the storage are signed.
func (c *Client) send(ctx context.Context, method, address, kind string, token bool, body io.Reader, size int64, answer any) error {
	r, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	r.ContentLength = size
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	if kind == lfsKind {
		r.Header.Set("Accept", kind)
	}
	if token {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	_, err = c.do(r, answer)
	return err
}

// statusError is an answer that is not a success.
type statusError struct {
	code int
	text string
}

func (e *statusError) Error() string { return e.text }

// do makes a request and reads the answer as JSON into answer, unless that is nil.
func (c *Client) do(r *http.Request, answer any) (http.Header, error) {
	place := r.Method + " " + r.URL.Scheme + "://" + r.URL.Host + r.URL.Path // what follows may be a signature
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	watch := time.AfterFunc(c.stall, func() { cancel(errStalled) })
	defer watch.Stop()
	r = r.WithContext(ctx)
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = watched{r.Body, watch, c.stall}
		if again := r.GetBody; again != nil {
			r.GetBody = func() (io.ReadCloser, error) {
				body, err := again()
				return watched{body, watch, c.stall}, err
			}
		}
	}
	resp, err := c.http.Do(r)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err
		}
		return nil, fmt.Errorf("hub: %s: %w", place, err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(watched{resp.Body, watch, c.stall}, 32<<20))
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("hub: %s: %w", place, err)
	}
	if resp.StatusCode/100 != 2 {
		return nil, fmt.Errorf("hub: %w", &statusError{resp.StatusCode, fmt.Sprintf("%s: %s: %s", place, resp.Status, bytes.TrimSpace(raw[:min(len(raw), 500)]))})
	}
	if answer != nil {
		if err := json.Unmarshal(raw, answer); err != nil {
			return nil, fmt.Errorf("hub: %s: the answer is not as expected: %w", place, err)
		}
	}
	return resp.Header, nil
}

// errStalled ends a request that transfers no bytes.
var errStalled = errors.New("the transfer stalled")

// watched resets a timer whenever bytes are transferred.
type watched struct {
	io.ReadCloser
	timer *time.Timer
	limit time.Duration
}

func (w watched) Read(b []byte) (int, error) {
	n, err := w.ReadCloser.Read(b)
	w.timer.Reset(w.limit)
	return n, err
}

// own reports whether an address is the endpoint's.
func (c *Client) own(address string) bool {
	a, err1 := url.Parse(address)
	b, err2 := url.Parse(c.endpoint)
	return err1 == nil && err2 == nil && origin.Same(a, b)
}
