package config

import (
	"slices"

	"vagen/internal/field"
	"vagen/internal/settings"
)

// sizes refuses every count above field.Most that no other rule refuses: steps, lengths and sizes
// are added and multiplied, and a larger one would overflow. It is checked for all stages, because
// a stored configuration may be used by another one. Seeds are no counts; see seed.
func (v *validator) sizes(c *Config) {
	reported := field.Keys(v.Err())
	for _, k := range settings.Keys(c) {
		n, ok := k.Value.(int)
		if p, isPointer := k.Value.(*int); isPointer && p != nil {
			n, ok = *p, true
		}
		if ok && n > field.Most && !slices.Contains(reported, k.Path) {
			v.Bad(k.Path, "%d, must be at most %d", n, field.Most)
		}
	}
}
