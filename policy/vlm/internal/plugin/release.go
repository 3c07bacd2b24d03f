package plugin

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gomlx/go-xla/installer"

	"vagen/internal/origin"
	"vagen/internal/transport"
)

// ReleaseVersion is the release of the CPU plugin that go-xla v0.4.1 was tested
// with: its pjrt.DefaultCPUVersion, a package that needs cgo.
const ReleaseVersion = "v0.114.0"

// release fetches the plugin that go-xla's installer would install. The installer
// unpacks the file. The download is implemented here, because the installer's takes no context, writes to standard
// output, and first asks an API of GitHub for the address, which refuses more than a few requests.
type release struct {
	folder        string        // address of the archives
	answerTimeout time.Duration // time limit of the answer, after which the network counts as unreachable
	stallTimeout  time.Duration // time limit for a download without progress
}

var goXLA = release{
	"https://github.com/" + installer.BinaryCPUReleasesRepo + "/releases/download/" + ReleaseVersion,
	10 * time.Second, 30 * time.Second,
}

func (r release) fetch(ctx context.Context, s *setup, stage string) (fetched, error) {
	extension, unpack := ".tar.gz", installer.Untar
	if s.goos == "windows" {
		extension, unpack = ".zip", installer.Unzip
	}
	name := "pjrt_cpu_" + s.goos + "_" + s.goarch + extension
	archive := filepath.Join(stage, name)
	if err := r.download(ctx, s, r.folder+"/"+name, archive); err != nil {
		return fetched{}, err
	}
	files, err := unpack(archive, filepath.Join(stage, "unpacked"))
	if err != nil {
		return fetched{}, fmt.Errorf("unpacking %s: %w", name, err)
	}
	return fetched{plugin: fileName(s.kind, s.goos), source: "go-xla's release " + ReleaseVersion + " " + name},
		moveFiles(files, s, filepath.Join(stage, outDir))
}

// moveFiles moves the plugin and the licences to their places.
func moveFiles(files []string, s *setup, out string) error {
	found := false
	for _, file := range files {
		info, err := os.Lstat(file)
		if err != nil {
			return err
		}
		base := filepath.Base(file)
		switch {
		case !info.Mode().IsRegular():
		case !found && strings.HasPrefix(base, "pjrt_c_api_cpu") && strings.Contains(base, "_plugin."):
			found = true
			if err := os.Rename(file, filepath.Join(out, fileName(s.kind, s.goos))); err != nil {
				return err
			}
		case isLicense(base):
			to := filepath.Join(out, licenseDir, "go-xla-"+ReleaseVersion, base)
			if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
				return err
			}
			if err := os.Rename(file, to); err != nil {
				return err
			}
		}
	}
	if !found {
		return fmt.Errorf("the archive contains no plugin: %w", fs.ErrNotExist)
	}
	return nil
}

func isLicense(name string) bool {
	name = strings.ToUpper(name)
	return slices.ContainsFunc([]string{"LICENSE", "LICENCE", "NOTICE", "COPYING"}, func(word string) bool {
		return strings.Contains(name, word)
	})
}

// download copies the content of link to a file. It stops with the context, or when
// nothing arrives for too long.
func (r release) download(ctx context.Context, s *setup, link, file string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, link, nil)
	if err != nil {
		return err
	}
	resp, err := transport.Watched(origin.Client(origin.KeepKeys, nil), req, r.answerTimeout, r.stallTimeout)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the server answered %s", resp.Status)
	}
	tell := time.NewTicker(15 * time.Second)
	defer tell.Stop()
	return writeSynced(file, &progress{r: resp.Body, step: func(read int64) {
		select {
		case <-tell.C:
			s.log.Info("downloading the XLA plugin", "bytes", read, "of", resp.ContentLength)
		default:
		}
	}})
}

// progress calls step after every read.
type progress struct {
	r    io.Reader
	read int64
	step func(read int64)
}

func (p *progress) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	p.read += int64(n)
	p.step(p.read)
	return n, err
}
