package dialect

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// LongString is the length from which a string of base64 is taken out of a body.
const LongString = 1 << 12

// Marks of a string that was taken out, with its number between: as JSON, and decoded.
const (
	markJSON, markJSONEnd = `\u0001long:`, `\u0001`
	mark, markEnd         = "\x01long:", "\x01"
)

// maxDepth limits the nesting of JSON; schemas of tools are the deepest part of real requests.
const maxDepth = 128

// maxValues limits the commas outside of strings: a value of two bytes may take hundreds of bytes when it is decoded.
const maxValues = 1 << 18

// Shorten replaces the long strings of base64 in a body by marks, and returns them. Clients send all images
// again with each call, and encoding/json reads each string several times, which costs more than all else. A
// text that is nested too deeply is refused, before anything is decoded.
func Shorten(body []byte, limit int) (short []byte, long [][]byte, err error) {
	if bytes.Contains(body, []byte(markJSONEnd)) {
		limit = len(body) // the client's own text may be a mark, also one whose letters are escaped
	}
	open, values, kept := 0, 0, 0
	for i := 0; i < len(body); i++ {
		switch body[i] {
		case '{', '[':
			if open++; open > maxDepth {
				return nil, nil, Bad("", "the body is nested more than %d levels deep at byte %d", maxDepth, i)
			}
		case '}', ']':
			open--
		case ',':
			if values++; values > maxValues {
				return nil, nil, Bad("", "the body has more than %d values at byte %d", maxValues, i)
			}
		case '"':
			end := closing(body, i+1)
			if text := body[i+1 : end]; len(text) >= limit && len(bytes.TrimLeft(text, base64Bytes)) == 0 {
				short = fmt.Appendf(append(short, body[kept:i+1]...), "%s%d%s", markJSON, len(long), markJSONEnd)
				long, kept = append(long, text), end
			}
			i = end
		}
	}
	if long == nil {
		return body, nil, nil
	}
	return append(short, body[kept:]...), long, nil
}

// closing returns the index of the quote that ends a string, the length of the text if there is none.
func closing(body []byte, start int) int {
	for i := start; i < len(body); i++ {
		n := bytes.IndexByte(body[i:], '"')
		if n < 0 {
			break
		}
		i += n
		escapes := len(body[start:i]) - len(bytes.TrimRight(body[start:i], `\`))
		if escapes%2 == 0 {
			return i
		}
	}
	return len(body)
}

// base64Bytes are those of base64 and of the beginning of a data URL. None is escaped in JSON.
const base64Bytes = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=:;,-."

// original returns what the string of an image was.
func (r *Request) original(s string) []byte {
	if number, ok := strings.CutPrefix(s, mark); ok {
		n, err := strconv.Atoi(strings.TrimSuffix(number, markEnd))
		if err == nil && n >= 0 && n < len(r.long) {
			r.images++
			return r.long[n]
		}
	}
	return []byte(s)
}
