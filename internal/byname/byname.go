// Package byname is the common part of the registries of environments, estimators,
// harnesses, filters, metrics and losses: a table of entries by name. Registries have the
// methods Register, New and Names, and a function Builtin that returns a new registry with
// the entries of the library.
package byname

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"vagen/internal/nearest"
)

// Kind describes the entries of a table, for the table's errors.
type Kind struct {
	Package   string // prefix of the errors
	Entry     string // description of an entry, such as "policy loss"
	Unknown   error  // wrapped if no entry has the name
	Duplicate error  // wrapped if the name is already used
}

// Of is a type whose zero value says which Kind the entries of a table have.
type Of interface{ Kind() Kind }

// Table holds entries by name. The zero value is empty and ready, and all methods
// are safe for concurrent use. A registry that embeds it has its methods Register, Names and Describe.
type Table[T any, K Of] struct {
	mu      sync.RWMutex
	entries map[string]Entry[T]
}

// Entry is a value with what it is, as the middle of a sentence.
type Entry[T any] struct {
	Value T
	About string
}

// Register adds an entry. A name that is empty and an entry that is nil are errors. The
// error wraps Duplicate if the name is already used: silent replacement would change the
// runs that use the name. After an error the table is unchanged.
func (t *Table[T, K]) Register(name string, entry T, about ...string) error {
	var of K
	k := of.Kind()
	if name == "" || isNil(entry) {
		return fmt.Errorf("%s: register %s %q: a name and a value are needed", k.Package, k.Entry, name)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, taken := t.entries[name]; taken {
		return fmt.Errorf("%s: register %s %q: %w", k.Package, k.Entry, name, k.Duplicate)
	}
	if t.entries == nil {
		t.entries = map[string]Entry[T]{}
	}
	t.entries[name] = Entry[T]{entry, strings.Join(about, " ")}
	return nil
}

// isNil reports whether an entry is a nil function, pointer or interface.
func isNil[T any](entry T) bool {
	switch v := reflect.ValueOf(&entry).Elem(); v.Kind() {
	case reflect.Func, reflect.Pointer, reflect.Interface:
		return v.IsNil()
	}
	return false
}

// Made returns what the factory of an entry returned. A nil result without an error is an error.
func Made[T any](made T, err error) (T, error) {
	if err == nil && isNil(made) {
		err = errors.New("its factory returned nil")
	}
	return made, err
}

// Fill adds entries and replaces existing ones. Registries use it to add the library's
// entries.
func Fill[T any, K Of](t *Table[T, K], entries map[string]Entry[T]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.entries == nil {
		t.entries = make(map[string]Entry[T], len(entries))
	}
	maps.Copy(t.entries, entries)
}

// Get returns the entry with a name. If there is none, the error wraps Unknown and lists
// the nearest name and all names.
func Get[T any, K Of](t *Table[T, K], name string) (T, error) {
	e, err := t.find(name)
	return e.Value, err
}

// Describe returns what the entry with a name is, "" if Register got no description. The error is that
// of Get.
func (t *Table[T, K]) Describe(name string) (string, error) {
	e, err := t.find(name)
	return e.About, err
}

func (t *Table[T, K]) find(name string) (Entry[T], error) {
	t.mu.RLock()
	entry, ok := t.entries[name]
	t.mu.RUnlock()
	if ok {
		return entry, nil
	}
	var of K
	k, known := of.Kind(), t.Names()
	return entry, fmt.Errorf("%s: %s %q: %w%s (known: %s)", k.Package, k.Entry, name, k.Unknown,
		nearest.Hint(name, known), strings.Join(known, ", "))
}

// Names returns all names in alphabetical order.
func (t *Table[T, K]) Names() []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Sorted(maps.Keys(t.entries))
}
