package plugin

import (
	"bufio"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"vagen/internal/regular"
)

// verify checks a file before the dynamic loader opens it. With a sidecar, size and
// SHA-256 must match; the headers are always checked.
func verify(ctx context.Context, path, goos, goarch string) (Plugin, error) {
	damaged := func(format string, args ...any) error {
		return fmt.Errorf("plugin: %w: %s %w; delete the file and run again", ErrCorrupt, path, fmt.Errorf(format, args...))
	}
	// The sidecar is beside the library itself. go-xla's own installer makes the
	// plugin's name a link to another file, which our sidecar does not describe.
	file, err := filepath.EvalSymlinks(path)
	if err != nil {
		return Plugin{}, fmt.Errorf("plugin: %w", err)
	}
	f, err := regular.Open(file)
	if errors.Is(err, regular.ErrNotRegular) {
		return Plugin{}, damaged("is not a regular file")
	} else if err != nil {
		return Plugin{}, fmt.Errorf("plugin: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Plugin{}, fmt.Errorf("plugin: %w", err)
	}
	p := Plugin{Path: path, Size: info.Size()}
	rec, err := readRecord(file + recordSuffix)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return Plugin{}, fmt.Errorf("plugin: %w: %w; delete it and %s, and run again", ErrCorrupt, err, path)
	case rec.Size != p.Size:
		return Plugin{}, damaged("has %d bytes, %s records %d", p.Size, filepath.Base(file)+recordSuffix, rec.Size)
	default:
		sum, err := hash(ctx, f)
		if err != nil {
			return Plugin{}, fmt.Errorf("plugin: reading %s: %w", path, err)
		}
		if sum != rec.SHA256 {
			return Plugin{}, damaged("has SHA-256 %s, %s records %s", sum, filepath.Base(file)+recordSuffix, rec.SHA256)
		}
		p.SHA256, p.Source = rec.SHA256, rec.Source
	}
	if err := checkFormat(f, p.Size, goos, goarch); err != nil {
		return Plugin{}, damaged("is not a complete shared library for %s/%s: %w", goos, goarch, err)
	}
	return p, nil
}

// hash reads from the start of f.
func hash(ctx context.Context, f *os.File) (string, error) {
	h := sha256.New()
	for at := int64(0); ; {
		if err := ctx.Err(); err != nil {
			return "", context.Cause(ctx)
		}
		n, err := io.Copy(h, io.NewSectionReader(f, at, 16<<20))
		if err != nil {
			return "", err
		}
		if at += n; n == 0 {
			return hex.EncodeToString(h.Sum(nil)), nil
		}
	}
}

// checkFormat rejects files that crash the dynamic loader. Linux maps a truncated file
// without an error, and the process dies of SIGBUS at the first access beyond its end;
// macOS and Windows check lengths themselves.
func checkFormat(r io.ReaderAt, size int64, goos, goarch string) error {
	switch goos {
	case "linux":
		return checkELF(r, size, goarch)
	case "darwin":
		return checkMagic(r, "\xcf\xfa\xed\xfe", "\xca\xfe\xba\xbe")
	case "windows":
		return checkMagic(r, "MZ")
	}
	return nil
}

func checkMagic(r io.ReaderAt, magics ...string) error {
	var head [4]byte
	if _, err := r.ReadAt(head[:], 0); err != nil {
		return fmt.Errorf("reading the first bytes: %w", err)
	}
	for _, m := range magics {
		if strings.HasPrefix(string(head[:]), m) {
			return nil
		}
	}
	return fmt.Errorf("it starts with % x", head)
}

var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

func checkELF(r io.ReaderAt, size int64, goarch string) error {
	f, err := elf.NewFile(r)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("headers beyond the end of its %d bytes: the file is truncated", size)
	}
	if err != nil {
		return err
	}
	if f.Class != elf.ELFCLASS64 || f.Data != elf.ELFDATA2LSB || f.Type != elf.ET_DYN {
		return fmt.Errorf("its ELF header has %v, %v and %v, must be a 64-bit little-endian shared library", f.Class, f.Data,
			f.Type)
	}
	if want, ok := machines[goarch]; ok && f.Machine != want {
		return fmt.Errorf("it is built for %v, not %v", f.Machine, want)
	}
	loads := 0
	for i, p := range f.Progs {
		if p.Type == elf.PT_LOAD {
			loads++
		}
		if exceeds(p.Off, p.Filesz, size) {
			return fmt.Errorf("segment %d ends at byte %d of %d: the file is truncated", i, p.Off+p.Filesz, size)
		}
	}
	if loads == 0 {
		return errors.New("no loadable segment")
	}
	for i, s := range f.Sections {
		if s.Type != elf.SHT_NOBITS && s.Type != elf.SHT_NULL && exceeds(s.Offset, s.FileSize, size) {
			return fmt.Errorf("section %d ends at byte %d of %d: the file is truncated", i, s.Offset+s.FileSize, size)
		}
	}
	return nil
}

// exceeds reports whether [off, off+n) exceeds a file of that size. The numbers
// come from the file and may overflow.
func exceeds(off, n uint64, size int64) bool {
	return off > uint64(size) || n > uint64(size)-off
}

// recordSuffix is appended to a plugin's name to form its sidecar's.
const recordSuffix = ".sha256"

// record is the content of a sidecar, also valid input of sha256sum -c:
//
//	# size 201600336
//	# source wheel name 1.2.3
//	ad1309…  pjrt_c_api_cpu_plugin.so
func (p Plugin) record(file string) string {
	return fmt.Sprintf("# size %d\n# source %s\n%s  %s\n", p.Size, p.Source, p.SHA256, file)
}

// readRecord reads a sidecar. Its error is fs.ErrNotExist if there is none.
func readRecord(path string) (Plugin, error) {
	f, err := regular.Open(path)
	if err != nil {
		return Plugin{}, err
	}
	defer f.Close()
	r, err := parseRecord(f)
	if err != nil {
		return Plugin{}, fmt.Errorf("sidecar %s: %w", path, err)
	}
	return r, nil
}

func parseRecord(in io.Reader) (Plugin, error) {
	r := Plugin{Size: -1}
	sc := bufio.NewScanner(in)
	for sc.Scan() {
		line := sc.Text()
		if v, ok := strings.CutPrefix(line, "# size "); ok {
			n, err := strconv.ParseInt(v, 10, 64)
			if err != nil || n < 0 {
				return Plugin{}, fmt.Errorf("size %q must be a number of bytes", v)
			}
			r.Size = n
		} else if v, ok := strings.CutPrefix(line, "# source "); ok {
			r.Source = v
		} else if sum, _, ok := strings.Cut(line, "  "); ok && !strings.HasPrefix(line, "#") {
			if raw, err := hex.DecodeString(sum); err != nil || len(raw) != sha256.Size {
				return Plugin{}, fmt.Errorf("%q must be a SHA-256 of %d hex digits", sum, 2*sha256.Size)
			}
			r.SHA256 = strings.ToLower(sum)
		}
	}
	if err := sc.Err(); err != nil {
		return Plugin{}, err
	}
	if r.Size < 0 || r.SHA256 == "" {
		return Plugin{}, errors.New("size or SHA-256 is missing")
	}
	return r, nil
}
