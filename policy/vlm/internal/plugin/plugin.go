// Package plugin finds, checks and installs the PJRT plugin: the shared library
// with XLA's compiler and runtime that the policy loads when a program starts.
//
// Find searches where go-xla searches. Ensure installs the plugin if Find finds none:
//
//   - for the CPU the release that go-xla names, else a pinned wheel fetched by pip;
//   - for CUDA a pinned set of wheels fetched by pip.
//
// Files are unpacked beside their destination and renamed into place, under a lock
// between processes, so that a folder contains a complete plugin or none. A sidecar
// records size and SHA-256; later starts compare them before loading anything, and
// need no network.
package plugin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strings"
)

var (
	// ErrMissing is wrapped by errors about a missing plugin.
	ErrMissing = errors.New("no plugin")
	// ErrCorrupt is wrapped when a file exists but must not be loaded. A damaged
	// library can kill the process inside the dynamic loader, where nothing can be
	// caught.
	ErrCorrupt = errors.New("damaged plugin")
)

// Environment variables of this package.
const (
	// NoInstall forbids installing anything when set to other than "", "0" or "false".
	NoInstall = "VAGEN_NO_PLUGIN_INSTALL"
	// noAutoInstall is GoMLX's switch. Any value has this effect.
	noAutoInstall = "GOMLX_NO_AUTO_INSTALL"
	// SearchPath is go-xla's list of folders to search instead of its own.
	SearchPath = "PJRT_PLUGIN_LIBRARY_PATH"
)

// Kind is the hardware that a plugin supports.
type Kind string

// The kinds of plugins.
const (
	CPU  Kind = "cpu"
	CUDA Kind = "cuda" // NVIDIA, linux/amd64
)

// Plugin is a shared library that has been checked and may be loaded.
type Plugin struct {
	Path   string // absolute
	Size   int64  // bytes
	SHA256 string // lower-case hex; empty without a sidecar
	Source string // origin according to the sidecar; empty without one
}

// Find returns the plugin that go-xla would load, or else the one in the user's
// folder, after checking it. It installs nothing. The error wraps ErrMissing or
// ErrCorrupt.
func Find(ctx context.Context, kind Kind) (Plugin, error) {
	return newSetup(kind, nil).find(ctx)
}

// Ensure is Find, but installs a plugin into the user's folder if there is none,
// unless the environment forbids it. This may take minutes; progress is logged to
// log, which may be nil.
func Ensure(ctx context.Context, kind Kind, log *slog.Logger) (Plugin, error) {
	return newSetup(kind, log).ensure(ctx)
}

func newSetup(kind Kind, log *slog.Logger) *setup {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := &setup{kind: kind, goos: runtime.GOOS, goarch: runtime.GOARCH, ldConf: "/etc/ld.so.conf", log: log}
	s.sources, s.timeout = sources(kind, s.goos, s.goarch)
	return s
}

// installDisabledBy names the environment variable that forbids installing, if one does.
func installDisabledBy() (name string, ok bool) {
	if switchedOn(NoInstall) {
		return NoInstall, true
	}
	if _, set := os.LookupEnv(noAutoInstall); set {
		return noAutoInstall, true
	}
	return "", false
}

// find searches for a plugin and verifies it.
func (s *setup) find(ctx context.Context) (Plugin, error) {
	dirs := s.searchDirs()
	path, ok := search(dirs, s.kind)
	if !ok {
		return Plugin{}, fmt.Errorf("plugin: %s: %w in %s", s.kind, ErrMissing, summary(dirs))
	}
	return verify(ctx, path, s.goos, s.goarch)
}

// summary shortens a list of folders; the linker's folders at its end are many.
func summary(dirs []string) string {
	const most = 3
	if len(dirs) > most {
		return fmt.Sprintf("%s and %d more folders", strings.Join(dirs[:most], ", "), len(dirs)-most)
	}
	return strings.Join(dirs, ", ")
}
