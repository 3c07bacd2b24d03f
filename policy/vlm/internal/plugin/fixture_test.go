package plugin

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// library is a small ELF file laid out as linkers do: headers, one segment with
// the text, names, and the section table at the very end.
func library(machine elf.Machine, typ elf.Type, text string) []byte {
	const head, prog, sect = 64, 56, 64
	names := "\x00.text\x00.shstrtab\x00"
	textAt := uint64(head + prog)
	namesAt := textAt + uint64(len(text))
	tableAt := (namesAt + uint64(len(names)) + 7) &^ 7
	var b bytes.Buffer
	put := func(v any) { _ = binary.Write(&b, binary.LittleEndian, v) }
	put(elf.Header64{
		Ident: [16]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(typ), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT),
		Phoff: head, Shoff: tableAt, Ehsize: head, Phentsize: prog, Phnum: 1, Shentsize: sect, Shnum: 3, Shstrndx: 2,
	})
	put(elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Filesz: namesAt, Memsz: namesAt,
		Align: 4096})
	b.WriteString(text)
	b.WriteString(names)
	b.Write(make([]byte, int(tableAt)-b.Len()))
	put(elf.Section64{})
	put(elf.Section64{Name: 1, Type: uint32(elf.SHT_PROGBITS), Off: textAt, Size: uint64(len(text)), Addralign: 1})
	put(elf.Section64{Name: 7, Type: uint32(elf.SHT_STRTAB), Off: namesAt, Size: uint64(len(names)), Addralign: 1})
	return b.Bytes()
}

// good is a library that every check accepts; text tells one from another.
func good(text string) []byte { return library(elf.EM_X86_64, elf.ET_DYN, text) }

// sandbox gives the test a home of its own and a search path without plugins,
// and allows installing. It returns the user's folder for plugins.
func sandbox(t *testing.T) (user string) {
	t.Setenv("HOME", filepath.Join(t.TempDir(), "[home")) // paths are no patterns
	t.Setenv(SearchPath, t.TempDir())
	t.Setenv(NoInstall, "")
	unset(t, noAutoInstall)
	user, err := userDir()
	require.NoError(t, err)
	return user
}

// unset removes a variable for the time of the test.
func unset(t *testing.T, name string) {
	t.Setenv(name, "") // restores it afterwards
	require.NoError(t, os.Unsetenv(name))
}

// newTest is a setup for linux/amd64 with the sources given.
func newTest(log *slog.Logger, list ...source) *setup {
	s := newSetup(CPU, log)
	s.goos, s.goarch, s.sources, s.timeout = "linux", "amd64", list, time.Minute
	return s
}

func write(t *testing.T, path string, data []byte) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, data, 0o644))
	return path
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// archive zips files in the order of their names.
func archive(t *testing.T, files map[string][]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		w, err := z.Create(name)
		require.NoError(t, err)
		_, err = w.Write(files[name])
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	return b.Bytes()
}

// names lists a folder without the lock file, which stays.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	out := []string{}
	for _, e := range entries {
		if e.Name() != ".lock" {
			out = append(out, e.Name())
		}
	}
	return out
}
