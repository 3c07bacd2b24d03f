package plugin

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"vagen/internal/regular"
)

// wheel is a Python package of which only files are used; its Python code is never
// run.
type wheel struct {
	name, version string
	sha256        string // of the wheel, lower-case hex
	library       string // name of the plugin inside, without folders; empty if it has none
}

func (w wheel) String() string { return w.name + " " + w.version }

// check compares the file's SHA-256 with the pinned one.
func (w wheel) check(ctx context.Context, file string) error {
	f, err := regular.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	sum, err := hash(ctx, f)
	if err != nil {
		return err
	}
	if sum != w.sha256 {
		return fmt.Errorf("%w: %s has SHA-256 %s, must be %s", errHash, filepath.Base(file), sum, w.sha256)
	}
	return nil
}

var errHash = errors.New("not the pinned wheel")

// requirement is a line of a pip requirements file that allows only this wheel.
func (w wheel) requirement() string {
	return fmt.Sprintf("%s==%s --hash=sha256:%s\n", w.name, w.version, w.sha256)
}

// find locates the wheel among downloaded files, by its name as wheels spell it.
func (w wheel) find(dir string) (string, error) {
	name := strings.NewReplacer("-", "_", ".", "_").Replace(w.name)
	files, err := fs.Glob(os.DirFS(dir), name+"-"+w.version+"-*.whl") // dir is no pattern
	if err != nil {
		return "", err
	}
	if len(files) != 1 {
		return "", fmt.Errorf("pip downloaded %d files for %v, must be one", len(files), w)
	}
	return filepath.Join(dir, files[0]), nil
}

// unpack writes the files of a wheel to the paths that place returns and omits files
// for which it returns "". Licences and the package's metadata go to licenses.
func (w wheel) unpack(ctx context.Context, file, licenses string, place func(name string) string) error {
	z, err := zip.OpenReader(file)
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(file), err)
	}
	defer z.Close()
	for _, f := range z.File {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if strings.HasSuffix(f.Name, "/") {
			continue
		}
		if !fs.ValidPath(f.Name) || strings.Contains(f.Name, `\`) {
			return fmt.Errorf("%s: unsafe path %q", filepath.Base(file), f.Name)
		}
		to := place(f.Name)
		if name := licensePath(f.Name); name != "" {
			to = filepath.Join(licenses, w.name+"-"+w.version, filepath.FromSlash(name))
		}
		if to == "" {
			continue
		}
		if err := extract(f, to); err != nil {
			return fmt.Errorf("%s: %s: %w", filepath.Base(file), f.Name, err)
		}
	}
	return nil
}

// licensePath returns the name, relative to a wheel's metadata folder, of a licence file; it
// is empty for all other files.
func licensePath(name string) string {
	dir, rest, ok := strings.Cut(name, ".dist-info/")
	if base := path.Base(rest); !ok || strings.Contains(dir, "/") || base != "METADATA" && !isLicense(base) {
		return ""
	}
	return strings.TrimPrefix(rest, "licenses/")
}

// extract writes one file of an archive, and checks its CRC.
func extract(f *zip.File, to string) error {
	r, err := f.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	if err := writeSynced(to, r); err != nil {
		return err
	}
	if f.Mode()&0o111 != 0 || strings.Contains(f.Name, "/bin/") {
		return os.Chmod(to, 0o755)
	}
	return nil
}

// fetch fetches the plugin from one wheel.
func (w wheel) fetch(ctx context.Context, s *setup, stage string) (fetched, error) {
	name, err := bundle{w}.unpack(ctx, s, stage, "")
	return fetched{plugin: name, source: fmt.Sprintf("wheel %v, SHA-256 %s", w, w.sha256)}, err
}

// fingerprint is a short name for a set of wheels.
func fingerprint(wheels []wheel) string {
	h := sha256.New()
	for _, w := range wheels {
		_, _ = io.WriteString(h, w.requirement())
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}
