package exestore

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func open(t *testing.T, dir string, limit int64) *Store {
	t.Helper()
	if why := supported(); why != "" {
		t.Skip(why)
	}
	s, err := Open(dir, Options{Limit: limit, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	return s
}

func names(t *testing.T, dir string) (out []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range list {
		out = append(out, e.Name())
	}
	return out
}

func TestExecutablesAreKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	a := newKey("a")
	_, ok := open(t, dir, DefaultLimit).read(a)
	require.False(t, ok)
	open(t, dir, DefaultLimit).write(a, []byte("code of a"))
	got, ok := open(t, dir, DefaultLimit).read(a)
	require.True(t, ok)
	require.Equal(t, "code of a", string(got))
	_, ok = open(t, dir, DefaultLimit).read(newKey("b"))
	require.False(t, ok)
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	info, err = os.Stat(filepath.Join(dir, a.String()+suffix))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

// Every byte of a file is checked: its header names format and program, and the checksum
// covers the rest.
func TestDamagedFilesAreNotRead(t *testing.T) {
	dir := t.TempDir()
	s, a := open(t, dir, DefaultLimit), newKey("a")
	s.write(a, []byte("code of a"))
	path := s.path(a)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	for i := range whole {
		damaged := bytes.Clone(whole)
		damaged[i] ^= 1
		require.NoError(t, os.WriteFile(path, damaged, 0o600))
		_, ok := s.read(a)
		require.False(t, ok, "byte %d", i)
		require.NoError(t, os.WriteFile(path, whole[:i], 0o600))
		_, ok = s.read(a)
		require.False(t, ok, "the first %d bytes", i)
	}
	b := newKey("b")
	require.NoError(t, os.WriteFile(s.path(b), whole, 0o600))
	_, ok := s.read(b)
	require.False(t, ok, "the file of another program under this one's name")
}

func TestEachReasonIsLoggedOnce(t *testing.T) {
	dir := t.TempDir()
	var out bytes.Buffer
	s, a := open(t, dir, DefaultLimit), newKey("a")
	s.opts.Log, s.opts.Level = slog.New(slog.NewTextHandler(&out, nil)), slog.LevelInfo
	require.NoError(t, os.WriteFile(s.path(a), []byte("?"), 0o600))
	for range 3 {
		s.read(a)
	}
	require.Equal(t, 1, strings.Count(out.String(), "damaged"), out.String())
	require.Contains(t, out.String(), s.path(a))
}

func TestTheLeastRecentlyUsedAreRemoved(t *testing.T) {
	dir := t.TempDir()
	code := bytes.Repeat([]byte("x"), 1000)
	size := int64(len(header(key{}, code)) + len(code))
	s := open(t, dir, 7*size/2)
	keys := []key{newKey("0"), newKey("1"), newKey("2"), newKey("3")}
	for i, k := range keys[:3] {
		s.write(k, code)
		past := time.Now().Add(time.Duration(i-10) * time.Minute)
		require.NoError(t, os.Chtimes(s.path(k), past, past))
	}
	_, ok := s.read(keys[0]) // the oldest is used again
	require.True(t, ok)
	unrelated, dead, writing := filepath.Join(dir, "notes.txt"), filepath.Join(dir, "1.tmp"),
		filepath.Join(dir, "2.tmp")
	for _, path := range []string{unrelated, dead, writing} {
		require.NoError(t, os.WriteFile(path, bytes.Repeat(code, 9), 0o600))
	}
	past := time.Now().Add(-2 * abandoned)
	require.NoError(t, os.Chtimes(dead, past, past))
	s.write(keys[3], code)
	for i, want := range []bool{true, false, true, true} {
		_, ok := s.read(keys[i])
		require.Equal(t, want, ok, "executable %d", i)
	}
	got := names(t, dir)
	require.Len(t, got, 5)
	require.Contains(t, got, filepath.Base(unrelated))
	require.Contains(t, got, filepath.Base(writing), "another process may be writing it")
}

// Several stores write, read and remove the same files at once, as processes do. What is
// read is always complete.
func TestStoresShareAFolder(t *testing.T) {
	dir := t.TempDir()
	const programs, stores = 12, 8
	var wg sync.WaitGroup
	for range stores {
		s := open(t, dir, 6*3000)
		wg.Go(func() {
			for round := range 10 {
				for i := range programs {
					name := fmt.Sprint(i)
					want := strings.Repeat(name, 1000+100*i)
					got, ok := s.read(newKey(name))
					if ok && string(got) != want {
						t.Errorf("program %d, round %d: %d bytes, want %d", i, round, len(got), len(want))
					}
					if !ok {
						s.write(newKey(name), []byte(want))
					}
				}
			}
		})
	}
	wg.Wait()
	open(t, dir, 6*3000).write(newKey("last"), []byte("x")) // the others did not see each other's files
	var total int64
	for _, name := range names(t, dir) {
		require.True(t, strings.HasSuffix(name, suffix), "%s is left", name)
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		total += info.Size()
	}
	require.LessOrEqual(t, total, int64(6*3000))
}

func TestFoldersOfOthersAreRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "x")
	require.NoError(t, os.Mkdir(dir, 0o700))
	for _, mode := range []os.FileMode{0o777, 0o770, 0o702} {
		require.NoError(t, os.Chmod(dir, mode))
		_, err := Open(dir, Options{})
		require.ErrorIs(t, err, ErrFolder)
		if supported() == "" {
			require.ErrorContains(t, err, fmt.Sprintf("%s: its mode is %#o", dir, mode))
		}
	}
	require.NoError(t, os.Chmod(dir, 0o755)) // readable by others
	open(t, dir, DefaultLimit)
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := Open(file, Options{})
	require.ErrorIs(t, err, ErrFolder)
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chown(dir, 12345, -1))
		_, err = Open(dir, Options{})
		require.ErrorContains(t, err, "belongs to user 12345")
	}
}

func TestKeysDistinguishTheirParts(t *testing.T) {
	seen := map[key]string{}
	for _, parts := range [][]string{nil, {""}, {"", ""}, {"ab", "c"}, {"a", "bc"}, {"abc"}, {"abc", ""}, {"c", "ab"}} {
		k := newKey(parts...)
		require.Empty(t, seen[k], "%q", parts)
		seen[k] = fmt.Sprintf("%q", parts)
		require.Equal(t, k, newKey(parts...))
	}
}

func TestProcessorsAreIdentified(t *testing.T) {
	intel := "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Xeon\ncpu MHz\t\t: 2600.0\nflags\t\t: sse avx2\n\n"
	require.Equal(t, []string{"vendor_id: GenuineIntel", "model name: Xeon", "flags: sse avx2"}, processors(intel))
	faster := strings.ReplaceAll(intel, "2600", "3100")
	require.Equal(t, processors(intel), processors(intel+faster), "the same kind twice, at another frequency")
	require.NotEqual(t, processors(intel), processors(strings.ReplaceAll(intel, "avx2", "avx2 avx512f")))
	require.NotEqual(t, processors(intel), processors(intel+strings.ReplaceAll(intel, "Xeon", "Core")),
		"two kinds in one machine")
	arm := "processor\t: 0\nBogoMIPS\t: 48.00\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n"
	require.Equal(t, []string{"Features: fp asimd", "CPU implementer: 0x41", "CPU part: 0xd40"}, processors(arm))
	require.Empty(t, processors("cpu MHz\t: 1\n"))
}

func TestVariablesOfXLABelongToTheKey(t *testing.T) {
	t.Setenv("XLA_FLAGS", "")
	before := environment()
	t.Setenv("VAGEN_OTHER", "1")
	require.Equal(t, before, environment())
	t.Setenv("XLA_FLAGS", "--xla_cpu_max_isa=AVX2")
	require.NotEqual(t, before, environment())
	require.Contains(t, environment(), "XLA_FLAGS=--xla_cpu_max_isa=AVX2")
}
