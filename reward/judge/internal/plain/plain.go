// Package plain returns what a reader sees of a text with markup, and recognises the marks by
// which it is laid out.
package plain

import (
	"html"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Text returns the text that a reader sees, in lower case and without tags.
func Text(text string) string {
	text = Visible(text)
	if strings.IndexByte(text, '<') >= 0 {
		text = withoutTags(text)
	}
	var b strings.Builder
	for { // links in Markdown
		before, link, found := strings.Cut(text, "](")
		_, after, closed := strings.Cut(link, ")")
		if !found || !closed {
			break
		}
		b.WriteString(before)
		text = after
	}
	b.WriteString(text)
	return strings.ToLower(b.String())
}

// Visible returns a text without invisible characters, entities and the look-alike
// letters of other alphabets.
func Visible(text string) string {
	if strings.IndexByte(text, '&') >= 0 {
		text = html.UnescapeString(text)
	}
	for i := 0; i < len(text); i++ {
		if text[i] >= utf8.RuneSelf {
			return strings.Map(latin, norm.NFKC.String(text))
		}
	}
	return text
}

// withoutTags removes tags such as <b> and </observation>. A tag that may separate
// words leaves a space.
func withoutTags(text string) string {
	var b strings.Builder
	for {
		i := strings.IndexByte(text, '<')
		if i < 0 {
			break
		}
		j := strings.IndexByte(text[i:], '>')
		if j < 0 {
			break
		}
		b.WriteString(text[:i])
		name := strings.Trim(text[i+1:i+j], "/ ")
		if isTag := name != "" && name[0] < utf8.RuneSelf && unicode.IsLetter(rune(name[0])); !isTag {
			b.WriteString(text[i : i+j+1])
		} else {
			b.WriteString(tagText(strings.ToLower(name)))
		}
		text = text[i+j+1:]
	}
	b.WriteString(text)
	return b.String()
}

// tagText is what a reader sees in the place of a tag.
func tagText(name string) string {
	name, _, _ = strings.Cut(name, " ")
	switch name {
	case "b", "i", "u", "s", "q", "em", "tt", "strong", "span", "code", "mark", "small", "font", "a":
		return ""
	case "li", "p", "br", "div", "tr", "ul", "ol":
		return ". "
	}
	return " "
}

// latin maps a letter that looks like a Latin one to it, and drops what is invisible.
func latin(r rune) rune {
	if r < utf8.RuneSelf {
		return r
	}
	if l, ok := lookAlikes[r]; ok {
		return l
	}
	if unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Mn, r) {
		return -1
	}
	return r
}

// lookAlikes are the Cyrillic and Greek letters that are drawn like Latin ones, and
// the variants of quotation marks and dashes.
var lookAlikes = func() map[rune]rune {
	m := make(map[rune]rune)
	for _, pair := range [][2]string{
		{"аеорсухіјѕһԁԛԝӏԍАВЕКМНОРСТУХІЈЅ", "aeopcyxijshdqwlgABEKMHOPCTYXIJS"},
		{"αοερνικτυωΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "aoepviktuwABEZHIKMNOPTYX"},
		{"ɑɡıⅼ", "agil"},
		{"‘’‚‛′“”„‟″‐‑‒–—−", "'''''\"\"\"\"\"------"},
	} {
		to := []rune(pair[1])
		for i, r := range []rune(pair[0]) {
			m[r] = to[i]
		}
	}
	return m
}()
