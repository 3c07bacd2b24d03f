// Package answer reads the lists of objects in the answers of language models that judge.
package answer

import (
	"encoding/json"
	"regexp"
	"strings"
)

// Limits on reading a judge's answer. Answers have a few hundred tokens; the search
// for a list from every bracket must also end for a hostile one.
const (
	maxAnswer = 1 << 16
	maxLooked = 1 << 22
)

const (
	announced = "Output JSON:"
	fence     = "```json"
	fenceEnd  = "```"
)

// List finds the list of objects in a judge's answer: in the code blocks
// marked as JSON that follow the words "Output JSON:", else the first pair of
// balanced brackets anywhere that holds a list of objects, or nothing. It
// reports whether there is one; an answer longer than 64 KiB is cut first.
//
// Doubled braces are read as single ones, because a model repeats doubled braces of
// its prompt; as in the original, this breaks objects within objects. NaN and
// Infinity, which Python accepts, become null.
func List(answer string) ([]map[string]any, bool) {
	answer = answer[:min(len(answer), maxAnswer)]
	answer = strings.ReplaceAll(strings.ReplaceAll(answer, "{{", "{"), "}}", "}")
	if _, after, ok := strings.Cut(answer, announced); ok {
		for {
			_, block, found := strings.Cut(after, fence)
			if !found {
				break
			}
			body, rest, closed := strings.Cut(block, fenceEnd)
			if !closed {
				break
			}
			if list, others, ok := objects(body); ok && others == 0 {
				return list, true
			}
			after = rest
		}
	}
	for looked, at := 0, 0; looked < maxLooked; at++ {
		i := strings.IndexByte(answer[at:], '[')
		if i < 0 {
			return nil, false
		}
		at += i
		end := balanced(answer[at:])
		looked += end
		if end == 0 {
			looked += len(answer) - at
			continue
		}
		if list, others, ok := objects(answer[at : at+end]); ok && others == 0 {
			return list, true
		}
	}
	return nil, false
}

// balanced returns the length of the text up to the bracket that closes the one
// it starts with, 0 when there is none. Brackets within strings don't count.
func balanced(s string) int {
	depth, quoted := 0, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[':
			depth++
		case c == ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return 0
}

// objects returns the objects of a list, and the number of its other entries.
func objects(s string) (out []map[string]any, others int, ok bool) {
	var list []any
	if json.Unmarshal([]byte(plainNumbers(s)), &list) != nil || list == nil {
		return nil, 0, false
	}
	out = make([]map[string]any, 0, len(list))
	for _, entry := range list {
		if object, ok := entry.(map[string]any); ok {
			out = append(out, object)
		}
	}
	return out, len(list) - len(out), true
}

// notNumbers matches strings, and Python's names of non-numbers outside them.
var notNumbers = regexp.MustCompile(`(?s)"(?:\\.|[^"\\])*"?|NaN|-?Infinity`)

// plainNumbers replaces Python's names of non-numbers outside strings by null.
func plainNumbers(s string) string {
	if !strings.Contains(s, "NaN") && !strings.Contains(s, "Infinity") {
		return s
	}
	return notNumbers.ReplaceAllStringFunc(s, func(found string) string {
		if found[0] == '"' {
			return found
		}
		return "null"
	})
}

// Outer reads a judge's answer as VAGEN next does: the text from the first
// opening to the last closing bracket must be one JSON list, whose objects are
// returned. It reports false if it is not; an answer longer than 64 KiB is cut first.
func Outer(answer string) ([]map[string]any, bool) {
	answer = answer[:min(len(answer), maxAnswer)]
	from, to := strings.IndexByte(answer, '['), strings.LastIndexByte(answer, ']')
	if from < 0 || to < from {
		return nil, false
	}
	list, _, ok := objects(answer[from : to+1])
	return list, ok
}
