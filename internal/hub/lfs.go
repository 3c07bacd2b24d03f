package hub

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path"
	"path/filepath"
	"strconv"

	"vagen/internal/regular"
)

const lfsKind = "application/vnd.git-lfs+json"

// file is a file of an upload.
type file struct {
	path    string // path in the repository
	name    string // local path
	size    int64
	oid     string // SHA-256
	sample  []byte // its first bytes
	mode    string // lfs or regular
	ignored bool
}

func (f *file) read() ([]byte, error) { return regular.ReadFile(f.name) }

// list returns the files below a folder, sorted by name.
func list(dir, to string) (files []*file, err error) {
	err = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		f := &file{path: path.Join(to, filepath.ToSlash(rel)), name: name}
		files = append(files, f)
		return f.measure()
	})
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s has no files", dir)
	}
	return files, err
}

// measure reads a file once to get its size, checksum and first bytes.
func (f *file) measure() error {
	in, err := regular.Open(f.name)
	if err != nil {
		return err
	}
	defer in.Close()
	sample := make([]byte, 512)
	n, err := io.ReadFull(in, sample)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return err
	}
	f.sample = sample[:n]
	sum := sha256.New()
	sum.Write(f.sample)
	rest, err := io.Copy(sum, in)
	f.size, f.oid = int64(n)+rest, hex.EncodeToString(sum.Sum(nil))
	return err
}

// action is the address and headers for uploading an object.
type action struct {
	Href   string            `json:"href"`
	Header map[string]string `json:"header"`
}

// store uploads the large files that the hub does not have.
func (c *Client) store(ctx context.Context, repo string, files []*file) error {
	type object struct {
		OID  string `json:"oid"`
		Size int64  `json:"size"`
	}
	ask := map[string]any{"operation": "upload", "transfers": []string{"basic", "multipart"}, "hash_algo": "sha256",
		"ref": map[string]string{"name": "refs/heads/main"}}
	at := map[string]*file{}
	var objects []object
	for _, f := range files {
		if f.mode == "lfs" && !f.ignored && at[f.oid] == nil {
			at[f.oid], objects = f, append(objects, object{f.oid, f.size})
		}
	}
	if len(objects) == 0 {
		return nil
	}
	ask["objects"] = objects
	var answer struct {
		Objects []struct {
			object
			Actions map[string]action `json:"actions"`
			Error   *struct {
				Code    int    `json:"code"`
				Message string `json:"message"`
			} `json:"error"`
		} `json:"objects"`
	}
	if err := c.post(ctx, "/"+repo+".git/info/lfs/objects/batch", lfsKind, ask, &answer); err != nil {
		return err
	}
	for _, o := range answer.Objects {
		f := at[o.OID]
		if f == nil {
			return fmt.Errorf("hub: the answer has an object %q that was not requested", o.OID)
		}
		delete(at, o.OID)
		if o.Error != nil {
			return fmt.Errorf("hub: %s is refused: %s (%d)", f.path, o.Error.Message, o.Error.Code)
		}
		up, needed := o.Actions["upload"]
		if !needed { // already stored
			continue
		}
		if err := c.put(ctx, f, up); err != nil {
			return fmt.Errorf("%s: %w", f.path, err)
		}
		if v, ok := o.Actions["verify"]; ok {
			if err := c.notify(ctx, v.Href, map[string]any{"oid": f.oid, "size": f.size}); err != nil {
				return fmt.Errorf("%s: %w", f.path, err)
			}
		}
	}
	for _, f := range at {
		return fmt.Errorf("hub: the answer has no upload address for %s", f.path)
	}
	return nil
}

// put uploads an object, in parts if storage requires it.
func (c *Client) put(ctx context.Context, f *file, to action) error {
	in, err := regular.Open(f.name)
	if err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	defer in.Close()
	text, parted := to.Header["chunk_size"]
	if !parted {
		_, err := c.piece(ctx, to.Href, to.Header, io.NewSectionReader(in, 0, f.size))
		return err
	}
	chunk, err := strconv.ParseInt(text, 10, 64)
	if err != nil || chunk < 1 {
		return fmt.Errorf("hub: the answer has chunk_size %q, must be a number of bytes", text)
	}
	places := map[int]string{}
	for key, place := range to.Header {
		if n, err := strconv.Atoi(key); err == nil {
			places[n] = place
		}
	}
	type part struct {
		Number int    `json:"partNumber"`
		Tag    string `json:"etag"`
	}
	var parts []part
	for at := int64(0); at < f.size; at += chunk {
		n := len(parts) + 1
		place, ok := places[n]
		if !ok {
			return fmt.Errorf("hub: the answer has addresses for %d parts of %d bytes, but the file has %d bytes", len(places),
				chunk, f.size)
		}
		tag, err := c.piece(ctx, place, nil, io.NewSectionReader(in, at, min(chunk, f.size-at)))
		if err != nil {
			return err
		}
		if tag == "" {
			return fmt.Errorf("hub: the answer to part %d has no ETag", n)
		}
		parts = append(parts, part{n, tag})
	}
	return c.notify(ctx, to.Href, map[string]any{"oid": f.oid, "parts": parts})
}

// piece uploads bytes to storage and returns their ETag.
func (c *Client) piece(
	ctx context.Context, place string, header map[string]string, body *io.SectionReader,
) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, place, io.NopCloser(body))
	if err != nil {
		return "", fmt.Errorf("hub: %w", err)
	}
	r.ContentLength = body.Size()
	if body.Size() == 0 {
		r.Body = http.NoBody
	}
	for key, value := range header {
		r.Header.Set(key, value)
	}
	got, err := c.do(r, nil)
	return got.Get("ETag"), err
}

// notify posts to an address in the batch API's answer.
func (c *Client) notify(ctx context.Context, address string, what any) error {
	raw, err := json.Marshal(what)
	if err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	return c.send(ctx, http.MethodPost, address, lfsKind, bytes.NewReader(raw), nil)
}
