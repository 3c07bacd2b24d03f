// Package prompts replaces the texts of an environment by templates of the user: for
// models that were trained with the wording of another system.
//
// There are four templates, each optional: the system prompt, the first observation of an
// episode, the later ones, and the instruction about the format of responses. They are
// given as text (option prompts) or as files of a folder (option prompt_dir).
package prompts

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"vagen/env/internal/options"
	"vagen/internal/field"
	"vagen/internal/regular"
	"vagen/reward"
)

// Placeholders of several environments.
const (
	Default     = "default"      // the environment's own text
	Observation = "observation"  // drawing or text of the state, or the mark of its picture
	Action      = "valid_action" // the executed actions of the turn before, as a list
	Turn        = "turn"         // number of the coming turn, from 1
	Format      = "format"       // instruction about the format of responses
	Example     = "example"      // a response in the format
	Form        = "form"         // the tags of the format with an ellipsis between them
	maxActions  = "max_actions_per_step"
	separator   = "action_sep"
)

// Values are the texts of placeholders by name.
type Values map[string]string

// part is one of the templates.
type part int

const (
	system part = iota
	first
	later
	format
	parts
)

// partNames are the names of the parts in option prompts, and of their files.
var partNames = [parts]string{"system", "first", "later", "format"}

// maxFile is the largest size of a file with a template, in bytes.
const maxFile = 1 << 20

// Names lists the placeholders that an environment fills beside those of every
// environment: of the system prompt and of observations.
type Names struct{ System, Observation []string }

// allowed returns the placeholders of a part.
func (n Names) allowed(p part) []string {
	list := []string{Default, maxActions, separator}
	switch p {
	case system:
		list = append(append(list, Format, Example), n.System...)
	case format:
		list = append(list, Form)
	default:
		list = append(append(list, Observation, Format), n.Observation...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Set holds the templates of an environment. The zero value has none.
type Set struct {
	response  options.Response
	templates [parts]template // nil for the environment's own text
}

// Load reads the templates of the options, and adds what is wrong with them to c.
func Load(c *field.Checks, o *options.Response, n Names) Set {
	s := Set{response: *o}
	texts := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(o.Prompts)) {
		text, ok := o.Prompts[name].(string)
		switch {
		case !slices.Contains(partNames[:], name):
			c.Bad("prompts", "%v; the parts are %s", field.Unknown(name, partNames[:]), strings.Join(partNames[:], ", "))
		case !ok:
			c.Bad("prompts."+name, "%T, must be a text", o.Prompts[name])
		default:
			texts[name] = text
		}
	}
	if o.PromptDir != "" {
		files, err := readFolder(o.PromptDir)
		if err != nil {
			c.Bad("prompt_dir", "%v", err)
		}
		for _, name := range slices.Sorted(maps.Keys(files)) {
			if _, twice := texts[name]; twice {
				c.Bad("prompt_dir", "%s.txt is in %s, but prompts.%s is set; leave one of them out", name, o.PromptDir, name)
				continue
			}
			texts[name] = files[name]
		}
	}
	for p, name := range partNames {
		text, ok := texts[name]
		if !ok {
			continue
		}
		key := "prompts." + name
		if _, inline := o.Prompts[name]; !inline {
			key = "prompt_dir"
		}
		t, err := parse(text)
		if err == nil {
			err = t.check(n.allowed(part(p)), part(p) == first || part(p) == later)
		}
		if err != nil {
			c.Bad(key, "template %s %v", name, err)
			continue
		}
		s.templates[p] = t
	}
	return s
}

// readFolder reads the files of templates in a folder. The last line break of a
// file is not part of its text.
func readFolder(dir string) (map[string]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	texts := map[string]string{}
	for _, e := range entries {
		name, isText := strings.CutSuffix(e.Name(), ".txt")
		if !isText {
			continue
		}
		if !slices.Contains(partNames[:], name) {
			return nil, fmt.Errorf("%s: %w; the files are %s.txt", dir, field.Unknown(e.Name(), nil),
				strings.Join(partNames[:], ".txt, "))
		}
		text, err := readFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		texts[name] = text
	}
	if len(texts) == 0 {
		return nil, fmt.Errorf("%s has none of the files %s.txt", dir, strings.Join(partNames[:], ".txt, "))
	}
	return texts, nil
}

func readFile(path string) (string, error) {
	raw, err := regular.ReadAtMost(path, maxFile, fs.ErrInvalid)
	return strings.TrimSuffix(string(raw), "\n"), err
}

// System returns the system prompt: the template's, or own without one. format and example are those of
// responses; more are the other placeholders that the environment has.
func (s *Set) System(own, format, example func() string, more Values) string {
	return s.write(system, own, func() Values {
		v := Values{Format: format(), Example: example()}
		maps.Copy(v, more)
		return v
	})
}

// Observation returns the first observation of an episode, or one after a turn.
func (s *Set) Observation(opening bool, own func() string, values func() Values) string {
	p := later
	if opening {
		p = first
	}
	return s.write(p, own, values)
}

// Format returns the instruction about the format of responses, which the parser reads.
func (s *Set) Format(p *reward.Parser, own func() string) string {
	return s.write(format, own, func() Values {
		return Values{Form: p.Compose(func(string) string { return "…" })}
	})
}

func (s *Set) write(p part, own func() string, values func() Values) string {
	t := s.templates[p]
	if t == nil {
		return own()
	}
	v := values()
	v[maxActions], v[separator] = strconv.Itoa(s.response.MaxActions), s.response.ActionSep
	if slices.Contains(t.names(), Default) {
		v[Default] = own()
	}
	return t.write(v)
}
