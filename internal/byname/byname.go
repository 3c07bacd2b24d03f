// Package byname keeps things by name: it is what the registries of environments,
// harnesses, filters, metrics and losses have in common.
package byname

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"vagen/internal/nearest"
)

// Table holds things by name. The zero value is empty and ready, and all methods
// are safe for concurrent use.
type Table[T any] struct {
	mu     sync.RWMutex
	things map[string]T
}

// Add puts a thing under a name, and reports false without changing anything
// when the name is taken: to replace a thing silently would change the runs that
// name it.
func (t *Table[T]) Add(name string, thing T) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, taken := t.things[name]; taken {
		return false
	}
	if t.things == nil {
		t.things = map[string]T{}
	}
	t.things[name] = thing
	return true
}

// AddAll puts things under all of their names, for tables that are being filled
// by those who own them: it replaces what is there.
func (t *Table[T]) AddAll(things map[string]T) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.things == nil {
		t.things = make(map[string]T, len(things))
	}
	maps.Copy(t.things, things)
}

// Get returns what has a name. For a name that nothing has, the error wraps
// unknown, and tells the nearest name and all of them.
func (t *Table[T]) Get(name string, unknown error) (T, error) {
	t.mu.RLock()
	thing, ok := t.things[name]
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
	return slices.Sorted(maps.Keys(t.things))
}
