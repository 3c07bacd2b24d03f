package settings

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"vagen/internal/field"
)

// Check reports every value that the tags of its field refuse:
//
//	range:"0,1"       a number within these bounds; ">0,1" excludes the lower one
//	must:"be even"    what the error says about range, instead of its bounds
//	count:"positive"  a number from 1, or with "0" from 0; after a comma the largest, else field.Most
//	oneof:"a b"       one of these texts, or a list of them
//
// A value that stands for null passes.
func Check(c *field.Checks, v any) {
	walk(v, func(path string, f leaf) {
		v := reflect.Indirect(f.Value)
		if !v.IsValid() || f.isNull() {
			return
		}
		if text, ok := f.tag["oneof"]; ok {
			values, isList := v.Interface().([]string)
			if !isList {
				values = []string{v.String()}
			}
			for _, x := range values {
				c.OneOf(path, x, strings.Split(text, " ")...)
			}
		}
		if text, ok := f.tag["range"]; ok && !within(v, text) {
			must := f.tag["must"]
			if must == "" {
				must = "be in [" + strings.Replace(text, ",", ", ", 1) + "]"
			}
			c.Bad(path, "%v, must %s", v, must)
		}
		least, most, bounded := strings.Cut(f.tag["count"], ",")
		switch {
		case bounded && v.Int() > int64(number(most)):
			c.Bad(path, "%v, must be at most %s", v, most)
		case least == "positive":
			c.Positive(path, int(v.Int()))
		case least != "":
			c.Count(path, int(v.Int()))
		}
	})
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

// within reports whether a number is in a range.
func within(v reflect.Value, text string) bool {
	low, high, _ := strings.Cut(text, ",")
	low, open := strings.CutPrefix(low, ">")
	least, most := number(low), number(high)
	if v.CanInt() {
		return v.Int() >= int64(least) && v.Int() <= int64(most)
	}
	return v.Float() >= least && v.Float() <= most && !(open && v.Float() == least)
}

// number is a number in a tag.
func number(text string) float64 {
	x, _ := strconv.ParseFloat(text, 64) // declarations are tested
	return x
}
