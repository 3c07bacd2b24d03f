// Package dialect reads requests for responses in the protocols of OpenAI's chat completions, OpenAI's
// Responses and Anthropic's messages, and writes answers in them. Decode returns the same Request for all;
// Protocol.Encode and Protocol.Events write an Answer whole or as a stream.
package dialect

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"vagen/env"
	"vagen/internal/jsontext"
)

// Protocol is one of the protocols, by its path below /v1.
type Protocol string

// The protocols.
const (
	Chat      Protocol = "chat/completions"
	Responses Protocol = "responses"
	Messages  Protocol = "messages"
)

// Roles of messages. In Responses, a Reference stands for an earlier answer, and a Conversation for all up to it.
const (
	System       = "system"
	User         = "user"
	Assistant    = "assistant"
	Tool         = "tool"
	Reference    = "reference"
	Conversation = "conversation"
)

// Values of Message.Replaced.
const (
	Instructions = "instructions"
	Tools        = "tools"
)

// Message is a message of a conversation. The texts of its parts are joined by line breaks.
type Message struct {
	Role   string
	Text   string // with env.ImageMark for each of Images; of a Reference or Conversation the field that names it
	Images []Image
	Calls  []Call // of the assistant
	ID     string // that a Reference or Conversation names
	// Replaced is not empty if a later request, which continues this one by an id, may have its own in place of the
	// message: Instructions or Tools.
	Replaced string
}

// Image is an image's file.
type Image struct {
	Data  []byte
	Hash  [sha256.Size]byte // of Data
	Field string            // of the request
}

// Call is a call of a tool. Arguments is the text that the model wrote; it may be no JSON.
type Call struct {
	ID, Name, Arguments string
}

// Request is what a client asks for.
type Request struct {
	Messages []Message
	Tools    string   // definitions, one JSON object a line; "" for none
	Calls    bool     // the answer may call tools
	Stop     []string // texts that end the answer
	Field    string   // that has the messages
	Form

	// Overridden names fields that ask for other sampling than the run's, or for what answers do not have,
	// and Constrained those that ask for answers of a given form, which the policy does not guarantee.
	Overridden, Constrained []string

	long     [][]byte          // long strings of the body, see Shorten
	images   int               // those of long that are images
	deferred map[string]string // definitions of tools by name, which results of tools refer to
}

// Form says how an answer is sent.
type Form struct {
	Model         string // that it names
	Stream, Usage bool   // as a stream; with its last chunk's usage
	Thinking      bool   // Messages: reasoning is wanted in blocks
	Encrypted     bool   // Responses: reasoning items carry encrypted_content
}

// Answer is a response in parts.
type Answer struct {
	ID              string // unique within the gateway, letters, digits, - and _
	Text, Reasoning string
	Calls           []Call
	Stops           []string // of the Request
	Length          bool     // the limit on tokens was reached
	Stopped         string   // the text of Request.Stop that ended it
	Read, Wrote     int      // tokens
	Created         int64    // Unix seconds
	Form                     // of the Request
}

// Error is the answer to a request that is refused.
type Error struct {
	Status  int    // of HTTP
	Field   string // that is wrong; "" for none
	Code    string
	Message string // names the value and what is allowed
}

func (e *Error) Error() string {
	if e.Field == "" {
		return e.Message
	}
	return e.Field + ": " + e.Message
}

// Bad returns an error about a field. A client does not repeat the request.
func Bad(field, format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Field: field, Message: fmt.Sprintf(format, args...)}
}

// kinds are the types of errors by status, as far as it is not invalid_request_error.
var kinds = map[int]string{
	http.StatusUnauthorized: "authentication_error", http.StatusForbidden: "permission_error",
	http.StatusNotFound: "not_found_error", http.StatusRequestEntityTooLarge: "request_too_large",
	http.StatusTooManyRequests: "rate_limit_error",
}

// Body returns the error in the format of a protocol.
func (p Protocol) Body(e *Error) []byte {
	kind := cmp.Or(kinds[e.Status], "invalid_request_error")
	if p == Messages {
		return marshal(object{"type": "error", "error": object{"type": kind, "message": e.Error()}})
	}
	out := object{"message": e.Error(), "type": kind, "param": nil, "code": nil}
	if e.Field != "" {
		out["param"] = e.Field
	}
	if e.Code != "" {
		out["code"] = e.Code
	}
	return marshal(object{"error": out})
}

// marshal converts to JSON without escapes of <, > and &. The values are of this package's
// making and cannot fail.
func marshal(v any) []byte {
	raw, _ := jsontext.Append(nil, v)
	return raw
}

// Decode reads a request's body.
func (p Protocol) Decode(body []byte) (*Request, error) { return p.decode(body, LongString) }

// decode is Decode with a limit for Shorten.
func (p Protocol) decode(body []byte, limit int) (*Request, error) {
	text, long, err := Shorten(body, limit)
	if err != nil {
		return nil, err
	}
	var q query
	if err := unmarshal(text, "", &q); err != nil {
		return nil, err
	}
	r := &Request{Calls: true, Field: "messages", long: long}
	if p == Responses {
		r.Field = "input"
	}
	if err := cmp.Or(q.settings(r), r.read(p, &q)); err != nil {
		return nil, err
	}
	if r.images < len(long) {
		return p.decode(body, len(body)) // the others are texts
	}
	r.long, r.images, r.deferred = nil, 0, nil
	if r.Messages = tidy(r.Messages); len(r.Messages) == 0 {
		return nil, Bad(r.Field, "empty, must have at least one message with content")
	}
	return r, nil
}

// Plain returns a text without reasoning, marks of images, and white space at its ends.
func Plain(text string) string {
	var b strings.Builder
	for rest, found := env.WithoutMarks(text), true; found; {
		text, rest, found = strings.Cut(rest, "<think>")
		b.WriteString(text)
		if found {
			_, rest, _ = strings.Cut(rest, "</think>") // without an end all is reasoning
		}
	}
	return strings.TrimSpace(strings.ReplaceAll(b.String(), "</think>", ""))
}

// tidy drops messages of the assistant that have reasoning at most, and instructions without text. Adjacent ones
// of the assistant become one, as the parts of one answer are sent.
func tidy(ms []Message) []Message {
	ms = slices.DeleteFunc(ms, func(m Message) bool {
		empty := len(m.Calls) == 0 && Plain(m.Text) == ""
		return empty && m.Role == Assistant || m.Role == System && m.Text == ""
	})
	var out []Message
	for len(ms) > 0 {
		m, texts := ms[0], []string{ms[0].Text}
		for ms = ms[1:]; m.Role == Assistant && len(ms) > 0 && ms[0].Role == Assistant; ms = ms[1:] {
			texts = append(texts, ms[0].Text)
			m.Calls = append(m.Calls, ms[0].Calls...)
		}
		m.Text = Join(texts)
		out = append(out, m)
	}
	return out
}

// Join joins those texts that are not empty: a client may send many, so that adding one at a time would take long.
func Join(texts []string) string {
	return strings.Join(slices.DeleteFunc(texts, func(s string) bool { return s == "" }), "\n")
}
