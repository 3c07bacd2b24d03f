// Package hub is a client of the Hugging Face hub, or of a service with the same protocol.
// Package policy/vlm/hub uses it to download models. This package uploads folders: large
// files are sent to storage by Git LFS's batch API, in one piece or in parts, and one commit
// adds them together with the small files, so that readers of the repository see a complete
// upload or nothing.
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
	"net/http"
	"strings"
)

// maxInline is the maximum size of a file within a commit; larger ones must be sent to
// storage.
const maxInline = 16 << 20

const jsonKind = "application/json"

// Create creates a model repository if it does not exist.
func (c *Client) Create(ctx context.Context, repo string, private bool) error {
	owner, name, err := split(repo)
	if err != nil {
		return err
	}
	ask := map[string]any{"type": "model", "name": name, "organization": owner, "private": private}
	err = c.post(ctx, "/api/repos/create", jsonKind, ask, nil)
	var status *StatusError
	if errors.As(err, &status) && status.Code == http.StatusConflict {
		return nil
	}
	return err
}

// Full returns the name of a repository with its owner. If repo has none, the owner is the
// user of the token.
func (c *Client) Full(ctx context.Context, repo string) (string, error) {
	if strings.Contains(repo, "/") {
		return repo, nil
	}
	var user struct {
		Name string `json:"name"`
	}
	if err := c.send(ctx, http.MethodGet, c.endpoint+"/api/whoami-v2", "", nil, &user); err != nil {
		return "", err
	}
	if user.Name == "" {
		return "", fmt.Errorf("hub: the repository is %q, and the endpoint returns no user for the token: set it to owner/name", repo)
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

// Upload commits the files of the folder dir to the branch main of a repository, into its
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
	if err := c.post(ctx, "/api/models/"+repo+"/preupload/main", jsonKind, ask, &answer); err != nil {
		return err
	}
	for _, a := range answer.Files {
		if f := at[a.Path]; f != nil {
			f.mode, f.ignored = a.Mode, a.Ignore
		}
	}
	for _, f := range files {
		if f.mode != "lfs" && f.mode != "regular" {
			return fmt.Errorf("hub: the answer has the upload mode %q for %s, must be lfs or regular", f.mode, f.path)
		}
		if f.mode == "regular" && f.size > maxInline {
			return fmt.Errorf("hub: %s: the hub requires it within the commit, but it has %d bytes, maximum is %d", f.path,
				f.size, maxInline)
		}
	}
	return nil
}

// commit adds all files in one commit.
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
				err = line("file", map[string]any{"path": f.path, "encoding": "base64",
					"content": base64.StdEncoding.EncodeToString(raw)})
			}
		}
	}
	if err != nil {
		return "", fmt.Errorf("hub: %w", err)
	}
	var answer struct {
		URL string `json:"commitUrl"`
	}
	err = c.send(ctx, http.MethodPost, c.endpoint+"/api/models/"+repo+"/commit/main", "application/x-ndjson", &body,
		&answer)
	return answer.URL, err
}
