// Package presets contains the named configurations: those of VAGEN's paper, its first
// release, of VAGEN lite and of VAGEN next.
//
// A preset is a YAML file. Its first line is the description; "# on: NAME" is the preset
// that it extends, "# also: NAME, …" in any line are other names. Files whose names start with an
// underscore are not presets; they are only extended by others.
//
// Further documents of a file, after a line "---", have settings for environments: they
// start with a line "# for: NAME, …" and override the first document where one of these
// environments is played.
package presets

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"unicode"

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
	Also  []string // other names, as papers and scripts write them
	on    string
	yaml  []byte
	parts []part
	names []string // all, folded
}

// part is a document for some environments.
type part struct {
	environments []string
	yaml         []byte
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

// read returns all presets, in the order of their names. They must not be changed.
var read = sync.OnceValue(parse)

func parse() []Preset {
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
		documents := strings.Split(string(raw), "\n---\n")
		p := Preset{Name: strings.TrimSuffix(strings.TrimPrefix(path, "files/"), ".yaml"), yaml: []byte(documents[0])}
		for _, document := range documents[1:] {
			first, _, _ := strings.Cut(document, "\n")
			p.parts = append(p.parts, part{strings.Split(strings.TrimPrefix(first, "# for: "), ", "), []byte(document)})
		}
		for i, line := range strings.Split(documents[0], "\n") {
			text, comment := strings.CutPrefix(line, "# ")
			if !comment {
				continue
			}
			if name, ok := strings.CutPrefix(text, "on: "); ok {
				p.on = name
			} else if names, ok := strings.CutPrefix(text, "also: "); ok {
				p.Also = strings.Split(names, ", ")
			} else if i == 0 {
				p.About = text
			}
		}
		for _, name := range append([]string{p.Name}, p.Also...) {
			p.names = append(p.names, fold(name))
		}
		out = append(out, p)
	}
	return out
}

// Layers returns the documents of a preset for an environment, extended ones first;
// environment may be "". The preset's name may be written in any case and with other
// separators than underscores: "VAGEN-Full" is vagen_full.
func Layers(name, environment string) ([]Layer, error) {
	all := read()
	at := slices.IndexFunc(all, func(p Preset) bool { return !strings.HasPrefix(p.Name, "_") && p.named(name) })
	if at < 0 || strings.HasPrefix(name, "_") {
		return nil, fmt.Errorf("%w %q%s; the presets are %s", ErrUnknown, name, hint(name), strings.Join(Names(), ", "))
	}
	return stack(all, at, environment)
}

// Environments lists the environments that a preset has settings for, in alphabetical order.
func Environments(name string) []string {
	all := read()
	var out []string
	for at := slices.IndexFunc(all, func(p Preset) bool { return p.named(name) }); at >= 0; {
		for _, d := range all[at].parts {
			out = append(out, d.environments...)
		}
		on := all[at].on
		at = slices.IndexFunc(all, func(p Preset) bool { return p.Name == on })
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// named reports whether a text is one of the preset's names.
func (p *Preset) named(text string) bool {
	return slices.Contains(p.names, fold(text))
}

// fold returns a name in lower case, its words separated by underscores.
func fold(name string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(name), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}), "_")
}

// hint names the preset that an unknown name resembles most, as the end of a message.
func hint(name string) string {
	var folded []string
	written := map[string]string{}
	for _, p := range All() {
		for _, other := range append([]string{p.Name}, p.Also...) {
			if _, ok := written[fold(other)]; !ok { // the first is the preset's name
				folded, written[fold(other)] = append(folded, fold(other)), other
			}
		}
	}
	if n := nearest.Name(fold(name), folded); n != "" {
		return fmt.Sprintf(", did you mean %q?", written[n])
	}
	return ""
}

// stack returns the documents of a preset for an environment after those that it extends.
func stack(all []Preset, at int, environment string) ([]Layer, error) {
	var out []Layer
	for {
		p := all[at]
		own := []Layer{{Name: p.Name, YAML: p.yaml}}
		for _, d := range p.parts {
			if slices.Contains(d.environments, environment) {
				own = append(own, Layer{Name: p.Name + " for " + environment, YAML: d.yaml})
			}
		}
		out = append(own, out...)
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
