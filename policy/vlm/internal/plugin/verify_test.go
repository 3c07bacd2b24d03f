package plugin

import (
	"bytes"
	"context"
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
)

func TestEveryTruncationIsSeenWithoutASidecar(t *testing.T) {
	whole := good("some machine code")
	require.NoError(t, checkELF(bytes.NewReader(whole), int64(len(whole)), "amd64"))
	for n := range whole {
		require.Error(t, checkELF(bytes.NewReader(whole[:n]), int64(n), "amd64"), "cut to %d of %d bytes", n, len(whole))
	}
}

func TestSegmentsBehindTheEndAreSeen(t *testing.T) {
	// The section table may come first, and then survives what cuts off a segment.
	b := good("some machine code")
	const filesz = 64 + 32 // offset of the first segment's size in the file
	for _, size := range []uint64{uint64(len(b)) + 1, 1 << 63, ^uint64(0)} {
		for i := range 8 {
			b[filesz+i] = byte(size >> (8 * i))
		}
		require.Error(t, checkELF(bytes.NewReader(b), int64(len(b)), "amd64"), "segment of %d bytes", size)
	}
}

func TestForeignFilesAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		file         []byte
		goos, goarch string
	}{
		"a web page":          {[]byte("<html>" + strings.Repeat("not found ", 99)), "linux", "amd64"},
		"empty":               {nil, "linux", "amd64"},
		"another machine":     {library(elf.EM_AARCH64, elf.ET_DYN, "x"), "linux", "amd64"},
		"a program":           {library(elf.EM_X86_64, elf.ET_EXEC, "x"), "linux", "amd64"},
		"ELF on macOS":        {good("x"), "darwin", "arm64"},
		"ELF on Windows":      {good("x"), "windows", "amd64"},
		"three bytes, Darwin": {[]byte("\xcf\xfa\xed"), "darwin", "arm64"},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, filepath.Join(t.TempDir(), "pjrt_c_api_cpu_plugin.so"), c.file)
			_, err := verify(t.Context(), path, c.goos, c.goarch)
			testkit.Error(t, err, ErrCorrupt, path, "delete the file and run again")
		})
	}
	for goos, magic := range map[string]string{"darwin": "\xcf\xfa\xed\xfe", "windows": "MZ\x90\x00"} {
		path := write(t, filepath.Join(t.TempDir(), "p"), []byte(magic))
		_, err := verify(t.Context(), path, goos, "arm64")
		require.NoError(t, err, goos)
	}
}

func TestSidecarDecides(t *testing.T) {
	data := good("some machine code")
	flipped := bytes.Clone(data)
	flipped[len(flipped)/3] ^= 1
	valid := Plugin{Size: int64(len(data)), SHA256: digest(data), Source: "a test"}.record("plugin.so")
	for name, c := range map[string]struct {
		file    []byte
		sidecar string
		says    string // in the error
	}{
		"one bit":         {flipped, valid, digest(flipped)},
		"cut off":         {data[:len(data)-1], valid, fmt.Sprintf("%d bytes", len(data)-1)},
		"grown":           {append(bytes.Clone(data), 0), valid, fmt.Sprintf("records %d", len(data))},
		"empty sidecar":   {data, "", "missing"},
		"no size":         {data, digest(data) + "  plugin.so\n", "missing"},
		"no sum":          {data, "# size 7\n", "missing"},
		"half a sum":      {data, "# size 7\n" + digest(data)[:32] + "  plugin.so\n", "64 hex digits"},
		"not a number":    {data, strings.Replace(valid, "# size ", "# size x", 1), "number of bytes"},
		"negative length": {data, strings.Replace(valid, "# size ", "# size -", 1), "number of bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, filepath.Join(t.TempDir(), "plugin.so"), c.file)
			write(t, path+recordSuffix, []byte(c.sidecar))
			_, err := verify(t.Context(), path, "linux", "amd64")
			testkit.Error(t, err, ErrCorrupt, path, c.says, "run again")
		})
	}
	path := write(t, filepath.Join(t.TempDir(), "plugin.so"), data)
	write(t, path+recordSuffix, []byte(valid))
	p, err := verify(t.Context(), path, "linux", "amd64")
	require.NoError(t, err)
	require.Equal(t, Plugin{Path: path, Size: int64(len(data)), SHA256: digest(data), Source: "a test"}, p)
}

func TestSidecarSpeaksOnlyOfTheFileBesideIt(t *testing.T) {
	// go-xla's own installer replaces the plugin by a link to its own file.
	dir := t.TempDir()
	name := filepath.Join(dir, "pjrt_c_api_cpu_plugin.so")
	write(t, filepath.Join(dir, "pjrt_c_api_cpu_v1_plugin.so"), good("of go-xla"))
	require.NoError(t, os.Symlink("pjrt_c_api_cpu_v1_plugin.so", name))
	write(t, name+recordSuffix, []byte(Plugin{Size: 1, SHA256: digest(nil)}.record("old")))
	p, err := verify(t.Context(), name, "linux", "amd64")
	require.NoError(t, err)
	require.Empty(t, p.SHA256)
}

func TestVerifyRefusesFolders(t *testing.T) {
	_, err := verify(t.Context(), t.TempDir(), "linux", "amd64")
	require.ErrorIs(t, err, ErrCorrupt)
}

func TestVerifyStopsWithTheContext(t *testing.T) {
	data := good("x")
	path := write(t, filepath.Join(t.TempDir(), "plugin.so"), data)
	write(t, path+recordSuffix, []byte(Plugin{Size: int64(len(data)), SHA256: digest(data)}.record("plugin.so")))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := verify(ctx, path, "linux", "amd64")
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, ErrCorrupt)
}

func FuzzCheckELF(f *testing.F) {
	whole := good("text")
	f.Add(whole)
	f.Add(whole[:100])
	f.Add([]byte("\x7fELF"))
	f.Fuzz(func(t *testing.T, data []byte) {
		size := int64(len(data))
		if checkELF(bytes.NewReader(data), size, "amd64") != nil {
			return
		}
		e, err := elf.NewFile(bytes.NewReader(data))
		if err != nil {
			t.Fatalf("accepted what cannot be read: %v", err)
		}
		for _, p := range e.Progs {
			if end := p.Off + p.Filesz; end < p.Off || end > uint64(size) {
				t.Fatalf("accepted a segment from %d to %d in %d bytes", p.Off, end, size)
			}
		}
	})
}

func FuzzParseRecord(f *testing.F) {
	f.Add("# size 3\n# source x\n" + digest(nil) + "  p.so\n")
	f.Add("# size 99999999999999999999\n")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := parseRecord(strings.NewReader(text))
		if err != nil {
			return
		}
		again, err := parseRecord(strings.NewReader(r.record("p.so")))
		if err != nil || again != r {
			t.Fatalf("%+v became %+v, %v", r, again, err)
		}
	})
}
