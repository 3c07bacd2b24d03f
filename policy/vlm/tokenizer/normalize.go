package tokenizer

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// normalizeNFC is normalization form C of Unicode 9.
func normalizeNFC(s string) string {
	if norm.NFC.IsNormalString(s) {
		return s // then its parts are, too
	}
	var b strings.Builder
	for {
		i := strings.IndexFunc(s, func(r rune) bool { return unicode.Is(inert, r) })
		if i < 0 {
			b.WriteString(normalizePart(s))
			return b.String()
		}
		_, size := utf8.DecodeRuneInString(s[i:])
		b.WriteString(normalizePart(s[:i]))
		b.WriteString(s[i : i+size])
		s = s[i+size:]
	}
}

// normalizePart is normalization form C. In runs of more than 30 combining marks x/text
// inserts U+034F, which is not part of the normal form.
func normalizePart(s string) string {
	out := norm.NFC.String(s)
	if strings.Count(out, "\u034f") == strings.Count(s, "\u034f") {
		return out
	}
	return composeNFC(s)
}

// composeNFC implements the definition (UAX #15): decompose, put marks in canonical
// order, compose. It is used for text that x/text would change otherwise.
func composeNFC(s string) string {
	type char struct {
		r   rune
		ccc uint8
	}
	var chars []char
	for len(s) > 0 {
		_, size := utf8.DecodeRuneInString(s)
		part := s[:size]
		p := norm.NFD.PropertiesString(part)
		if d := p.Decomposition(); d != nil {
			part = string(d)
		}
		for _, r := range part {
			chars = append(chars, char{r, norm.NFD.PropertiesString(string(r)).CCC()})
		}
		s = s[size:]
	}
	for i := 0; i < len(chars); {
		if chars[i].ccc == 0 {
			i++
			continue
		}
		end := i
		for end < len(chars) && chars[end].ccc != 0 {
			end++
		}
		slices.SortStableFunc(chars[i:end], func(a, b char) int { return int(a.ccc) - int(b.ccc) })
		i = end
	}
	var out []char
	starter := -1
	for _, c := range chars {
		if starter >= 0 {
			last := out[len(out)-1]
			blocked := len(out)-1 > starter && (last.ccc == 0 || last.ccc >= c.ccc)
			if joint, ok := compose(out[starter].r, c.r); ok && !blocked {
				out[starter].r = joint
				continue
			}
		}
		if c.ccc == 0 {
			starter = len(out)
		}
		out = append(out, c)
	}
	var b strings.Builder
	for _, c := range out {
		b.WriteRune(c.r)
	}
	return b.String()
}

// compose returns the primary composite of two characters.
func compose(a, b rune) (rune, bool) {
	joint := norm.NFC.String(string(a) + string(b))
	r, size := utf8.DecodeRuneInString(joint)
	return r, size == len(joint)
}
