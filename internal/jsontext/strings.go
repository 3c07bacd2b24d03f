package jsontext

import (
	"bytes"
	"fmt"
)

// MaxDepth limits the nesting of JSON for Strings; schemas of tools are the deepest part of real requests.
const MaxDepth = 128

// Strings calls found with the bounds of every string in a text, between its quotes. It returns an error if the text
// is nested more than MaxDepth deep, or has more than most commas outside of strings: a value of two bytes may take
// hundreds of bytes when it is decoded. It does not check that the text is JSON.
func Strings(text []byte, most int, found func(start, end int)) error {
	open, values := 0, 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '{', '[':
			if open++; open > MaxDepth {
				return fmt.Errorf("it is nested more than %d levels deep at byte %d", MaxDepth, i)
			}
		case '}', ']':
			open--
		case ',':
			if values++; values > most {
				return fmt.Errorf("it has more than %d values at byte %d", most, i)
			}
		case '"':
			start := i + 1
			i = closing(text, start)
			found(start, i)
		}
	}
	return nil
}

// closing returns the index of the quote that ends a string, the length of the text if there is none.
func closing(text []byte, start int) int {
	for i := start; i < len(text); i++ {
		n := bytes.IndexByte(text[i:], '"')
		if n < 0 {
			break
		}
		i += n
		escapes := len(text[start:i]) - len(bytes.TrimRight(text[start:i], `\`))
		if escapes%2 == 0 {
			return i
		}
	}
	return len(text)
}
