package hub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"vagen/internal/durable"
	"vagen/internal/filelock"
	"vagen/internal/hub"
	"vagen/internal/regular"
)

var (
	// ErrID means that a text is not the id of a model.
	ErrID = errors.New("not a model id")
	// ErrChecksum means that a downloaded file differs from the hub's checksum.
	ErrChecksum = errors.New("checksum differs")
	// ErrNotFound is wrapped when the hub has no such model, revision or file, or
	// requires a token for it.
	ErrNotFound = errors.New("not found")
)

// Options define where models are downloaded from and stored. The zero value downloads
// the newest version from the public hub to the user's cache.
type Options struct {
	// Endpoint is the hub's address; "" is $HF_ENDPOINT, or https://huggingface.co if
	// that is not set.
	Endpoint string
	// Revision is a branch, tag or commit; "" is main.
	Revision string
	// Cache is the folder of downloaded models; "" is vagen/models in the user's
	// cache folder.
	Cache string
	// Token is sent only to the endpoint's scheme, host and port, not to addresses that
	// it redirects to; "" is $HF_TOKEN.
	Token string
	// Attempts is the number of requests for a file in a row without progress after
	// which Fetch fails; 0 is 4.
	Attempts int
	// Pause is the time before the second attempt, doubled before every further
	// one; 0 is one second.
	Pause time.Duration
	// Stall is the longest time without a transferred byte before a download is
	// requested again; 0 is two minutes.
	Stall time.Duration
	// Log receives progress; nil discards it.
	Log *slog.Logger
}

func (o *Options) fill() error {
	o.Revision = cmp.Or(o.Revision, "main")
	if o.Attempts < 0 || o.Pause < 0 {
		return fmt.Errorf("hub: Options.Attempts is %d and Pause %v, must not be negative", o.Attempts, o.Pause)
	}
	o.Attempts, o.Pause = cmp.Or(o.Attempts, 4), cmp.Or(o.Pause, time.Second)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if !revisionPattern.MatchString(o.Revision) || strings.Contains(o.Revision, "..") {
		return fmt.Errorf("hub: revision is %q, must be a branch, tag or commit", o.Revision)
	}
	if o.Cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			return fmt.Errorf("hub: no cache folder: %w", err)
		}
		o.Cache = filepath.Join(dir, "vagen", "models")
	}
	return nil
}

var (
	idPattern       = regexp.MustCompile(`^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*$`)
	revisionPattern = regexp.MustCompile(`^[A-Za-z0-9][\w./-]*$`)
	commitPattern   = regexp.MustCompile(`^[0-9a-f]{40}$`)
)

// IsID reports whether a name is an id such as Qwen/Qwen2.5-VL-3B-Instruct.
func IsID(name string) bool { return idPattern.MatchString(name) && !strings.Contains(name, "..") }

// Fetch returns the folder of a model: configuration, tokenizer, processor and
// safetensors weights. It downloads only missing files. Without a network it returns the
// complete folder of an earlier call, if there is one.
func Fetch(ctx context.Context, id string, o Options) (dir string, err error) {
	f, err := newFetcher(id, o)
	if err != nil {
		return "", err
	}
	if f.client, err = hub.New(hub.Options{Endpoint: o.Endpoint, Token: o.Token, Stall: o.Stall}); err != nil {
		return "", err
	}
	listing, err := f.list(ctx)
	if err != nil {
		dir, there := f.cached()
		if !there || ctx.Err() != nil || errors.Is(err, ErrNotFound) {
			return "", fmt.Errorf("hub: %s: %w", id, err)
		}
		f.Log.Warn("hub not reachable, using the cached model", "model", id, "folder", dir, "err", err)
		return dir, nil
	}
	dir = filepath.Join(f.root, listing.Commit)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("hub: %w", err)
	}
	unlock, err := filelock.Lock(ctx, filepath.Join(f.root, "lock"), func() {
		f.Log.Info("another process is downloading the model, waiting for it", "model", id)
	})
	if err != nil {
		return "", fmt.Errorf("hub: %s: %w", id, err)
	}
	defer unlock()
	for _, file := range listing.wanted() {
		if err := f.get(ctx, file, listing.Commit, filepath.Join(dir, file.Name)); err != nil {
			return "", fmt.Errorf("hub: %s: %s: %w", id, file.Name, err)
		}
	}
	if err := f.storeCommit(listing.Commit); err != nil {
		return "", fmt.Errorf("hub: %w", err)
	}
	return dir, nil
}

// newFetcher returns a fetcher with the defaults of the options.
func newFetcher(id string, o Options) (*fetcher, error) {
	if !IsID(id) {
		return nil, fmt.Errorf("hub: %w: %q, must be owner/name", ErrID, id)
	}
	if err := o.fill(); err != nil {
		return nil, err
	}
	return &fetcher{Options: o, id: id, root: filepath.Join(o.Cache, strings.ReplaceAll(id, "/", "--"))}, nil
}

// fetcher is one call of Fetch.
type fetcher struct {
	Options
	client *hub.Client
	id     string
	root   string // folder of all versions of the model
}

// ref is the file with the commit of the revision. It exists when the revision is
// complete.
func (f *fetcher) ref() string {
	return filepath.Join(f.root, "refs", strings.ReplaceAll(f.Revision, "/", "--"))
}

func (f *fetcher) storeCommit(commit string) error {
	if err := os.MkdirAll(filepath.Dir(f.ref()), 0o755); err != nil {
		return err
	}
	return durable.WriteFile(f.ref(), []byte(commit))
}

// cached returns the complete folder of an earlier call.
func (f *fetcher) cached() (dir string, ok bool) {
	commit, err := regular.ReadFile(f.ref())
	if err != nil || !commitPattern.Match(commit) {
		return "", false
	}
	dir = filepath.Join(f.root, string(commit))
	info, err := os.Stat(dir)
	return dir, err == nil && info.IsDir()
}

// listing is the hub's description of a version of a model.
type listing struct {
	Commit string `json:"sha"`
	Files  []file `json:"siblings"`
}

type file struct {
	Name   string `json:"rfilename"`
	Size   int64  `json:"size"`
	BlobID string `json:"blobId"` // git's object id
	LFS    *struct {
		SHA256 string `json:"sha256"`
		Size   int64  `json:"size"`
	} `json:"lfs"`
}

// wanted returns the files of a model that this library reads: those in the top folder,
// with weights only as safetensors.
func (l *listing) wanted() []file {
	return slices.DeleteFunc(slices.Clone(l.Files), func(f file) bool {
		return !slices.Contains([]string{".safetensors", ".json", ".jinja", ".txt"}, filepath.Ext(f.Name)) ||
			strings.ContainsAny(f.Name, `/\`) ||
			strings.HasPrefix(f.Name, ".")
	})
}

func (l *listing) check() error {
	if !commitPattern.MatchString(l.Commit) {
		return fmt.Errorf("the hub's answer has commit %q, must be 40 hexadecimal digits", l.Commit)
	}
	for _, f := range l.wanted() {
		if f.Size < 0 || f.LFS == nil && len(f.BlobID) != 40 || f.LFS != nil && len(f.LFS.SHA256) != 64 {
			return fmt.Errorf("the hub's answer has no size and checksum for %s", f.Name)
		}
	}
	if !slices.ContainsFunc(l.wanted(), func(f file) bool { return f.Name == "config.json" }) {
		return fmt.Errorf("%w: there is no config.json", ErrNotFound)
	}
	return nil
}
