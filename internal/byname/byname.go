// Package byname is a table of entries by name. The registries of environments,
// harnesses, filters, metrics and losses are built on it.
package byname

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"vagen/internal/nearest"
)

// Table holds entries by name. The zero value is empty and ready, and all methods
// are safe for concurrent use.
type Table[T any] struct {
	mu      sync.RWMutex
	entries map[string]T
}

// Add registers an entry under a name. If the name is taken it changes nothing and
// returns false: silent replacement would change the runs that use the name.
func (t *Table[T]) Add(name string, thing T) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, taken := t.entries[name]; taken {
		return false
	}
	if t.entries == nil {
		t.entries = map[string]T{}
	}
	t.entries[name] = thing
	return true
}

// AddAll registers entries under all of their names and replaces existing ones. It is
// for tables that their owner fills.
func (t *Table[T]) AddAll(things map[string]T) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.entries == nil {
		t.entries = make(map[string]T, len(things))
	}
	maps.Copy(t.entries, things)
}

// Get returns the entry with a name. If there is none, the error wraps unknown and lists
// the nearest name and all names.
func (t *Table[T]) Get(name string, unknown error) (T, error) {
	t.mu.RLock()
	thing, ok := t.entries[name]
	t.mu.RUnlock()
	if ok {
		return thing, nil
	}
	known := t.Names()
	return thing, fmt.Errorf("%q: %w%s (known: %s)", name, unknown, nearest.Hint(name, known), strings.Join(known, ", "))
}

// Names returns all names in alphabetical order.
func (t *Table[T]) Names() []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Sorted(maps.Keys(t.entries))
}
