package exestore

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"vagen/internal/durable"
	"vagen/internal/regular"
)

// DefaultLimit is the size in bytes above which the least recently used files of a folder
// are removed. Executables have from some kilobytes to some megabytes.
const DefaultLimit = 4 << 30

var (
	// ErrFolder is wrapped by errors about a folder that cannot be used.
	ErrFolder = errors.New("folder of executables")
	// ErrUnsafe is wrapped if the reason is that other users can write to it.
	ErrUnsafe = errors.New("other users can put code there that this process would run")
)

// Store is a folder of executables, which several stores and processes may use at once.
// A nil Store keeps nothing.
type Store struct {
	dir  string
	opts Options

	loaded, compiled atomic.Int64

	mu       sync.Mutex
	reported map[string]bool
	size     int64 // of the folder when it was last listed, and of the files written since
	writes   int   // since then
}

// Options are the settings of a store.
type Options struct {
	Limit int64        // see DefaultLimit
	Log   *slog.Logger // gets each reason why an executable was not kept or loaded once
	Level slog.Level   // of these lines
	// Choices identifies what decides an executable besides program, options, plugin and
	// environment, such as a file that XLA reads.
	Choices string
}

// Open returns the store in a folder, which is created if it does not exist. It refuses
// a folder that other users can write to.
func Open(dir string, o Options) (*Store, error) {
	if why := supported(); why != "" {
		return nil, fmt.Errorf("%w %s: %s", ErrFolder, dir, why)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFolder, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFolder, err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFolder, err)
	}
	if err := private(info); err != nil {
		return nil, fmt.Errorf("%w %s: %w", ErrFolder, dir, err)
	}
	return &Store{dir: dir, opts: o, reported: map[string]bool{}}, nil
}

// private returns an error unless only this user can write to the folder: its files are
// code that this process runs.
func private(dir fs.FileInfo) error {
	if mode := dir.Mode().Perm(); mode&0o022 != 0 {
		return fmt.Errorf("its mode is %#o, so %w: remove the permission with chmod go-w, or choose another folder", mode,
			ErrUnsafe)
	}
	if uid, mine := owner(dir); !mine {
		return fmt.Errorf("it belongs to user %d, so %w: choose another folder", uid, ErrUnsafe)
	}
	return nil
}

// Dir returns the folder.
func (s *Store) Dir() string { return s.dir }

// Counts returns how many executables were loaded from the folder, and how many were
// compiled because they were not there.
func (s *Store) Counts() (loaded, compiled int) {
	if s == nil {
		return 0, 0
	}
	return int(s.loaded.Load()), int(s.compiled.Load())
}

// report logs each reason once.
func (s *Store) report(what string, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if line := what + why.Error(); !s.reported[line] {
		s.reported[line] = true
		s.opts.Log.Log(context.Background(), s.opts.Level, what, "folder", s.dir, "why", why)
	}
}

// suffix is that of a complete file's name.
const suffix = ".exe"

// magic begins a file. The version, the key, and the SHA-256 of the rest follow.
const magic = "vagen executable"

func header(k key, data []byte) []byte {
	sum := sha256.Sum256(data)
	h := binary.LittleEndian.AppendUint32([]byte(magic), version)
	return append(append(h, k[:]...), sum[:]...)
}

func (s *Store) path(k key) string { return filepath.Join(s.dir, k.String()+suffix) }

// read returns the executable of a key, and records that it was used.
func (s *Store) read(k key) (data []byte, ok bool) {
	path := s.path(k)
	raw, err := regular.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false
	}
	if err != nil {
		s.report("an executable cannot be read and is compiled", err)
		return nil, false
	}
	n := len(header(k, nil))
	if len(raw) <= n || !bytes.Equal(raw[:n], header(k, raw[n:])) {
		s.report("an executable is damaged and is compiled", fmt.Errorf("%s has a wrong header or checksum", path))
		return nil, false
	}
	now := time.Now()
	if err := os.Chtimes(path, now, now); err != nil {
		s.report("the use of an executable cannot be recorded", err)
	}
	return raw[n:], true
}

// write adds an executable, or replaces a damaged one.
func (s *Store) write(k key, data []byte) {
	if err := s.add(k, data); err != nil {
		s.report("an executable cannot be kept", err)
		return
	}
	if !s.due(int64(len(data))) {
		return
	}
	size, err := s.trim()
	if err != nil {
		s.report("old executables cannot be removed", err)
	}
	s.mu.Lock()
	s.size, s.writes = size, 0
	s.mu.Unlock()
}

// listEvery is the number of written files after which a folder is listed again, because
// other processes write to it, too.
const listEvery = 64

// due counts a written file and reports whether the folder must be listed: at first, if it
// has become too large, and now and then.
func (s *Store) due(size int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.size == 0
	s.size += size
	s.writes++
	return first || s.size > s.opts.Limit || s.writes >= listEvery
}

// add writes the file under a name of its own and renames it, so that other processes
// find a complete file or none.
func (s *Store) add(k key, data []byte) error {
	if len(data) == 0 {
		return errors.New("the plugin returned no bytes")
	}
	f, err := os.CreateTemp(s.dir, "*"+durable.Unfinished) // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(append(header(k, data), data...))
	return durable.Commit(f, s.path(k), errors.Join(err, f.Sync()))
}

// abandoned is the age at which an unfinished file is that of a process that died.
const abandoned = time.Hour

// trim removes the least recently used files of a folder that has reached its limit, down
// to nine tenths of it, and returns its size. Files of other kinds are not touched. Another
// process may remove the same files.
func (s *Store) trim() (total int64, bad error) {
	list, err := os.ReadDir(s.dir)
	if err != nil {
		return 0, err
	}
	var files []fs.FileInfo
	remove := func(name string) {
		if err := os.Remove(filepath.Join(s.dir, name)); !errors.Is(err, fs.ErrNotExist) {
			bad = errors.Join(bad, err)
		}
	}
	for _, e := range list {
		info, err := e.Info()
		if err != nil { // removed in the meantime
			continue
		}
		switch {
		case strings.HasSuffix(e.Name(), suffix):
			files = append(files, info)
			total += info.Size()
		case strings.HasSuffix(e.Name(), durable.Unfinished) && time.Since(info.ModTime()) > abandoned:
			remove(e.Name())
		}
	}
	if total <= s.opts.Limit {
		return total, bad
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int {
		return cmp.Or(a.ModTime().Compare(b.ModTime()), strings.Compare(a.Name(), b.Name()))
	})
	for _, f := range files {
		if total <= s.opts.Limit/10*9 {
			break
		}
		remove(f.Name())
		total -= f.Size()
	}
	return total, bad
}
