// Package presets holds the configurations that have names: those of VAGEN's paper,
// of its first release, of its Lite and its newest system.
//
// A preset is a YAML file. Its first line says what it is; "# on: NAME" puts it on
// top of another one, "# also: NAME, …" gives it further names. Files that begin
// with an underscore are there for others to stand on.
package presets

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"vagen/internal/nearest"
)

//go:embed files/*.yaml
var files embed.FS

// ErrUnknown is wrapped by errors about names that no preset has.
var ErrUnknown = errors.New("unknown preset")

// Preset is a named configuration.
type Preset struct {
	Name  string
	About string
	Also  []string // further names
	on    string
	yaml  []byte
}

// Layer is a document of a preset, to be put on those before it.
type Layer struct {
	Name string
	YAML []byte
}

// All lists the presets by name.
func All() []Preset {
	var out []Preset
	for _, p := range read() {
		if !strings.HasPrefix(p.Name, "_") {
			out = append(out, p)
		}
	}
	return out
}

// read parses all files, in the order of their names.
func read() []Preset {
	paths, err := fs.Glob(files, "files/*.yaml")
	if err != nil {
		panic(fmt.Sprintf("presets: %v", err)) // the pattern is constant
	}
	var out []Preset
	for _, path := range paths {
		raw, err := files.ReadFile(path)
		if err != nil {
			panic(fmt.Sprintf("presets: %v", err)) // embedded files can be read
		}
		p := Preset{Name: strings.TrimSuffix(strings.TrimPrefix(path, "files/"), ".yaml"), yaml: raw}
		for i, line := range strings.Split(string(raw), "\n") {
			text, comment := strings.CutPrefix(line, "# ")
			if !comment {
				break
			}
			if name, ok := strings.CutPrefix(text, "on: "); ok {
				p.on = name
			} else if names, ok := strings.CutPrefix(text, "also: "); ok {
				p.Also = strings.Split(names, ", ")
			} else if i == 0 {
				p.About = text
			}
		}
		out = append(out, p)
	}
	return out
}

// Layers returns the documents of a preset, those that others stand on first.
func Layers(name string) ([]Layer, error) {
	all := read()
	at := slices.IndexFunc(all, func(p Preset) bool { return p.Name == name || slices.Contains(p.Also, name) })
	if at < 0 || strings.HasPrefix(name, "_") {
		names := Names()
		return nil, fmt.Errorf("%w %q%s; there are %s", ErrUnknown, name, nearest.Hint(name, names), strings.Join(names, ", "))
	}
	return stack(all, at)
}

// System returns the defaults of a generation of VAGEN as documents to be put below
// everything else, and whether there is one with this name.
func System(name string) ([]Layer, bool) {
	all := read()
	at := slices.IndexFunc(all, func(p Preset) bool { return p.Name == "_system_"+name })
	if at < 0 {
		return nil, false
	}
	layers, err := stack(all, at)
	return layers, err == nil
}

// stack returns a document and those below it, the lowest first.
func stack(all []Preset, at int) ([]Layer, error) {
	var out []Layer
	for {
		p := all[at]
		out = append([]Layer{{Name: p.Name, YAML: p.yaml}}, out...)
		if p.on == "" {
			return out, nil
		}
		if at = slices.IndexFunc(all, func(q Preset) bool { return q.Name == p.on }); at < 0 || len(out) > len(all) {
			return nil, fmt.Errorf("preset %s is on %q, which does not exist", p.Name, p.on)
		}
	}
}

// Names lists the presets.
func Names() []string {
	var out []string
	for _, p := range All() {
		out = append(out, p.Name)
	}
	return out
}
