package chat

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"vagen/policy"
)

// conversation holds the messages so far, encoded for the API.
type conversation struct {
	system   json.RawMessage // empty without one
	messages []json.RawMessage
	tokens   int64 // of all messages, counted by the service or estimated
	images   int64
	busy     bool // in use by a call of Generate
	// unanswered are the messages after those, to which the response was blank.
	unanswered []policy.Message
}

// opens reports whether the conversation has no message yet.
func (c *conversation) opens() bool { return len(c.messages)+len(c.unanswered) == 0 }

// entry is a message of one role.
type entry struct {
	role  policy.Role
	parts []part
}

// part is text or a picture.
type part struct {
	text  string
	image *picture
}

// additions is what a prompt adds to its conversation.
type additions struct {
	system   json.RawMessage
	messages []json.RawMessage
	tokens   int64 // estimate
	images   int64
}

// checkRoles checks the roles of a prompt's messages: system messages are allowed
// only at the start of a conversation, and the last message must be the user's.
func checkRoles(open bool, messages []policy.Message) error {
	var before policy.Role
	for i, m := range messages {
		switch m.Role {
		case policy.System:
			if !open || before != "" && before != policy.System {
				return fmt.Errorf("message %d: a %s message can only open a conversation", i, m.Role)
			}
		case policy.User:
		case policy.Assistant:
			if len(m.Images) > 0 {
				return fmt.Errorf("message %d: the %s cannot show images", i, m.Role)
			}
		default:
			return fmt.Errorf("message %d: the role %q is not one of %s, %s and %s", i, m.Role, policy.System, policy.User,
				policy.Assistant)
		}
		before = m.Role
	}
	if before != policy.User {
		return fmt.Errorf("the last of %d messages must be the user's", len(messages))
	}
	return nil
}

// read encodes a prompt's messages. Consecutive messages of one role are joined,
// because many models require alternating roles. A system message with images becomes
// a user message, because APIs accept images only from the user.
func (m *Model) read(messages []policy.Message) (additions, error) {
	var entries []entry
	var n additions
	for i, msg := range messages {
		parts, err := m.split(msg)
		if err != nil {
			return n, fmt.Errorf("message %d: %w", i, err)
		}
		if len(parts) == 0 {
			continue
		}
		for _, p := range parts {
			n.tokens += m.estimate(p)
			if p.image != nil {
				n.images++
			}
		}
		role := msg.Role
		if role == policy.System && len(msg.Images) > 0 {
			role = policy.User
		}
		if k := slices.IndexFunc(entries, func(e entry) bool {
			return e.role == policy.System
		}); role == policy.System && k >= 0 {
			entries[k].parts = append(entries[k].parts, parts...)
		} else if last := len(entries) - 1; last >= 0 && entries[last].role == role {
			entries[last].parts = append(entries[last].parts, parts...)
		} else {
			entries = append(entries, entry{role, parts})
		}
	}
	for _, e := range entries {
		raw := m.api.render(e, &m.o.Pictures)
		if e.role == policy.System {
			n.system = raw
		} else {
			n.messages = append(n.messages, raw)
		}
	}
	return n, nil
}

// split cuts a message at its image marks. A blank response has no parts: it is not sent, as in
// accept.
func (m *Model) split(msg policy.Message) ([]part, error) {
	texts := strings.Split(msg.Text, policy.ImageMark)
	if marks := len(texts) - 1; marks != len(msg.Images) {
		return nil, fmt.Errorf("the text has %d image marks, but there are %d images", marks, len(msg.Images))
	}
	var parts []part
	blank := true
	for i, text := range texts {
		if text != "" {
			parts = append(parts, part{text: text})
			blank = blank && strings.TrimSpace(text) == ""
		}
		if i == len(msg.Images) {
			break
		}
		pic, err := m.o.Pictures.encode(msg.Images[i])
		if err != nil {
			return nil, fmt.Errorf("image %d: %w", i, err)
		}
		parts, blank = append(parts, part{image: pic}), false
	}
	switch {
	case blank && msg.Role == policy.Assistant:
		return nil, nil
	case blank:
		return nil, fmt.Errorf("the message is empty")
	}
	return parts, nil
}

// estimate estimates the tokens of a part until the service counts them.
func (m *Model) estimate(p part) int64 {
	switch {
	case p.image == nil:
		return estimateText(p.text)
	case m.o.ImageTokens > 0:
		return int64(m.o.ImageTokens)
	}
	return 85 + int64(p.image.width)*int64(p.image.height)/750
}

func estimateText(text string) int64 { return 4 + int64(len(text)+2)/3 }

// accept adds a prompt and its answer to the conversation. A blank response is not added,
// because some APIs refuse one; the prompt's messages are sent with the next prompt's, joined,
// because many models require alternating roles.
func (m *Model) accept(c *conversation, prompt []policy.Message, n additions, a *answer) {
	if strings.TrimSpace(a.text) == "" {
		c.unanswered = slices.Concat(c.unanswered, prompt)
		return
	}
	c.unanswered = nil
	if len(n.system) > 0 {
		c.system = n.system
	}
	c.messages = append(c.messages, n.messages...)
	c.images += n.images
	c.messages = append(c.messages, m.api.render(entry{policy.Assistant, []part{{text: a.text}}}, &m.o.Pictures))
	if a.counted {
		c.tokens = a.used.prompt + a.used.completion - min(a.used.reasoning, a.used.completion)
	} else {
		c.tokens += n.tokens + estimateText(a.text)
	}
}
