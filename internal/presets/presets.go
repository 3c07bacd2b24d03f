// Package presets contains the named configurations: those of VAGEN's paper, its first
// release, its Lite system and its newest system.
//
// A preset is a YAML file. Its first line is the description; "# on: NAME" is the preset
// that it extends, "# also: NAME, …" are other names. Files whose names start with an
// underscore are not presets; they are only extended by others.
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

// ErrUnknown is wrapped by errors about unknown names of presets.
var ErrUnknown = errors.New("unknown preset")

// Preset is a named configuration.
type Preset struct {
	Name  string
	About string
	Also  []string // other names
	on    string
	yaml  []byte
}

// Layer is a document of a preset, which overrides those before it.
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

// Layers returns the documents of a preset, extended ones first.
func Layers(name string) ([]Layer, error) {
	all := read()
	at := slices.IndexFunc(all, func(p Preset) bool { return p.Name == name || slices.Contains(p.Also, name) })
	if at < 0 || strings.HasPrefix(name, "_") {
		names := Names()
		return nil, fmt.Errorf("%w %q%s; the presets are %s", ErrUnknown, name, nearest.Hint(name, names), strings.Join(names, ", "))
	}
	return stack(all, at)
}

// System returns the documents with the defaults of a generation of VAGEN, which every
// other source overrides. ok is false if there is no generation with this name.
func System(name string) (layers []Layer, ok bool) {
	all := read()
	at := slices.IndexFunc(all, func(p Preset) bool { return p.Name == "_system_"+name })
	if at < 0 {
		return nil, false
	}
	layers, err := stack(all, at)
	return layers, err == nil
}

// stack returns a document after those that it extends.
func stack(all []Preset, at int) ([]Layer, error) {
	var out []Layer
	for {
		p := all[at]
		out = append([]Layer{{Name: p.Name, YAML: p.yaml}}, out...)
		if p.on == "" {
			return out, nil
		}
		if at = slices.IndexFunc(all, func(q Preset) bool { return q.Name == p.on }); at < 0 || len(out) > len(all) {
			return nil, fmt.Errorf("preset %s extends %q, which does not exist", p.Name, p.on)
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
