package tokenizer

import (
	"fmt"
	"strings"

	"vagen/policy/vlm/tokenizer/internal/jinja"
)

// The roles that chats are rendered for.
const (
	RoleSystem    = "system"
	RoleUser      = "user"
	RoleAssistant = "assistant"
	RoleTool      = "tool" // the result of a call, if the template shows it
)

// Message is one entry of a conversation: texts and images in the order in
// which the model reads them.
type Message struct {
	Role  string
	Parts []Part
}

// Part is a piece of text, or the position of an image.
type Part struct {
	Text  string
	Image bool // instead of Text
}

// Text returns a message without images.
func Text(role, text string) Message {
	return Message{Role: role, Parts: []Part{{Text: text}}}
}

// Marked returns a message with images in place of the occurrences of mark in text,
// such as "<image>". There must be as many marks as images.
func Marked(role, text, mark string, images int) (Message, error) {
	m := Message{Role: role}
	for {
		before, after, found := strings.Cut(text, mark)
		found = found && mark != ""
		if !found {
			before = text
		}
		if before != "" {
			m.Parts = append(m.Parts, Part{Text: before})
		}
		if !found {
			break
		}
		m.Parts = append(m.Parts, Part{Image: true})
		text = after
	}
	if n := m.Images(); n != images {
		return Message{}, fmt.Errorf("tokenizer: %s message: %w: %d marks %q for %d images", role, ErrText, n, mark, images)
	}
	return m, nil
}

// Images returns how many images the message has.
func (m Message) Images() int {
	n := 0
	for _, p := range m.Parts {
		if p.Image {
			n++
		}
	}
	return n
}

// content is the message as templates expect it: a text, or a list if there are images.
func (m Message) content() any {
	if m.Images() == 0 {
		return m.text("")
	}
	list := make([]any, len(m.Parts))
	for i, p := range m.Parts {
		if p.Image {
			list[i] = jinja.Dict{{Key: "type", Value: "image"}}
		} else {
			list[i] = jinja.Dict{{Key: "type", Value: "text"}, {Key: "text", Value: p.Text}}
		}
	}
	return list
}

// text joins the parts, with the text image for each image.
func (m Message) text(image string) string {
	if len(m.Parts) == 1 && !m.Parts[0].Image {
		return m.Parts[0].Text
	}
	var b strings.Builder
	for _, p := range m.Parts {
		if p.Image {
			b.WriteString(image)
		} else {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}
