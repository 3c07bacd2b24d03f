package pytext

import (
	"bytes"
	"cmp"
	"strconv"
	"strings"
	"text/scanner"

	"vagen/internal/jsontext"
)

// Constants has Python's constants in JSON.
var Constants = map[string]string{"True": "true", "False": "false", "None": "null"}

// JSON converts Python's notation of lists, mappings, strings and numbers to JSON. Other text
// gives something that is no JSON.
func JSON(text string) []byte {
	var b bytes.Buffer
	var s scanner.Scanner
	s.Init(strings.NewReader(text)).Mode = scanner.ScanIdents | scanner.ScanChars | scanner.ScanStrings
	s.Error = func(*scanner.Scanner, string) {} // instead of standard error
	for kind := s.Scan(); kind != scanner.EOF; kind = s.Scan() {
		word := s.TokenText()
		if kind == scanner.Char || kind == scanner.String {
			word = jsontext.Quote(unescape(word[1:], word[0]))
		}
		b.WriteString(cmp.Or(Constants[word], word))
	}
	return b.Bytes()
}

// unescape decodes the escapes of a Python string up to its closing quote.
func unescape(s string, quote byte) string {
	var b strings.Builder
	for {
		r, _, tail, err := strconv.UnquoteChar(s, quote)
		if err != nil {
			return b.String()
		}
		b.WriteRune(r)
		s = tail
	}
}
