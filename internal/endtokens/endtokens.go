// Package endtokens reads which tokens end a response from the files of a model's folder.
package endtokens

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"vagen/internal/jsontext"
	"vagen/internal/regular"
)

// GenerationFile is the file with a model's defaults of generation.
const GenerationFile = "generation_config.json"

// IDs is the value of eos_token_id: a token id, a list of them, or null.
type IDs []int32

// UnmarshalJSON implements json.Unmarshaler.
func (l *IDs) UnmarshalJSON(raw []byte) error {
	var one *int32
	if json.Unmarshal(raw, &one) == nil {
		*l = nil
		if one != nil {
			*l = IDs{*one}
		}
		return nil
	}
	var many []*int32 // an element null would become token 0
	if err := json.Unmarshal(raw, &many); err != nil || slices.Contains(many, nil) {
		return fmt.Errorf("eos_token_id is %.40s, must be a token id or a list of them", raw)
	}
	*l = nil
	for _, id := range many {
		*l = append(*l, *id)
	}
	return nil
}

// Check returns an error unless all ids are in [0, vocab).
func (l IDs) Check(vocab int) error {
	for _, id := range l {
		if id < 0 || int(id) >= vocab {
			return fmt.Errorf("eos_token_id is %d, must be in [0, %d)", id, vocab)
		}
	}
	return nil
}

// settings are the other values of a generation_config.json that servers of the folder read, and
// the types that they must have.
var settings = []struct {
	key, want string
	value     func() any
}{
	{"do_sample", "true or false", func() any { return new(*bool) }},
	{"temperature", "a number", func() any { return new(*float64) }},
	{"top_p", "a number", func() any { return new(*float64) }},
	{"min_p", "a number", func() any { return new(*float64) }},
	{"repetition_penalty", "a number", func() any { return new(*float64) }},
	{"top_k", "an integer", func() any { return new(*int) }},
	{"max_length", "an integer", func() any { return new(*int) }},
	{"max_new_tokens", "an integer", func() any { return new(*int) }},
}

// Generation returns eos_token_id of a folder's generation_config.json, or nil if there is no such
// file. The error names all settings whose value has a wrong type, and ids outside [0, vocab).
func Generation(dir string, vocab int) (IDs, error) {
	path := filepath.Join(dir, GenerationFile)
	raw, err := regular.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	ids, err := parse(raw, vocab)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return ids, nil
}

func parse(raw []byte, vocab int) (ids IDs, err error) {
	var file map[string]json.RawMessage
	if err := jsontext.Unmarshal(raw, &file); err != nil {
		return nil, err
	}
	if file == nil {
		return nil, errors.New("it is null, must be an object")
	}
	var bad []error
	if eos := file["eos_token_id"]; eos != nil {
		if err := json.Unmarshal(eos, &ids); err != nil {
			bad = append(bad, err)
		}
	}
	if err := ids.Check(vocab); err != nil {
		bad = append(bad, err)
	}
	for _, s := range settings {
		if v := file[s.key]; v != nil && json.Unmarshal(v, s.value()) != nil {
			bad = append(bad, fmt.Errorf("%s is %.40s, must be %s", s.key, bytes.TrimSpace(v), s.want))
		}
	}
	return ids, errors.Join(bad...)
}

// Union returns the ids of all lists in their order, each once. Negative ids mean none.
func Union(lists ...[]int32) []int32 {
	var out []int32
	for _, id := range slices.Concat(lists...) {
		if id >= 0 && !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}
