package hub

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"

	"vagen/internal/clock"
	"vagen/internal/hub"
	"vagen/internal/jsontext"
	"vagen/internal/origin"
	"vagen/internal/regular"
	"vagen/internal/retry"
)

// request requests a path, starting at byte from.
func (f *fetcher) request(ctx context.Context, path string, from int64) (*http.Response, error) {
	resp, err := f.client.Get(ctx, path, from)
	switch status(err).Code {
	case http.StatusNotFound, http.StatusUnauthorized, http.StatusForbidden, http.StatusGone:
		err = fmt.Errorf("%w: %w; models that are not public need a token in $HF_TOKEN", ErrNotFound, err)
	}
	return resp, err
}

// status returns what the hub answered, zero for other errors.
func status(err error) hub.StatusError {
	if answer, ok := errors.AsType[*hub.StatusError](err); ok {
		return *answer
	}
	return hub.StatusError{}
}

// retry calls try until it succeeds, fails permanently, or has failed Attempts times in a
// row without progress.
func (f *fetcher) retry(ctx context.Context, try func() (progress bool, err error)) error {
	pauses := retry.Doubling(f.Pause, max(f.Pause, time.Minute)).Pauses(retry.Jitter(retry.Seed(f.id), 0))
	for left := f.Attempts; ; {
		progress, err := try()
		if err == nil || errors.Is(err, ErrNotFound) || errors.Is(err, ErrChecksum) || errors.Is(err, errLocal) ||
			origin.Refused(err) {
			return err
		}
		if progress {
			left = f.Attempts
			pauses.Reset()
		}
		pause, again := pauses.Next(status(err).After)
		if left--; left <= 0 || ctx.Err() != nil || !again {
			return err
		}
		f.Log.Warn("request to the hub failed, retrying", "model", f.id, "pause", pause, "err", err)
		if clock.Wait(ctx, pause) != nil {
			return ctx.Err()
		}
	}
}

// errLocal is wrapped by errors of this machine, which are not retried.
var errLocal = errors.New("cannot be stored")

func (f *fetcher) list(ctx context.Context) (*listing, error) {
	const most = 64 << 20
	l := &listing{}
	err := f.retry(ctx, func() (bool, error) {
		resp, err := f.request(ctx, "/api/models/"+f.id+"/revision/"+url.PathEscape(f.Revision)+"?blobs=true", 0)
		if err != nil {
			return false, err
		}
		defer resp.Body.Close()
		*l = listing{}
		raw, err := io.ReadAll(io.LimitReader(resp.Body, most))
		if err != nil {
			return false, err
		}
		return false, jsontext.Unmarshal(raw, l)
	})
	if err != nil {
		return nil, err
	}
	return l, l.check()
}

// get downloads a file unless it exists.
func (f *fetcher) get(ctx context.Context, want file, commit, path string) error {
	size := want.Size
	if want.LFS != nil {
		size = want.LFS.Size
	}
	if info, err := os.Stat(path); err == nil && info.Size() == size {
		return nil // its checksum was checked before it got its name
	}
	part := path + ".part"
	address := "/" + f.id + "/resolve/" + commit + "/" + url.PathEscape(want.Name)
	err := f.retry(ctx, func() (bool, error) { return f.resume(ctx, address, part, size) })
	if err != nil {
		return err
	}
	if err := verify(part, want, size); err != nil {
		return errors.Join(err, os.Remove(part)) // a later call downloads all of it
	}
	f.Log.Info("file downloaded", "model", f.id, "file", want.Name, "bytes", size)
	return os.Rename(part, path)
}

// resume downloads the missing bytes of a file of size bytes to part. progress reports
// whether part has grown; it does not if the server ignores ranges and sends the same bytes
// again.
func (f *fetcher) resume(ctx context.Context, address, part string, size int64) (progress bool, err error) {
	out, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return false, fmt.Errorf("%w: %w", errLocal, err)
	}
	defer func() {
		if e := out.Close(); err == nil && e != nil {
			err = fmt.Errorf("%w: %w", errLocal, e)
		}
	}()
	at, err := out.Seek(0, io.SeekEnd)
	if err != nil {
		return false, fmt.Errorf("%w: %w", errLocal, err)
	}
	if at == size {
		return false, nil
	}
	had := at
	if at > size {
		at = 0
	}
	resp, err := f.request(ctx, address, at)
	if status(err).Code == http.StatusRequestedRangeNotSatisfiable {
		return false, errors.Join(err, out.Truncate(0))
	}
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusPartialContent || !startsAt(resp, at) {
		at = 0 // the answer is the whole file, or not the requested range
	}
	if err := out.Truncate(at); err != nil {
		return false, fmt.Errorf("%w: %w", errLocal, err)
	}
	if _, err := out.Seek(at, io.SeekStart); err != nil {
		return false, fmt.Errorf("%w: %w", errLocal, err)
	}
	n, err := io.Copy(out, io.LimitReader(resp.Body, size-at+1))
	switch {
	case err != nil:
		return at+n > had, err
	case at+n < size:
		return at+n > had, fmt.Errorf("received %d of %d bytes: %w", at+n, size, io.ErrUnexpectedEOF)
	case at+n > size:
		return false, fmt.Errorf("%w: received more than %d bytes", ErrChecksum, size)
	}
	if err := out.Sync(); err != nil {
		return true, fmt.Errorf("%w: %w", errLocal, err)
	}
	return true, nil
}

// startsAt reports whether a partial answer starts at the requested byte.
func startsAt(resp *http.Response, at int64) bool {
	var from int64
	_, err := fmt.Sscanf(resp.Header.Get("Content-Range"), "bytes %d-", &from)
	return err == nil && from == at
}

// verify checks the size and checksum of a file.
func verify(path string, want file, size int64) error {
	in, err := regular.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	var h hash.Hash
	sum := want.BlobID
	if want.LFS != nil {
		h, sum = sha256.New(), want.LFS.SHA256
	} else {
		h = sha1.New() // git's object id; does not protect against forgery
		fmt.Fprintf(h, "blob %d\x00", size)
	}
	n, err := io.Copy(h, in)
	if err != nil {
		return err
	}
	if got := hex.EncodeToString(h.Sum(nil)); n != size || got != sum {
		return fmt.Errorf("%w: received %d bytes with %s, the hub has %d with %s", ErrChecksum, n, got, size, sum)
	}
	return nil
}
