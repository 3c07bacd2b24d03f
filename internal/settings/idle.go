package settings

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Unused is a setting that has no effect.
type Unused struct {
	Path    string
	By, Why string // the setting that makes it so, and how, as in "run.queue" and "is null"
	Noted   bool   // worth a note, not an error
}

// Idle lists the settings that have no effect with the values of others, as the tags idle and noted
// say: the first true sentence of idle:"run.queue is null; .style is not linear|cosine" counts, and nothing if none is.
// A setting that begins with a dot is one of the same group. Null and empty are every value that is either; other
// values end at a comma, behind which a sentence may explain.
func Idle(v any) []Unused {
	of := fieldsOf(v)
	var out []Unused
	for f := range of.all {
		for _, tag := range []string{"idle", "noted"} {
			for sentence := range strings.SplitSeq(f.tag[tag], "; ") {
				by, why, _ := strings.Cut(sentence, " ")
				if strings.HasPrefix(by, ".") {
					by = f.path[:strings.LastIndexByte(f.path, '.')] + by
				}
				if other, ok := of.leaf(by); ok {
					if why, ok := other.satisfies(why); ok {
						out = append(out, Unused{f.path, by, why, tag == "noted"})
						break
					}
				}
			}
		}
	}
	return out
}

// satisfies reports whether a sentence about a setting is true, and returns it with the setting's value.
func (f leaf) satisfies(sentence string) (why string, ok bool) {
	values, _, _ := strings.Cut(strings.TrimPrefix(sentence, "is "), ",")
	others, not := strings.CutPrefix(values, "not ")
	value := fmt.Sprint(f.Interface())
	if others == "null" || others == "empty" { // the value may be long, or contain a secret
		value = map[bool]string{false: others, true: "set"}[not]
	}
	return strings.Replace(sentence, values, value, 1), slices.ContainsFunc(strings.Split(others, "|"), f.is) != not
}

// is reports whether a leaf has the value that a text stands for.
func (f leaf) is(value string) bool {
	if value == "null" || value == "empty" {
		return f.IsZero() || f.Kind() == reflect.Slice && f.Len() == 0
	}
	return fmt.Sprint(f.Interface()) == value
}
