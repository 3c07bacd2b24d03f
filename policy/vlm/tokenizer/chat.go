package tokenizer

import (
	"cmp"
	"fmt"
	"strings"

	"vagen/internal/pytext"
	"vagen/policy/vlm/tokenizer/internal/jinja"
)

// Chat renders conversations. Its texts are derived from the checkpoint's own
// template and verified against it (see [Tokenizer.Chat]). Rendering only
// concatenates texts, so a conversation can be rendered piece by piece:
//
//	opening, _ := chat.Open(first)           // model reads this, writes a response
//	next, _ := chat.Continue(more, ended)    // model reads this, writes the next one
//
// Opening, response and continuation, concatenated, are the text of Render for the
// whole conversation, so tokens that were read or written never need to be tokenised
// again. [Chat.RewritesHistory] reports templates for which this does not hold.
//
// A Chat is immutable and safe for concurrent use.
type Chat struct {
	open      string // before the first message, unless it is a system message
	system    turn   // its before includes the start of the conversation
	user      turn
	assistant turn
	generate  string // asks for a response
	opened    string // the end of generate that begins the response
	image     string // placeholder of an image, "" if the template supports none
	pad       string // the token inside image that is repeated per merged patch
	end       string // token that ends a response, the first of assistant.after
	endID     int32

	tool toolTurn
	call *probe // shows responses that call tools

	hasSystem bool // the template supports a system message
	blank     bool // it shows a system message without text as if there were none
	merges    bool // it puts the system message's text into the user's first message
	reasons   bool // it shows the field reasoning_content of the last response
	repeats   bool // it supports consecutive messages of the same role
	leads     bool // it supports a conversation that begins with the assistant
	rewrites  bool
}

// turn is the text around a role's message.
type turn struct {
	before, after string
	trim          bool // white space around the text is dropped
	quote         bool // the text is written in JSON
}

func (t turn) wrap(s string) string { return t.before + t.shown(s) + t.after }

// shown is a message's text between before and after.
func (t turn) shown(s string) string {
	if t.trim {
		s = pytext.Strip(s)
	}
	if t.quote {
		s = jinja.Quote(s)
	}
	return s
}

// EndOfTurn returns the token with which the model ends a response.
func (c *Chat) EndOfTurn() (text string, id int32) { return c.end, c.endID }

// RewritesHistory reports that the template does not reproduce earlier responses as
// they were written: it drops their reasoning or the white space around them, or
// starts a response differently than it shows one. Rendering piece by piece keeps
// what the model read and wrote, because a model that is trained on its own tokens
// needs the context in which it wrote them. The result then differs from the
// template's rendering of the finished conversation.
func (c *Chat) RewritesHistory() bool { return c.rewrites }

// Opened returns the text with which the template's request for a response begins the
// response itself: from the first tag on that the request opens and does not close, such as
// "<think>\n" of templates of reasoning models; "" for none. The model writes what follows
// it. A tag that the request also closes, such as an empty thought, is not part of it.
func (c *Chat) Opened() string { return c.opened }

// Ends is Tokenizer.Ends for a response whose text begins with Opened.
func (c *Chat) Ends(t *Tokenizer, tokens []int32) []int {
	ends := cmp.Or(t, new(Tokenizer)).Ends(tokens)
	for i := range ends {
		ends[i] += len(c.opened)
	}
	return ends
}

// Begins reports whether the text of the tokens ends with Opened, so that a response follows
// them. Tokens that end inside a response do not.
func (c *Chat) Begins(t *Tokenizer, tokens []int32) bool {
	tail := tokens[max(0, len(tokens)-len(c.opened)):] // a token has at least one byte
	return strings.HasSuffix(cmp.Or(t, new(Tokenizer)).Decode(tail, KeepSpecial), c.opened)
}

// Written returns the part of a response that the model writes: the response without
// Opened, whose white space may differ. An error wraps ErrText if the response does not
// begin with it: no text of the model can follow the request to become that response.
func (c *Chat) Written(response string) (string, error) {
	if rest, ok := strings.CutPrefix(response, c.opened); ok {
		return rest, nil
	}
	tags := strings.TrimSpace(c.opened)
	if !strings.HasPrefix(strings.TrimSpace(response), tags) {
		return "", fmt.Errorf("tokenizer: %w: the response must begin with %s, because the chat template begins every "+
			"response with %q", ErrText, tags, c.opened)
	}
	_, rest, _ := strings.Cut(response, tags)
	if !strings.HasSuffix(c.opened, tags) { // white space of the template follows the tags
		rest = strings.TrimLeft(rest, " \t\r\n")
	}
	return rest, nil
}

// Finished replaces the request for a response at the end of a text of Open or Continue by the
// text that the template shows before a finished response, which does not end with Opened.
func (c *Chat) Finished(text string) string {
	return strings.TrimSuffix(text, c.generate) + c.assistant.before
}

// Render returns a whole conversation, without a request for a response. A system
// message may only come first. An error wraps ErrText and gives the index of the message.
func (c *Chat) Render(messages []Message) (string, error) { return c.render(messages, false) }

// Open renders the messages that open a conversation and asks for a response.
func (c *Chat) Open(messages []Message) (string, error) { return c.render(messages, true) }

func (c *Chat) render(messages []Message, generate bool) (string, error) {
	var b strings.Builder
	if len(messages) == 0 || messages[0].Role != RoleSystem {
		b.WriteString(c.open)
	}
	if err := c.write(&b, messages, "", generate); err != nil {
		return "", err
	}
	return b.String(), nil
}

// Ending says how a response ended.
type Ending bool

// The endings of responses.
const (
	EndedTurn Ending = true  // its last token is [Chat.EndOfTurn]
	CutOff    Ending = false // it is not: a length limit, or another stop token
)

// Continue renders the text after a response: the rest of the turn's end, or all of it
// for one that was CutOff, the messages, and the request for the next response.
func (c *Chat) Continue(messages []Message, ended Ending) (string, error) {
	var b strings.Builder
	rest := c.assistant.after
	if ended == EndedTurn {
		rest = rest[len(c.end):]
	}
	b.WriteString(rest)
	if err := c.write(&b, messages, RoleAssistant, true); err != nil {
		return "", err
	}
	return b.String(), nil
}

func (c *Chat) write(b *strings.Builder, messages []Message, previous string, generate bool) error {
	pads := 0
	start := b.Len()
	for i, m := range messages {
		if err := c.check(m, previous); err != nil {
			return fmt.Errorf("tokenizer: message %d: %w", i, err)
		}
		if c.merges && m.Role == RoleSystem && (i+1 == len(messages) || messages[i+1].Role != RoleUser) {
			return fmt.Errorf("tokenizer: message %d: %w: no user message follows the system message, "+
				"whose text the chat template puts into it", i, ErrText)
		}
		previous = m.Role
		pads += m.Images()
		side := c.user
		if c.merges && i > 0 && messages[i-1].Role == RoleSystem {
			side.before = "" // it is in that of the system message
		}
		switch m.Role {
		case RoleSystem:
			if side = c.system; c.blank && side.shown(m.text("")) == "" {
				b.WriteString(c.open)
				continue
			}
		case RoleAssistant:
			side = c.assistant
		case RoleTool:
			side = c.result(messages, i)
		}
		b.WriteString(side.wrap(m.text(c.image)))
	}
	if generate {
		b.WriteString(c.generate)
	}
	if c.pad != "" && strings.Count(b.String()[start:], c.pad) != pads {
		return fmt.Errorf("tokenizer: %w: the messages' text contains %s, which is the image placeholder", ErrText, c.pad)
	}
	return nil
}

// check rejects messages for which the template was not verified.
func (c *Chat) check(m Message, previous string) error {
	switch m.Role {
	case RoleSystem:
		if previous != "" {
			return fmt.Errorf("%w: a system message after the %s's, must be the first message", ErrText, previous)
		}
		if !c.hasSystem {
			return fmt.Errorf("%w: the chat template does not support a system message", ErrText)
		}
	case RoleUser, RoleAssistant:
		if m.Role == previous && !c.repeats {
			return fmt.Errorf("%w: two %s messages in a row, which the chat template does not support", ErrText, m.Role)
		}
		if m.Role == RoleAssistant && (previous == "" || previous == RoleSystem) && !c.leads {
			return fmt.Errorf("%w: the conversation begins with the assistant, which the chat template does not support",
				ErrText)
		}
	case RoleTool:
		if !c.tool.supported {
			return fmt.Errorf("%w: the chat template does not support messages of role %s", ErrText, RoleTool)
		}
		if previous != RoleAssistant && previous != RoleTool {
			return fmt.Errorf(
				"%w: a message of role %s, must follow one of the %s or of role %s", ErrText, RoleTool,
				RoleAssistant, RoleTool,
			)
		}
	default:
		return fmt.Errorf(
			"%w: role %q, want %s, %s, %s or %s", ErrText, m.Role, RoleSystem, RoleUser, RoleAssistant, RoleTool,
		)
	}
	if m.Images() > 0 && (c.image == "" || m.Role != RoleUser && (m.Role != RoleTool || !c.tool.images)) {
		return fmt.Errorf("%w: an image in a %s message, which the chat template does not support", ErrText, m.Role)
	}
	return nil
}
