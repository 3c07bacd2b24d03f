package dataset

import (
	"fmt"
	"slices"
	"strings"

	"vagen/internal/nearest"
	"vagen/internal/settings"
)

// Options say how files are read. The zero value accepts every name and reads the training
// split.
type Options struct {
	// Known are the names of the registered environments. If set, each name must match
	// one of them; case, underscores and hyphens are ignored, and RemoteEnv is remote.
	// Nil accepts every name.
	Known []string
	// Open accepts other names, too, because a service may know them.
	Open bool
	// Legacy applies to legacy files only.
	Legacy LegacyOptions
}

// ReadSpecs reads a file with a list of environments. All errors are reported at once,
// each with the line of its entry; the error wraps ErrFile. In texts ${oc.env:NAME} and
// ${oc.env:NAME,default} are environment variables.
func ReadSpecs(data []byte, o Options) (*File, error) {
	doc, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("dataset: %w: %w", ErrFile, err)
	}
	return readSpecs(doc, o)
}

// ReadEntries is ReadSpecs for the entries of a list envs that were decoded already, because the file has other keys,
// too. lines are those of the file, by names such as "envs[1]"; nil leaves them out of errors.
func ReadEntries(envs []any, lines map[string]int, o Options) (*File, error) {
	doc := &document{values: map[string]any{}, lines: lines}
	if err := doc.add("envs", envs); err != nil {
		return nil, fmt.Errorf("dataset: %w: %w", ErrFile, err)
	}
	return readSpecs(doc, o)
}

func readSpecs(doc *document, o Options) (*File, error) {
	f := new(File)
	var faults []error
	bad := func(key, format string, args ...any) {
		faults = append(faults, fmt.Errorf("%s%s: %w", doc.at(key), key, fmt.Errorf(format, args...)))
	}
	top := []string{"envs", "base_seed"}
	for _, key := range doc.keys {
		if !slices.Contains(top, key) {
			bad(key, "unknown key%s; the keys are %s", nearest.Hint(key, top), strings.Join(top, ", "))
		}
	}
	if v := doc.values["base_seed"]; v != nil {
		seed, ok := v.(int64)
		if f.BaseSeed = seed; !ok {
			bad("base_seed", "it is %v (%T), must be a whole number", v, v)
		}
	}
	list, _ := doc.values["envs"].([]any)
	if len(list) == 0 {
		bad("envs", "must be a list of environments")
	}
	f.Specs = make([]Spec, len(list))
	for i, entry := range list {
		s := &f.Specs[i]
		s.line = doc.at(fmt.Sprintf("envs[%d]", i))
		for _, err := range s.read(entry, o) {
			faults = append(faults, f.fault(i, err))
		}
	}
	if err := f.joinFaults(faults); err != nil {
		return nil, err
	}
	return f, nil
}

// read decodes an entry and returns its errors.
func (s *Spec) read(v any, o Options) []error {
	entry, ok := v.(map[string]any)
	if !ok {
		return []error{fmt.Errorf("it is %v, must be a mapping", v)}
	}
	var faults []error
	if old, ok := entry["env_response_length"]; ok { // has a new name
		if now, both := entry["max_env_response_per_turn"]; both && now != old {
			faults = append(faults, fmt.Errorf("env_response_length is %v and max_env_response_per_turn, its new name, is %v",
				old, now))
		}
		delete(entry, "env_response_length")
		entry["max_env_response_per_turn"] = old
	}
	if tag, ok := entry["tag_id"].(int64); ok { // often just a number
		entry["tag_id"] = fmt.Sprint(tag)
	}
	faults = append(faults, settings.Fill(s, entry)...)
	if s.Config == nil {
		s.Config = map[string]any{}
	}
	block, err := splitStateReward(s.Config)
	if err != nil {
		faults = append(faults, err)
	}
	if len(faults) > 0 {
		return faults // further errors would be consequences of these
	}
	s.StateReward = block
	faults = s.problems()
	if s.env, err = o.registered(s.Name); err != nil {
		faults = append(faults, fmt.Errorf("name: %w", err))
	}
	return faults
}
