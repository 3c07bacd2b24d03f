package field

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"vagen/internal/nearest"
)

// Error is an error about settings or options.
type Error struct {
	Keys []string // those that it names, the wrong one first
	err  error
	text string // with marks around the keys; "" without any
}

// Error returns the text.
func (e *Error) Error() string { return e.err.Error() }

// Unwrap returns what the error was made of.
func (e *Error) Unwrap() error { return e.err }

// Errorf returns an error like that of fmt.Errorf. The parts of the format in braces are
// keys, as in "{run.workers} is %d".
func Errorf(format string, args ...any) *Error {
	err := fmt.Errorf(marks.Replace(format), args...)
	return marked(err, err.Error())
}

// marked returns an error with the keys and the text of a marked one.
func marked(err error, text string) *Error {
	e := &Error{text: text}
	for _, part := range strings.Split(text, open)[1:] {
		key, _, _ := strings.Cut(part, shut)
		e.Keys = append(e.Keys, key)
	}
	e.err = unmarked{err, strings.NewReplacer(open, "", shut, "").Replace(text)}
	return e
}

// Renamed returns the errors of Checks with other names for their keys, such as flags for the fields of a struct; names
// has those that differ. Errors in which they are wrapped stay as they are.
func Renamed(err error, names map[string]string) error {
	switch e := err.(type) {
	case *Error:
		if e.text == "" {
			return err
		}
		text := e.text
		for _, key := range e.Keys {
			text = strings.ReplaceAll(text, open+key+shut, open+cmp.Or(names[key], key)+shut)
		}
		return marked(e.err, text)
	case interface{ Unwrap() []error }:
		if all := e.Unwrap(); err.Error() == errors.Join(all...).Error() { // and not one error that wraps several
			list := make([]error, len(all))
			for i := range all {
				list[i] = Renamed(all[i], names)
			}
			return errors.Join(list...)
		}
	}
	return err
}

// open and shut replace the braces of a format, so that those of values stay.
const open, shut = "\x00", "\x01"

var marks = strings.NewReplacer("{", open, "}", shut)

// unmarked is an error with another text.
type unmarked struct {
	error
	text string
}

func (u unmarked) Error() string { return u.text }
func (u unmarked) Unwrap() error { return u.error }

// Under returns an error with the same text whose keys are below another one: under
// "state_reward" the key "judge.timeout" is "state_reward.judge.timeout".
func Under(prefix string, err error) error { return under{err, prefix} }

type under struct {
	error
	prefix string
}

func (u under) Unwrap() error { return u.error }

// Keys returns the keys that an error and the errors below it name.
func Keys(err error) []string {
	switch e := err.(type) {
	case nil:
		return nil
	case under:
		keys := slices.Clone(Keys(e.error))
		for i, key := range keys {
			keys[i] = e.prefix + "." + key
		}
		return keys
	case *Error:
		return slices.Concat(e.Keys, Keys(e.err))
	case interface{ Unwrap() []error }:
		var keys []string
		for _, below := range e.Unwrap() {
			keys = append(keys, Keys(below)...)
		}
		return keys
	}
	return Keys(errors.Unwrap(err))
}

// Unknown returns the error about a name that is not one of the known ones, with the
// nearest of them.
func Unknown(name string, known []string) error {
	return Errorf("unknown key %q%s", name, nearest.Hint(name, known))
}

// Checks collects errors about fields. The zero value is for settings: its errors read
// "key is value, must be …".
type Checks struct {
	owner string
	kind  error
	list  []error
}

// Options returns Checks for options. Their errors begin with the owner's name and wrap
// kind: owner: option "key": kind: value, must be …. If kind is nil, they are
// those of fields of a program: owner: Field: value, must be ….
func Options(owner string, kind error) *Checks { return &Checks{owner: owner, kind: kind} }

// Errors returns the errors in the order found.
func (c *Checks) Errors() []error { return c.list }

// Err returns the errors as one, nil when there are none.
func (c *Checks) Err() error { return errors.Join(c.list...) }

// Say adds an error whose format marks keys, as Errorf's does.
func (c *Checks) Say(format string, args ...any) { c.list = append(c.list, Errorf(format, args...)) }

// Add adds an error of another package about a key.
func (c *Checks) Add(key string, err error) {
	c.list = append(c.list, &Error{Keys: []string{key}, err: err})
}

// Bad adds an error about the value of a field: what was found, and what is allowed. The format may mark other keys.
func (c *Checks) Bad(key, format string, args ...any) {
	text, quoted := fmt.Sprintf(marks.Replace(format), args...), strconv.Quote(key)
	switch {
	case c.owner == "":
		c.Say("{%s} is %s", key, text)
	case c.kind == nil:
		c.Say("%s: {%s}: %s", c.owner, key, text)
	default:
		c.Say(`%s: option "{%s}": %w: %s`, c.owner, quoted[1:len(quoted)-1], c.kind, text)
	}
}

// OneOf refuses a text that is not one of the allowed ones, and says the nearest.
func (c *Checks) OneOf(key, value string, allowed ...string) {
	if !slices.Contains(allowed, value) {
		c.Bad(key, "%q, must be one of %q%s", value, allowed, nearest.Hint(value, allowed))
	}
}

// Within refuses a number outside low..high, and NaN.
func (c *Checks) Within(key string, value, low, high float64) {
	if !(value >= low && value <= high) {
		c.Bad(key, "%v, must be in [%v, %v]", value, low, high)
	}
}

// Most is the largest count, so that products of two counts fit an int64.
const Most = 1 << 30

// Positive refuses a count below 1 or above Most.
func (c *Checks) Positive(key string, n int) {
	switch {
	case n < 1:
		c.Bad(key, "%d, must be positive", n)
	case n > Most:
		c.Bad(key, "%d, must be at most %d", n, Most)
	}
}

// Count is Positive, but allows zero.
func (c *Checks) Count(key string, n int) {
	if n < 0 {
		c.Bad(key, "%d, must not be negative", n)
	} else if n > 0 {
		c.Positive(key, n)
	}
}
