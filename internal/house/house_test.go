package house_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../.."

// pkg is the output of go list for a package.
type pkg struct {
	ImportPath    string
	Imports, Deps []string
	CgoFiles      []string
	Standard      bool
	DepOnly       bool
	Module        *struct {
		Path string
		Main bool
	}
}

// packages returns the packages of this module and all that they import.
var packages = sync.OnceValues(func() (map[string]pkg, error) {
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Imports,Deps,CgoFiles,Standard,DepOnly,Module", "./...")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	ps := map[string]pkg{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return ps, nil
		} else if err != nil {
			return nil, err
		}
		ps[p.ImportPath] = p
	}
})

func list(t *testing.T) map[string]pkg {
	ps, err := packages()
	require.NoError(t, err)
	return ps
}

// sources reads the Go files without tests, by their paths from the root.
func sources(t *testing.T) map[string]string {
	files, tree := map[string]string{}, os.DirFS(root)
	require.NoError(t, fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		raw, err := fs.ReadFile(tree, name)
		files[name] = string(raw)
		return err
	}))
	return files
}

// TestTheRootHoldsNoCode: the root contains folders, documents and doc.go.
func TestTheRootHoldsNoCode(t *testing.T) {
	names, err := filepath.Glob(filepath.Join(root, "*.go"))
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(root, "doc.go")}, names)
}

// public returns the name of a package in the list of imports: internal packages
// belong to the public one above them, and those of the root to none.
func public(path string) string {
	path = strings.TrimPrefix(path, "vagen/")
	if i := strings.Index(path, "internal/"); i >= 0 {
		return strings.TrimSuffix(path[:i], "/")
	}
	return path
}

var arrow = regexp.MustCompile(`(?m)^([a-z/]+) +[0-9]+ → (.*)$`)

// TestTheArrowsBetweenPackagesAreDrawn: the list in docs/packages.md has one line for every
// public package of the library, with the number of modules that it needs and the public
// packages that it imports itself or through its internal packages.
func TestTheArrowsBetweenPackagesAreDrawn(t *testing.T) {
	imports, needs := map[string][]string{}, map[string]map[string]bool{}
	for _, p := range list(t) {
		from := public(p.ImportPath)
		if p.DepOnly || from == "" || from == "vagen" || regexp.MustCompile(`^(cmd|examples|studies)/`).MatchString(from) {
			continue
		}
		imports[from] = append(imports[from], "") // packages without imports are listed, too
		if p.ImportPath == "vagen/"+from {
			needs[from] = modules(list(t), p)
		}
		for _, to := range p.Imports {
			if strings.HasPrefix(to, "vagen/") && public(to) != from {
				imports[from] = append(imports[from], public(to))
			}
		}
	}
	names, width := []string{}, 0
	for name := range imports {
		names, width = append(names, name), max(width, len(name))
	}
	slices.Sort(names)
	var want strings.Builder
	for _, name := range names {
		to := imports[name]
		slices.Sort(to)
		if to = slices.Compact(to)[1:]; len(to) == 0 {
			to = []string{"nothing"}
		}
		fmt.Fprintf(&want, "%-*s %2d → %s\n", width, name, len(needs[name]), strings.Join(to, ", "))
	}
	var drawn string
	for _, d := range documents(t) {
		for _, b := range d.blocks {
			if b.lang == "text" {
				require.Equal(t, "packages.md", d.name, "the arrows are drawn once")
				drawn += b.text
			}
		}
	}
	require.Equal(t, want.String(), drawn, "the block of arrows in docs/packages.md must be\n%s", want.String())
}

// modules returns the modules of others that a package needs.
func modules(ps map[string]pkg, p pkg) map[string]bool {
	out := map[string]bool{}
	for _, dep := range p.Deps {
		if d := ps[dep]; !d.Standard && d.Module != nil && !d.Module.Main {
			out[d.Module.Path] = true
		}
	}
	return out
}

// TestThePartsAreLight: importing one of these packages adds no GoMLX, no cgo, and few
// modules beside the standard library.
func TestThePartsAreLight(t *testing.T) {
	ps := list(t)
	most := map[string]int{"mask": 0, "advantage": 5, "reward": 5, "env": 5, "policy": 5, "policy/engine": 5,
		"policy/loss": 5, "rollout": 5}
	for path, p := range ps {
		name := strings.TrimPrefix(path, "vagen/")
		limit, part := most[name]
		if !part && !regexp.MustCompile(`^vagen/(advantage|reward|env|policy/loss|policy/chat|rollout)/`).MatchString(path) {
			continue
		}
		for _, dep := range p.Deps {
			d := ps[dep]
			if d.Standard || d.Module == nil || d.Module.Main {
				continue
			}
			require.NotContains(t, dep, "gomlx", name)
			require.NotContains(t, dep, "nats-io", name)
			require.Empty(t, d.CgoFiles, "%s reaches cgo through %s", name, dep)
		}
		if part {
			reached := modules(ps, p)
			require.LessOrEqual(t, len(reached), limit, "%s reaches %v", name, reached)
			delete(most, name)
		}
	}
	require.Empty(t, most, "no such packages")
}

// TestTheRoomsOfTheModelDependOneWay: the packages below policy/vlm that hold a part of a model import only these
// others of them. Families of models are known to package model, and to package create, which writes their config.json.
func TestTheRoomsOfTheModelDependOneWay(t *testing.T) {
	const in = "vagen/policy/vlm/internal/"
	rooms := map[string][]string{
		"device": nil, "model": {"device"}, "backend": {"device"}, "net": {"device", "model"},
		"weights":  {"backend", "device", "model", "net"},
		"generate": {"backend", "device", "model", "net"}, "plan": {"device", "generate", "model", "net"},
		"learn": {"backend", "device", "model", "net", "weights"}, "create": {"model", "weights"},
	}
	ps := list(t)
	for name, may := range rooms {
		p, ok := ps[in+name]
		require.True(t, ok, name)
		for _, path := range p.Imports {
			other := strings.TrimPrefix(path, in)
			if _, room := rooms[other]; room && path != other {
				require.Contains(t, may, other, name)
			}
			require.NotEqual(t, "vagen/policy/vlm", path, name)
		}
	}
	family := regexp.MustCompile(`\bmodel\.(Qwen|Llama)|\bFamily\b *[=!]=|\bText\.Linear\b`)
	for path, src := range sources(t) {
		room := strings.TrimPrefix(filepath.Dir(path), "policy/vlm/internal/")
		if _, ok := rooms[room]; ok && room != "model" && room != "create" {
			require.NotRegexp(t, family, src, path)
		}
	}
}

// TestTheLoopDrawsNothing: package train does not depend on a module for plots, PDF or
// fonts, nor on GoMLX or NATS. A run does not depend on a NATS server or on what that brings, such
// as the handlers of net/http/pprof.
func TestTheLoopDrawsNothing(t *testing.T) {
	const pictures = `gonum.org/v1/plot|codeberg.org|font|pdf|fogleman|latex`
	without := map[string]string{"train/run": `gonum.org/v1/plot|codeberg.org|nats-server|net/http/pprof`}
	for _, name := range []string{"train", "train/config", "train/credit", "train/proof", "train/track", "train/view"} {
		without[name] = pictures + `|gomlx|nats-io`
	}
	for name, not := range without {
		p, ok := list(t)["vagen/"+name]
		require.True(t, ok, name)
		for _, dep := range p.Deps {
			require.NotRegexp(t, not, dep, name)
		}
	}
}
