package plugin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"vagen/internal/durable"
	"vagen/internal/filelock"
	"vagen/internal/regular"
)

// setup is one search and, if necessary, one installation.
type setup struct {
	kind         Kind
	goos, goarch string
	ldConf       string        // the linker's configuration
	sources      []source      // where to get a plugin, first choice first
	timeout      time.Duration // for the whole installation
	log          *slog.Logger
}

// source is one place to get a plugin from.
type source struct {
	name string
	// fetch gets a plugin and unpacks it in stage/out, which has the layout of the
	// user's folder. It may use the folder stage for temporary files.
	fetch func(ctx context.Context, s *setup, stage string) (fetched, error)
}

// fetched is a plugin unpacked in a stage.
type fetched struct {
	plugin string // where it is, relative to stage/out
	source string // a one-line description for the sidecar
}

const (
	outDir      = "out"      // of a stage
	licenseDir  = "licenses" // of the user's folder, with one folder per source
	stagePrefix = ".install-"
)

// ensure finds the plugin or installs it.
func (s *setup) ensure(ctx context.Context) (Plugin, error) {
	p, err := s.find(ctx)
	if !errors.Is(err, ErrMissing) {
		return p, err
	}
	missing := err
	if env, ok := installDisabledBy(); ok {
		return Plugin{}, fmt.Errorf("%w; installing one is disabled by $%s", missing, env)
	}
	if len(s.sources) == 0 {
		return Plugin{}, fmt.Errorf("%w; no plugin is available for %s/%s", missing, s.goos, s.goarch)
	}
	if s.kind == CUDA {
		if err := thisMachine().check(); err != nil {
			return Plugin{}, fmt.Errorf("%w; not installed: %w", missing, err)
		}
	}
	dir, err := userDir()
	if err != nil {
		return Plugin{}, fmt.Errorf("%w; it cannot be installed: %w", missing, err)
	}
	limited, cancel := context.WithTimeoutCause(ctx, s.timeout, fmt.Errorf("gave up after %v", s.timeout))
	defer cancel()
	p, err = s.install(limited, dir)
	switch {
	case err == nil || errors.Is(err, ErrCorrupt):
		return p, err
	case ctx.Err() != nil: // cancelled by the caller
		return Plugin{}, fmt.Errorf("plugin: installing was stopped: %w", context.Cause(ctx))
	}
	return Plugin{}, fmt.Errorf("%w; installation failed: %w", missing, err)
}

// install puts a plugin into dir under a lock between processes.
func (s *setup) install(ctx context.Context, dir string) (Plugin, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Plugin{}, err
	}
	unlock, err := filelock.Lock(ctx, filepath.Join(dir, ".lock"), func() {
		s.log.Info("another process is installing the XLA plugin: waiting for it", "folder", dir)
	})
	if err != nil {
		return Plugin{}, err
	}
	defer unlock()
	if p, err := s.find(ctx); !errors.Is(err, ErrMissing) {
		return p, err // another process installed it meanwhile
	}
	removeLeftovers(dir)
	var problems error
	for _, src := range s.sources {
		s.log.Info("installing the XLA plugin", "kind", string(s.kind), "from", src.name, "into", dir)
		p, err := s.installFrom(ctx, src, dir)
		if err == nil {
			s.log.Info("XLA plugin installed",
				"file", p.Path, "sha256", p.SHA256, "source", p.Source)
			return p, nil
		}
		problems = also(problems, fmt.Errorf("%s: %w", src.name, err))
		s.log.Debug("XLA plugin source failed", "from", src.name, "error", err.Error())
		if ctx.Err() != nil {
			break
		}
	}
	return Plugin{}, problems
}

// also adds an error to others, which may be none, on one line, for logs.
func also(others, err error) error {
	if others == nil {
		return err
	}
	return fmt.Errorf("%w; %w", others, err)
}

// removeLeftovers removes the temporary folders of processes that were killed while installing.
// The folder is locked, so none of them is in use.
func removeLeftovers(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), stagePrefix) {
			_ = os.RemoveAll(filepath.Join(dir, e.Name()))
		}
	}
}

// installFrom fetches the plugin from one source, checks it and moves it into dir.
func (s *setup) installFrom(ctx context.Context, src source, dir string) (Plugin, error) {
	stage, err := os.MkdirTemp(dir, stagePrefix+"*")
	if err != nil {
		return Plugin{}, err
	}
	defer os.RemoveAll(stage)
	out := filepath.Join(stage, outDir)
	if err := os.Mkdir(out, 0o755); err != nil {
		return Plugin{}, err
	}
	got, err := src.fetch(ctx, s, stage)
	if err != nil {
		return Plugin{}, err
	}
	p, err := s.verifyAndRecord(ctx, filepath.Join(out, got.plugin), got.source)
	if err != nil {
		return Plugin{}, err
	}
	if err := publish(out, dir); err != nil {
		return Plugin{}, err
	}
	p.Path = filepath.Join(dir, got.plugin)
	return p, nil
}

// verifyAndRecord checks a new plugin, syncs it and writes its sidecar.
func (s *setup) verifyAndRecord(ctx context.Context, file, source string) (Plugin, error) {
	f, err := regular.Open(file)
	if err != nil {
		return Plugin{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Plugin{}, err
	}
	if err := checkFormat(f, info.Size(), s.goos, s.goarch); err != nil {
		return Plugin{}, fmt.Errorf("not a complete shared library for %s/%s: %w", s.goos, s.goarch, err)
	}
	if lacks := missingLibraries(ctx, file); lacks != "" {
		return Plugin{}, fmt.Errorf("missing libraries or symbols on this system: %s", lacks)
	}
	p := Plugin{Size: info.Size(), Source: source}
	if p.SHA256, err = hash(ctx, f); err != nil {
		return Plugin{}, err
	}
	if err := f.Chmod(0o755); err != nil {
		return Plugin{}, err
	}
	if err := f.Sync(); err != nil {
		return Plugin{}, err
	}
	return p, writeSynced(file+recordSuffix, strings.NewReader(p.record(filepath.Base(file))))
}

// missingLibraries uses the dynamic loader to list libraries and symbol versions that the plugin
// needs and the system does not have. Without ldd it returns "".
func missingLibraries(ctx context.Context, file string) string {
	ldd, err := exec.LookPath("ldd")
	if err != nil {
		return ""
	}
	cmd := exec.CommandContext(ctx, ldd, file)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	text, _ := cmd.CombinedOutput()
	var lacks []string
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "not found") {
			lacks = append(lacks, strings.TrimSpace(line))
		}
	}
	return strings.Join(lacks, "; ")
}

// publish renames everything in out into dir: first licences, then the plugin, then
// its sidecar. If the process is killed in between, no sidecar describes another
// plugin.
func publish(out, dir string) error {
	entries, err := os.ReadDir(out)
	if err != nil {
		return err
	}
	for _, e := range entries { // sorted: licenses, nvidia, x.so, x.so.sha256
		from, to := filepath.Join(out, e.Name()), filepath.Join(dir, e.Name())
		if e.Name() == licenseDir {
			if err := publishLicenses(from, to); err != nil {
				return err
			}
			continue
		}
		if e.IsDir() {
			if _, err := os.Lstat(to); err == nil {
				return fmt.Errorf("%s exists and is not a plugin; move or delete it", to)
			}
		}
		if !strings.HasSuffix(to, recordSuffix) {
			if err := os.Remove(to + recordSuffix); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
		if err := os.Rename(from, to); err != nil {
			return err
		}
	}
	return durable.Sync(dir)
}

func publishLicenses(from, to string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		target := filepath.Join(to, e.Name())
		if err := os.RemoveAll(target); err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(from, e.Name()), target); err != nil {
			return err
		}
	}
	return nil
}
