package wire

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"vagen/env/remote/internal/pyjson"
)

// Message is a decoded body.
type Message struct {
	Data   map[string]any // the JSON part; empty if there is none
	Images [][]byte       // encoded, in order; they share memory with the body
	Closed bool           // the closing boundary was found
}

// maxBoundary is the longest accepted boundary; RFC 2046 allows 70 characters.
const maxBoundary = 200

// NewBoundary returns a random boundary, which does not occur in the body.
func NewBoundary() string { return "gym_env_" + NewID() }

// NewID returns 32 random hexadecimal digits.
func NewID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// ContentType returns the Content-Type header of a body: kind is multipart/form-data
// for requests and multipart/mixed for responses.
func ContentType(kind, boundary string) string { return kind + `; boundary="` + boundary + `"` }

// Boundary returns the boundary parameter of a Content-Type header, which may be quoted
// and follow other parameters.
func Boundary(contentType string) (string, error) {
	for part := range strings.SplitSeq(contentType, ";") {
		name, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok || !strings.EqualFold(name, "boundary") {
			continue
		}
		if b := strings.Trim(strings.TrimSpace(value), `"`); b != "" && len(b) <= maxBoundary {
			return b, nil
		}
	}
	//lint:ignore ST1005 clients receive the original's message
	return "", fmt.Errorf("Missing boundary in Content-Type: %s", contentType)
}

const (
	crlf     = "\r\n"
	dataHead = "Content-Disposition: form-data; name=\"data\"" + crlf +
		"Content-Type: application/json; charset=utf-8" + crlf + crlf
)

// Encode returns a body. Every image has the media type imageType and a file name that
// ends in .png for all formats, as in the original.
func Encode(boundary string, data []byte, images [][]byte, imageType string) []byte {
	size := 2*len(boundary) + len(dataHead) + len(data) + 16
	for _, img := range images {
		size += len(boundary) + len(img) + len(imageType) + 100
	}
	b := make([]byte, 0, size)
	open := func() {
		b = append(b, "--"...)
		b = append(b, boundary...)
		b = append(b, crlf...)
	}
	open()
	b = append(b, dataHead...)
	b = append(b, data...)
	b = append(b, crlf...)
	for i, img := range images {
		open()
		b = append(b, `Content-Disposition: form-data; name="images"; filename="`...)
		b = strconv.AppendInt(b, int64(i), 10)
		b = append(b, `.png"`+crlf+"Content-Type: "...)
		b = append(b, imageType...)
		b = append(b, crlf+crlf...)
		b = append(b, img...)
		b = append(b, crlf...)
	}
	b = append(b, "--"...)
	b = append(b, boundary...)
	return append(b, "--"+crlf...)
}

// Decode reads a body as leniently as the original. The parts are the bytes between
// occurrences of the boundary, wherever these are. Only the Content-Type decides
// whether a part is JSON or an image; other parts, and bytes before the first boundary,
// are skipped. Of several JSON parts the last one counts. If it is not an object, Data
// has the value under _data; if it is not JSON, the text under _data_raw.
//
// The error wraps ErrLimit for more than maxParts parts or pyjson.MaxValues values.
func Decode(contentType string, body []byte, maxParts int) (Message, error) {
	boundary, err := Boundary(contentType)
	if err != nil {
		return Message{}, err
	}
	marker := []byte("--" + boundary)
	var m Message
	var data []byte
	_, body, more := bytes.Cut(body, marker)
	for parts := 0; more; {
		var chunk []byte
		chunk, body, more = bytes.Cut(body, marker)
		m.Closed = m.Closed || bytes.HasPrefix(chunk, []byte("--"))
		head, payload, ok := cutPart(chunk)
		if !ok {
			continue
		}
		if parts++; parts > maxParts {
			return Message{}, fmt.Errorf("%w: more than %d parts", ErrLimit, maxParts)
		}
		switch kind := contentTypeOf(head); {
		case strings.Contains(kind, "application/json"):
			data = payload
		case strings.HasPrefix(kind, "image/"):
			m.Images = append(m.Images, payload)
		}
	}
	m.Data, err = decodeData(data)
	return m, err
}

// cutPart separates the headers of a part from its content, without the line break
// before the next boundary.
func cutPart(chunk []byte) (head, payload []byte, ok bool) {
	chunk = bytes.TrimLeft(chunk, " \t\r\n\v\f")
	head, payload, ok = bytes.Cut(chunk, []byte(crlf+crlf))
	payload = bytes.TrimSuffix(payload, []byte(crlf))
	return head, payload, ok && len(payload) > 0
}

func contentTypeOf(head []byte) string {
	kind := ""
	for more := true; more; {
		var line []byte
		line, head, more = bytes.Cut(head, []byte(crlf))
		if name, value, ok := bytes.Cut(line, []byte(":")); ok &&
			bytes.EqualFold(bytes.TrimSpace(name), []byte("content-type")) {
			kind = strings.ToLower(string(bytes.TrimSpace(value)))
		}
	}
	return kind
}

// decodeData decodes the JSON part, nil if there is none.
func decodeData(data []byte) (map[string]any, error) {
	if data == nil {
		return map[string]any{}, nil
	}
	v, err := pyjson.Parse(data)
	switch v := v.(type) {
	case map[string]any:
		return v, nil
	default:
		if err == nil {
			return map[string]any{"_data": v}, nil
		}
	}
	if errors.Is(err, pyjson.ErrLimit) {
		return nil, fmt.Errorf("%w: %w", ErrLimit, err)
	}
	return map[string]any{"_data_raw": strings.ToValidUTF8(string(data), "")}, nil
}
