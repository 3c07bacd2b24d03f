package reward

import (
	"regexp"
	"strings"
)

// aliases are the names that are searched for the sections of a malformed response,
// in this order, first as tags and then as labels.
var aliases = map[string][]string{
	SectionObservation: {perceptionTag, "observation"},
	SectionReasoning:   {"reasoning", "think", "thought"},
	SectionPrediction:  {"prediction"},
	SectionAnswer:      {answerTag, actionTag},
}

// pattern finds the tags of a name, and its label at the start of a text.
type pattern struct{ opening, closing, label *regexp.Regexp }

// patterns are those of the aliases, in any case. As in Python's matching, four letters beyond ASCII count as i, k
// and s; regexp itself knows those of k and s.
var patterns = func() map[string]pattern {
	const space = `[\t-\r\x1c-\x20\x{85}\pZ]*`
	all := map[string]pattern{}
	for _, names := range aliases {
		for _, name := range names {
			folded := strings.ReplaceAll(name, "i", "[iİı]")
			all[name] = pattern{
				opening: regexp.MustCompile(`(?i)<` + folded + `>`),
				closing: regexp.MustCompile(`(?i)</` + folded + `>`),
				label:   regexp.MustCompile(`(?i)\A` + folded + space + `:`),
			}
		}
	}
	return all
}()

// recoverSection returns the content of a section of a malformed response: of the first
// block with one of its tags, else of the first line that starts with one of its
// names and a colon. Case is ignored. It returns "" if neither exists or the first
// match is empty.
func recoverSection(text, section string) string {
	for _, find := range []func(text, name string) (string, bool){looseBlock, labelled} {
		for _, name := range aliases[section] {
			if content, ok := find(text, name); ok {
				return strip(content)
			}
		}
	}
	return ""
}

// looseBlock finds the first block of a tag, in any case.
func looseBlock(text, tag string) (content string, ok bool) {
	opening := patterns[tag].opening.FindStringIndex(text)
	if opening == nil {
		return "", false
	}
	text = text[opening[1]:]
	closing := patterns[tag].closing.FindStringIndex(text)
	if closing == nil {
		return "", false
	}
	return text[:closing[0]], true
}

// labelled finds the first line that starts with the label and a colon, and returns
// the rest of the line or, if that is blank, the next line that is not.
func labelled(text, label string) (content string, ok bool) {
	for {
		text = text[skipSpace(text, 0):]
		if found := patterns[label].label.FindStringIndex(text); found != nil {
			if content, ok := firstLine(text[found[1]:]); ok {
				return content, true
			}
		}
		if _, text, ok = strings.Cut(text, "\n"); !ok {
			return "", false
		}
	}
}

// firstLine returns the line of the first character that is not white space. When there
// is only white space, there is a line if that has anything but line ends.
func firstLine(text string) (string, bool) {
	start := skipSpace(text, 0)
	if start == len(text) {
		return "", strings.Trim(text, "\n") != ""
	}
	line, _, _ := strings.Cut(text[start:], "\n")
	return line, true
}
