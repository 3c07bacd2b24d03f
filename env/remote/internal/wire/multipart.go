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
	Data   map[string]any // the JSON part; empty when there is none. Decode fills it.
	Raw    []byte         // the JSON part as it came
	Images []Image        // still encoded, in order
	Closed bool           // the closing boundary was there
}

// Image is an encoded picture. After Decode it shares memory with the body.
type Image struct {
	Type string // media type in lower case
	Data []byte
}

// maxBoundary is generous: RFC 2046 allows 70 characters.
const maxBoundary = 200

// NewBoundary returns a boundary that occurs in no body.
func NewBoundary() string { return "gym_env_" + NewID() }

// NewID returns 32 random hexadecimal digits.
func NewID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// ContentType writes the header for a body: kind is multipart/form-data for
// requests and multipart/mixed for responses.
func ContentType(kind, boundary string) string { return kind + `; boundary="` + boundary + `"` }

// Boundary finds the boundary parameter of a Content-Type header, quoted or not,
// wherever it stands.
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
	//lint:ignore ST1005 it travels to clients, in the words that they know
	return "", fmt.Errorf("Missing boundary in Content-Type: %s", contentType)
}

const (
	crlf     = "\r\n"
	dataHead = "Content-Disposition: form-data; name=\"data\"" + crlf +
		"Content-Type: application/json; charset=utf-8" + crlf + crlf
)

// Encode writes a body. Every image is announced with the same media type and a
// name that ends in .png, as the original does whatever the format is.
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

// Decode reads a body as leniently as the original: parts are what lies between
// occurrences of the boundary, anywhere; a part is JSON or an image by its
// Content-Type alone and anything else is skipped, as is what stands before the
// first boundary. The last JSON part counts; if it is no object, Data holds the
// value as _data, and as _data_raw the text if it is no JSON at all.
//
// No more than maxParts parts and pyjson.MaxValues values are read; the error wraps
// ErrLimit then.
func Decode(contentType string, body []byte, maxParts int) (Message, error) {
	m, err := Split(contentType, body, maxParts)
	if err != nil {
		return Message{}, err
	}
	if m.Data, err = m.Decode(); err != nil {
		return Message{}, err
	}
	return m, nil
}

// Split is Decode without Data.
func Split(contentType string, body []byte, maxParts int) (Message, error) {
	boundary, err := Boundary(contentType)
	if err != nil {
		return Message{}, err
	}
	marker := []byte("--" + boundary)
	m := Message{}
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
			m.Raw = payload
		case strings.HasPrefix(kind, "image/"):
			m.Images = append(m.Images, Image{Type: kind, Data: payload})
		}
	}
	return m, nil
}

// cutPart separates the headers of a part from its content, which loses the line
// break before the next boundary.
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
		if name, value, ok := bytes.Cut(line, []byte(":")); ok && bytes.EqualFold(bytes.TrimSpace(name), []byte("content-type")) {
			kind = strings.ToLower(string(bytes.TrimSpace(value)))
		}
	}
	return kind
}

// Decode reads the JSON part, see the function Decode.
func (m *Message) Decode() (map[string]any, error) {
	if m.Raw == nil {
		return map[string]any{}, nil
	}
	v, err := pyjson.Parse(m.Raw)
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
	return map[string]any{"_data_raw": strings.ToValidUTF8(string(m.Raw), "")}, nil
}
