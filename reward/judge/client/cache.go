package client

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"vagen/internal/durable"
	"vagen/internal/filelock"
	"vagen/internal/regular"
)

// cache keeps answers in a folder, one file each, named by the hash of what was asked. Files
// appear complete, by renaming, so that processes that share the folder need no lock to read
// and write. A process that has written a sixteenth of the limit counts the files of all, and
// removes those that were not used for longest if they exceed it. So n processes exceed the
// limit by at most n sixteenths.
type cache struct {
	dir   string
	limit int64 // bytes of all files

	mu   sync.Mutex
	size int64 // of all files, as far as known
}

// largestAnswer is the size of an answer, in bytes, above which it is not kept.
const largestAnswer = 64 << 10

// staleAfter is how old an unfinished file is when its process no longer writes it.
const staleAfter = time.Hour

// usedAgain is how old a file's time must be to be renewed when the file is read.
const usedAgain = time.Minute

// openCache makes the folder if it does not exist, and counts its files.
func openCache(dir string, limit int64) (*cache, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	c := &cache{dir: dir, limit: limit}
	return c, c.trim()
}

// keyOf returns the name of an answer: the hash of what was asked.
func keyOf(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		sum := sha256.Sum256([]byte(p))
		h.Write(sum[:])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// path returns the file of a key: in a folder of its first two digits.
func (c *cache) path(key string) string { return filepath.Join(c.dir, key[:2], key[2:]) }

// get returns the answer of a key. A file that is damaged counts as missing.
func (c *cache) get(key string) (string, bool) {
	path := c.path(key)
	raw, err := regular.ReadAtMost(path, 2*largestAnswer, fs.ErrInvalid)
	if err != nil {
		return "", false
	}
	sum, answer, ok := strings.Cut(string(raw), "\n")
	if !ok || sum != keyOf(key, answer) {
		return "", false
	}
	if now, info := time.Now(), stat(path); info != nil && now.Sub(info.ModTime()) > usedAgain {
		_ = os.Chtimes(path, now, now) // a file that was just removed has been read
	}
	return answer, true
}

func stat(path string) fs.FileInfo {
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	return info
}

// put stores the answer of a key.
func (c *cache) put(key, answer string) error {
	data := keyOf(key, answer) + "\n" + answer
	if len(answer) > largestAnswer || int64(len(data)) > c.limit {
		return nil
	}
	path := c.path(key)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), unfinished+"*")
	if err != nil {
		return err
	}
	_, err = f.WriteString(data)
	if err := durable.Commit(f, path, err); err != nil {
		return err
	}
	c.mu.Lock()
	c.size += int64(len(data))
	full := c.size > c.limit
	c.mu.Unlock()
	if full {
		return c.trim()
	}
	return nil
}

// unfinished begins the names of files that are being written.
const unfinished = ".new-"

// trim counts the files of all processes, and removes the oldest ones down to nine tenths of
// the limit if they exceed fifteen sixteenths of it. While another process trims, it only
// counts.
func (c *cache) trim() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	unlock, held, err := filelock.TryLock(filepath.Join(c.dir, "lock"))
	if err != nil {
		return err
	}
	if !held {
		defer unlock()
	}
	type file struct {
		path string
		size int64
		used time.Time
	}
	var all []file
	total := int64(0)
	err = filepath.WalkDir(c.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Dir(path) == c.dir {
			return ignoreMissing(err)
		}
		info, err := d.Info()
		if err != nil {
			return ignoreMissing(err)
		}
		if strings.HasPrefix(d.Name(), unfinished) { // is being written, or was when its process ended
			if !held && time.Since(info.ModTime()) > staleAfter {
				return ignoreMissing(os.Remove(path))
			}
			return nil
		}
		all = append(all, file{path, info.Size(), info.ModTime()})
		total += info.Size()
		return nil
	})
	if err == nil && !held && total > c.limit/16*15 {
		slices.SortFunc(all, func(a, b file) int { return cmp.Or(a.used.Compare(b.used), strings.Compare(a.path, b.path)) })
		for _, f := range all {
			if total <= c.limit/10*9 {
				break
			}
			err = errors.Join(err, ignoreMissing(os.Remove(f.path)))
			total -= f.size
		}
	}
	// The next count is due after a sixteenth of the limit, because others write, too.
	c.size = max(total, c.limit-c.limit/16)
	return err
}

// ignoreMissing returns an error unless it is that of a file that another process removed.
func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
