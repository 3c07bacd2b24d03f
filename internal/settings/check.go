package settings

import (
	"slices"

	"vagen/internal/field"
)

// Check reports every value that the tags of its field refuse, see field.Checks.Tags. A value that stands for null
// passes.
func Check(c *field.Checks, v any) {
	for f := range fieldsOf(v).all {
		if !f.isNull() {
			c.Tags(f.path, f.Value, func(key string) string { return f.tag[key] })
		}
	}
}

// CheckCounts reports every count of a configuration above field.Most that c has no error about yet:
// steps, lengths and sizes are added and multiplied, and a larger one would overflow. Seeds, which
// have other types, are no counts.
func CheckCounts(c *field.Checks, config any) {
	reported := field.Keys(c.Err())
	for _, k := range Keys(config) {
		n, ok := k.Value.(int)
		if p, isPointer := k.Value.(*int); isPointer && p != nil {
			n, ok = *p, true
		}
		if ok && n > field.Most && !slices.Contains(reported, k.Path) {
			c.Bad(k.Path, "%d, must be at most %d", n, field.Most)
		}
	}
}
