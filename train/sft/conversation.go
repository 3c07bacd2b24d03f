package sft

import (
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"math"
	"math/big"
	"strings"

	"vagen/internal/floats"
	"vagen/policy"
	"vagen/reward"
	"vagen/train/config"
)

// ErrExample is wrapped by errors about files of examples and their content.
var ErrExample = errors.New("bad example")

// picture reads an image of a conversation.
type picture func() (image.Image, error)

// message is one message of a conversation.
type message struct {
	role     policy.Role
	text     string // with policy.ImageMark for each of pictures
	pictures []picture
	calls    string  // of tools, a JSON list; "" for none
	reasons  bool    // the text begins with the reasoning of a field of its own
	weight   float64 // of the tokens of an assistant's message
}

// conversation converts a record, with the columns that a configuration names, to messages. dir is the folder of its
// file, to which the paths of images are relative. Errors name the field.
func conversation(c *config.SFTConfig, record map[string]any, dir string) ([]message, error) {
	pool, err := imageList(record, c.Images, dir)
	if err != nil {
		return nil, err
	}
	r := &reader{dir: dir, pool: pool}
	var msgs []message
	if list, ok := lookup(record, c.Messages); ok {
		msgs, err = r.messages(c.Messages, list)
	} else {
		msgs, err = r.pair(c, record)
	}
	if err != nil {
		return nil, err
	}
	if r.used < len(pool) {
		return nil, fmt.Errorf("%s: it has %d images, but the messages show %d", c.Images, len(pool), r.used)
	}
	return msgs, checkOrder(c.Messages, msgs)
}

// pair reads a conversation of one prompt and one response.
func (r *reader) pair(c *config.SFTConfig, record map[string]any) ([]message, error) {
	prompt, ok := lookup(record, c.Prompt)
	if !ok {
		return nil, fmt.Errorf("it has neither %s nor %s: name its columns in sft.messages_key, or in sft.prompt_key and sft.response_key", c.Messages, c.Prompt)
	}
	response, ok := lookup(record, c.Response)
	if !ok {
		return nil, fmt.Errorf("%s: it is missing, but %s is there: name its column in sft.response_key", c.Response,
			c.Prompt)
	}
	text, ok := textOf(response)
	if !ok {
		return nil, fmt.Errorf("%s: it is %s, must be a text", c.Response, kindOf(response))
	}
	var msgs []message
	if ask, ok := textOf(prompt); ok {
		m := message{role: policy.User}
		if err := r.marked(&m, ask); err != nil {
			return nil, fmt.Errorf("%s: %w", c.Prompt, err)
		}
		msgs = []message{m}
	} else {
		var err error
		if msgs, err = r.messages(c.Prompt, prompt); err != nil {
			return nil, err
		}
	}
	return append(msgs, message{role: policy.Assistant, text: text, weight: 1}), nil
}

// checkOrder checks the roles of a conversation.
func checkOrder(key string, msgs []message) error {
	if len(msgs) == 0 {
		return fmt.Errorf("%s: it is empty, must have messages", key)
	}
	responses := 0
	for i, m := range msgs {
		if m.role != policy.Assistant {
			continue
		}
		responses++
		if i == 0 || msgs[i-1].role == policy.Assistant || i == 1 && msgs[0].role == policy.System {
			return fmt.Errorf("%s[%d].role: it is assistant, but must follow a message of user or tool", key, i)
		}
		if m.text == "" && m.calls == "" {
			return fmt.Errorf("%s[%d].content: it is empty, must have the assistant's text", key, i)
		}
		if len(m.pictures) > 0 {
			return fmt.Errorf("%s[%d].content: it has %d images, but the assistant writes text only", key, i, len(m.pictures))
		}
	}
	if responses == 0 {
		return fmt.Errorf("%s: no message is the assistant's, so there is nothing to learn", key)
	}
	return nil
}

// reader converts the messages of a record.
type reader struct {
	dir  string
	pool []picture // of the record's column of images
	used int       // of pool
}

// messages converts a list of messages.
func (r *reader) messages(key string, v any) ([]message, error) {
	list, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("%s: it is %s, must be a list of messages", key, kindOf(v))
	}
	var out []message
	for i, x := range list {
		m, err := r.message(x)
		if err != nil {
			return nil, fmt.Errorf("%s[%d]%w", key, i, err)
		}
		out = append(out, m)
	}
	return out, nil
}

// message converts one message. Its errors start with the path of the field in it.
func (r *reader) message(v any) (message, error) {
	m := message{weight: 1}
	fields, ok := v.(map[string]any)
	if !ok {
		return m, fmt.Errorf(": it is %s, must be a mapping with role and content", kindOf(v))
	}
	role, ok := textOf(fields["role"])
	if !ok {
		return m, fmt.Errorf(".role: it is %s, must be a text", kindOf(fields["role"]))
	}
	switch m.role = policy.Role(role); m.role {
	case policy.System, policy.User, policy.Assistant, "tool":
	default:
		return m, fmt.Errorf(".role: it is %q, must be system, user, assistant or tool", role)
	}
	var err error
	if m.calls, err = jsonList(fields[callsKey], true); err != nil {
		return m, fmt.Errorf(".%s: %w", callsKey, err)
	}
	if m.calls != "" && m.role != policy.Assistant {
		return m, fmt.Errorf(".%s: it is set, but only the assistant calls tools", callsKey)
	}
	if w := fields["weight"]; w != nil {
		x, ok := numberOf(w)
		if !ok {
			return m, fmt.Errorf(".weight: it is %s, must be a number", kindOf(w))
		}
		if !(x >= 0 && x <= math.MaxFloat32) {
			return m, fmt.Errorf(".weight: it is %v, must be a number of 0 or more, and at most %.3g", w, math.MaxFloat32)
		}
		if m.weight = x; m.role != policy.Assistant && x != 1 && x != 0 {
			return m, fmt.Errorf(".weight: it is %v, but only messages of the assistant have a loss", w)
		}
	}
	reasoning, err := reasoningOf(fields)
	if err != nil {
		return m, err
	}
	if content := fields["content"]; content != nil || reasoning == "" && m.calls == "" {
		if err := r.content(&m, content); err != nil {
			return m, fmt.Errorf(".content%w", err)
		}
	}
	if reasoning != "" && m.role == policy.Assistant {
		m.text, m.reasons = (*reward.Parser)(nil).Rejoin(reasoning, m.text), true
	}
	return m, nil
}

// reasoningOf returns the reasoning of a message in a field of its own, "" for none.
func reasoningOf(fields map[string]any) (string, error) {
	for _, key := range []string{"reasoning_content", "reasoning"} {
		v := fields[key]
		if v == nil {
			continue
		}
		text, ok := textOf(v)
		if !ok {
			return "", fmt.Errorf(".%s: it is %s, must be a text", key, kindOf(v))
		}
		if text != "" {
			return text, nil
		}
	}
	return "", nil
}

// content converts a text, or a list of parts.
func (r *reader) content(m *message, v any) error {
	if text, ok := textOf(v); ok {
		if m.role == policy.Assistant {
			m.text = text // which contains no images, so a mark is text that the model cannot write
		} else if err := r.marked(m, text); err != nil {
			return fmt.Errorf(": %w", err)
		}
		return nil
	}
	parts, ok := v.([]any)
	if !ok {
		return fmt.Errorf(": it is %s, must be a text or a list of parts", kindOf(v))
	}
	var b strings.Builder
	for i, x := range parts {
		text, err := r.part(m, x)
		if err != nil {
			return fmt.Errorf("[%d]%w", i, err)
		}
		b.WriteString(text)
	}
	m.text = b.String()
	return nil
}

// part converts a part of a message's content and returns its text.
func (r *reader) part(m *message, v any) (string, error) {
	fields, ok := v.(map[string]any)
	if !ok {
		if text, ok := textOf(v); ok {
			return text, nil
		}
		return "", fmt.Errorf(": it is %s, must be a mapping with type", kindOf(v))
	}
	kind, _ := textOf(fields["type"])
	switch kind {
	case "text":
		text, ok := textOf(fields["text"])
		if !ok {
			return "", fmt.Errorf(".text: it is %s, must be a text", kindOf(fields["text"]))
		}
		if strings.Contains(text, policy.ImageMark) {
			return "", fmt.Errorf(".text: it contains %s, which stands for an image in texts that are no parts: "+
				"use a part of type image", policy.ImageMark)
		}
		return text, nil
	case "image", "image_url":
		source := fields[kind]
		if source == nil {
			source = fields["url"]
		}
		if source == nil && kind == "image" { // the next one of the record's images
			p, err := r.next()
			if err != nil {
				return "", fmt.Errorf(": %w", err)
			}
			m.pictures = append(m.pictures, p)
			return policy.ImageMark, nil
		}
		p, err := pictureOf(source, r.dir)
		if err != nil {
			return "", fmt.Errorf(".%s: %w", kind, err)
		}
		m.pictures = append(m.pictures, p)
		return policy.ImageMark, nil
	}
	return "", fmt.Errorf(".type: it is %q, must be text, image or image_url", kind)
}

// marked sets a text whose marks stand for the record's images, in order.
func (r *reader) marked(m *message, text string) error {
	for range strings.Count(text, policy.ImageMark) {
		p, err := r.next()
		if err != nil {
			return err
		}
		m.pictures = append(m.pictures, p)
	}
	m.text = text
	return nil
}

// next returns the next image of the record's column of images.
func (r *reader) next() (picture, error) {
	if r.used >= len(r.pool) {
		return nil, fmt.Errorf("it shows image %d, but the record has %d images", r.used+1, len(r.pool))
	}
	r.used++
	return r.pool[r.used-1], nil
}

// lookup returns a column; dots separate the parts of nested columns. A null column is absent.
func lookup(record map[string]any, key string) (any, bool) {
	if v, ok := record[key]; ok {
		return v, v != nil
	}
	outer, inner, ok := strings.Cut(key, ".")
	if fields, isMap := record[outer].(map[string]any); ok && isMap {
		return lookup(fields, inner)
	}
	return nil, false
}

// textOf returns a text, which some writers of parquet store as bytes.
func textOf(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case []byte:
		return string(v), true
	}
	return "", false
}

func numberOf(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case float32:
		return float64(v), true
	case int64:
		return float64(v), true
	case int32:
		return float64(v), true
	case uint32:
		return float64(v), true
	case *big.Float: // a decimal
		x, _ := v.Float64()
		return x, true
	case []byte: // float16, the only number that parquet reads as bytes
		if len(v) == 2 {
			return float64(floats.FromHalf(binary.LittleEndian.Uint16(v))), true
		}
	}
	return 0, false
}

// empty reports whether a value is an empty list or text.
func empty(v any) bool {
	if list, ok := v.([]any); ok {
		return len(list) == 0
	}
	text, ok := textOf(v)
	return ok && text == ""
}

// kindOf describes a value in errors.
func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "missing or null"
	case string, []byte:
		return "a text"
	case bool:
		return "true or false"
	case []any:
		return "a list"
	case map[string]any:
		return "a mapping"
	}
	if _, ok := numberOf(v); ok {
		return "a number"
	}
	return fmt.Sprintf("a %T", v)
}
