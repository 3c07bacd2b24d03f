// Package plain returns what a reader sees of a text with markup, and recognises the marks by
// which it is laid out.
package plain

import (
	"html"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// What of Markdown and HTML is not text.
var (
	addresses = regexp.MustCompile(`\]\([^)]*\)`) // of links
	tags      = regexp.MustCompile(`<[^>]*>`)
)

// Text returns the text that a reader sees, in lower case and without tags.
func Text(text string) string {
	if text = Visible(text); strings.IndexByte(text, '<') >= 0 {
		text = tags.ReplaceAllStringFunc(text, tagText)
	}
	if strings.Contains(text, "](") {
		text = addresses.ReplaceAllString(text, "")
	}
	return strings.ToLower(text)
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

// tagText is what a reader sees in the place of a tag such as <b> or </observation>: a space if it may separate words.
// What is no tag stays.
func tagText(tag string) string {
	name, _, _ := strings.Cut(strings.ToLower(strings.Trim(tag[1:len(tag)-1], "/ ")), " ")
	switch name {
	case "b", "i", "u", "s", "q", "em", "tt", "strong", "span", "code", "mark", "small", "font", "a":
		return ""
	case "li", "p", "br", "div", "tr", "ul", "ol":
		return ". "
	}
	if name == "" || name[0] < 'a' || name[0] > 'z' {
		return tag
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
