package field

import (
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"vagen/internal/floats"
)

// Struct reports every value that the tags of its field refuse, see Tags. The fields of the struct that v
// points to have their names in the given tag.
func (c *Checks) Struct(v any, tag string) {
	s := reflect.ValueOf(v).Elem()
	for name, f := range Named(s.Type(), tag) {
		c.Tags(name, s.FieldByIndex(f.Index), f.Tag.Get)
	}
}

// Tags reports a value that the tags of its field refuse. tag returns the text of one, "" without it:
//
//	range:"0,1"       a number within these bounds; ">0,1" excludes the lower one
//	must:"be even"    what the error says about range, instead of its bounds
//	least:"1"         a number or a duration that is not smaller
//	count:"positive"  a number from 1, or with "0" from 0; after a comma the largest, else Most
//	oneof:"a b"       one of these texts, or a list of them
//	holds:"variable"  empty, or the name of an environment variable in capitals; others may be keys and are not shown
//
// Infinities and NaN are refused without a tag: no setting means anything with them. A nil pointer passes.
func (c *Checks) Tags(key string, v reflect.Value, tag func(key string) string) {
	if v = reflect.Indirect(v); !v.IsValid() {
		return
	}
	if text := tag("oneof"); text != "" {
		values, isList := v.Interface().([]string)
		if !isList {
			values = []string{v.String()}
		}
		for _, x := range values {
			c.OneOf(key, x, strings.Split(text, " ")...)
		}
	}
	if tag("holds") == "variable" && !variable.MatchString(v.String()) {
		c.Bad(key, "not the name of an environment variable in capitals; it is not shown because it may be a key")
	}
	if v.CanFloat() && tag("range") == "" && !floats.Finite(v.Float()) {
		c.Bad(key, "%v, must be finite", v)
		return
	}
	if text := tag("range"); text != "" && !within(v, text) {
		must := tag("must")
		if must == "" {
			must = "be in [" + strings.Replace(text, ",", ", ", 1) + "]"
		}
		c.Bad(key, "%v, must %s", v, must)
	}
	if text := tag("least"); text != "" {
		least := number(text)
		if v.CanInt() && v.Int() < int64(least) || v.CanFloat() && v.Float() < least {
			c.Bad(key, "%v, must be at least %v", v, reflect.ValueOf(least).Convert(v.Type())) // with a duration's unit
		}
	}
	least, most, bounded := strings.Cut(tag("count"), ",")
	switch {
	case bounded && v.Int() > int64(number(most)):
		c.Bad(key, "%v, must be at most %s", v, most)
	case least == "positive":
		c.Positive(key, int(v.Int()))
	case least != "":
		c.Count(key, int(v.Int()))
	}
}

// variable matches names of environment variables, and the empty text.
var variable = regexp.MustCompile(`^([A-Z_][A-Z0-9_]*)?$`)

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
