package settings

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Kind says how a key that is not a field is handled.
type Kind string

// The kinds of foreign keys.
const (
	Noted   Kind = "noted"   // accepted without effect; About names what replaces it
	Refused Kind = "refused" // an error, unless it has a harmless value; About says what to do instead
	Alias   Kind = "alias"   // another name of the field To
)

// Foreign is a key of another system that users' files may contain.
type Foreign struct {
	// Key is a dotted key. A part * stands for any one part, and as the last one
	// for the key above and all keys below it.
	Key   string
	Kind  Kind
	About string
	To    string
	// Values maps the texts of an alias's values to those of To; nil passes them on.
	// Other values are an error.
	Values map[string]any
	// Flag, if set, replaces Values. Both names may then stand in one source.
	Flag *Flag
	// Harmless are values without effect: a refused key may have them, and an
	// alias with one does not set its field. Values are compared by their text.
	Harmless []string
}

// Flag says what an alias that is true or false makes of the field that it belongs to. True
// without On and Clash uses the field's own value.
type Flag struct {
	Off   any    `yaml:"false"` // the field's value for false
	On    any    `yaml:"true"`  // for true if it would be Off
	Clash string // the end of the error about true if the field is Off; "" for none
}

// value returns the field's value from the alias's and its own.
func (f *Flag) value(alias, own any) (any, error) {
	on, ok := alias.(bool)
	switch same := fmt.Sprint(own) == fmt.Sprint(f.Off); {
	case !ok:
		return nil, errors.New("must be true or false")
	case !on:
		return f.Off, nil
	case same && f.Clash != "":
		return nil, errors.New(f.Clash)
	case same && f.On != nil:
		return f.On, nil
	}
	return own, nil
}

// Note reports a key that was given and has no effect.
type Note struct {
	Key   string
	Where string // "line 3", "override 2", with the file's name before it if there is one
	About string
}

// Covers reports whether a pattern, as Foreign.Key is one, covers a key.
func Covers(pattern, path string) bool {
	star := strings.IndexByte(pattern, '*')
	if star < 0 {
		return pattern == path
	}
	if literal := pattern[:star]; !strings.HasPrefix(path, literal) && path != strings.TrimSuffix(literal, ".") {
		return false
	}
	want, have := strings.Split(pattern, "."), strings.Split(path, ".")
	if n := len(want) - 1; want[n] == "*" {
		if len(have) < n {
			return false
		}
		want, have = want[:n], have[:n]
	}
	return len(want) == len(have) && agree(want, have)
}

// leads reports whether a pattern covers keys below a path.
func leads(pattern, path string) bool {
	want, have := strings.Split(pattern, "."), strings.Split(path, ".")
	return len(have) < len(want) && agree(want[:len(have)], have)
}

func agree(want, have []string) bool {
	for i, w := range want {
		if w != "*" && w != have[i] {
			return false
		}
	}
	return true
}

// FindForeign returns the first entry that covers a key, nil if none does.
func FindForeign(all []Foreign, path string) *Foreign {
	for i := range all {
		if Covers(all[i].Key, path) {
			return &all[i]
		}
	}
	return nil
}

// harmless reports whether a value has no effect. null and an empty text never have one.
func (f *Foreign) harmless(value any) bool {
	return value == nil || value == "" || slices.Contains(f.Harmless, display(value))
}
