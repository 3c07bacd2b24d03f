package settings

import (
	"fmt"
	"reflect"
	"strings"
)

// Unused is a setting that has no effect.
type Unused struct {
	Path    string
	By, Why string // the setting that makes it so, and how, as in "run.queue" and "is null"
	Noted   bool   // worth a note, not an error
}

// Idle lists the settings that have no effect with the values of others, as the tags idle and noted
// say: the first true sentence of idle:"run.queue is null; run.waves is 1" counts, and nothing if none is.
// Null and empty are every value that is either; other values end at a comma, behind which a
// sentence may explain.
func Idle(v any) []Unused {
	of := fieldsOf(v)
	var out []Unused
	for f := range of.all {
		for _, tag := range []string{"idle", "noted"} {
			for sentence := range strings.SplitSeq(f.tag[tag], "; ") {
				by, why, _ := strings.Cut(sentence, " ")
				value, _, _ := strings.Cut(strings.TrimPrefix(why, "is "), ",")
				if other, ok := of.leaf(by); ok && other.is(value) {
					out = append(out, Unused{f.path, by, why, tag == "noted"})
					break
				}
			}
		}
	}
	return out
}

// is reports whether a leaf has the value that a text stands for.
func (f leaf) is(value string) bool {
	if value == "null" || value == "empty" {
		return f.IsZero() || f.Kind() == reflect.Slice && f.Len() == 0
	}
	return fmt.Sprint(f.Interface()) == value
}
