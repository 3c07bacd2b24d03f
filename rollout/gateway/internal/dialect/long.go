package dialect

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"vagen/internal/jsontext"
)

// LongString is the length from which a string of base64 is taken out of a body.
const LongString = 1 << 12

// Marks of a string that was taken out, with its number between: as JSON, and decoded.
const (
	markJSON, markJSONEnd = `\u0001long:`, `\u0001`
	mark, markEnd         = "\x01long:", "\x01"
)

// maxValues limits the values of a body.
const maxValues = 1 << 18

// Shorten replaces the long strings of base64 in a body by marks, and returns them. Clients send all images
// again with each call, and encoding/json reads each string several times, which costs more than all else. A
// text that is nested too deeply is refused, before anything is decoded.
func Shorten(body []byte, limit int) (short []byte, long [][]byte, err error) {
	if bytes.Contains(body, []byte(markJSONEnd)) {
		limit = len(body) // the client's own text may be a mark, also one whose letters are escaped
	}
	kept := 0
	wrong := jsontext.Strings(body, maxValues, func(start, end int) {
		if text := body[start:end]; len(text) >= limit && len(bytes.TrimLeft(text, base64Bytes)) == 0 {
			short = fmt.Appendf(append(short, body[kept:start]...), "%s%d%s", markJSON, len(long), markJSONEnd)
			long, kept = append(long, text), end
		}
	})
	if wrong != nil {
		return nil, nil, Bad("", "the body: %v", wrong)
	}
	if long == nil {
		return body, nil, nil
	}
	return append(short, body[kept:]...), long, nil
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
