// Package dialogue converts conversations to the tokens that a model reads and writes, with
// its tokenizer and chat template and without its weights.
package dialogue

import (
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"slices"

	"vagen/internal/endtokens"
	"vagen/policy"
	"vagen/policy/vlm/tokenizer"
)

// Encoder implements policy.Templated and policy.Aligner.
type Encoder struct {
	Name   string // the package that errors name
	Tok    *tokenizer.Tokenizer
	Chat   *tokenizer.Chat
	Vocab  int     // rows of the embedding
	Vision bool    // the model has placeholders of images
	End    []int32 // tokens that end a response

	// Images prepares the images of messages: for each message references, numbers of
	// placeholders, and its error, which names the package.
	Images func(groups [][]image.Image) ([][]policy.Image, [][]int, []error)
}

var (
	_ policy.Templated = Encoder{}
	_ policy.Aligner   = Encoder{}
)

// Open loads tokenizer, chat template and end tokens of generation of a model's folder. end are
// the end tokens of its config, template has variables of the chat template.
func Open(name, dir string, vocab int, end []int32, template map[string]any) (Encoder, error) {
	e := Encoder{Name: name, Vocab: vocab}
	var err error
	if e.Tok, err = tokenizer.Load(dir); err != nil {
		return e, err
	}
	if e.Chat, err = e.Tok.Chat(template); err != nil {
		return e, err
	}
	if err := e.Tok.CheckVariables(template); err != nil {
		return e, err
	}
	if n := e.Tok.VocabSize(); n > vocab {
		return e, fmt.Errorf("%s: the tokenizer has %d ids, the embedding only %d rows", dir, n, vocab)
	}
	generation, err := endtokens.Generation(dir, vocab)
	if err != nil {
		return e, err
	}
	_, turn := e.Chat.EndOfTurn()
	e.End = endtokens.Union(end, generation, []int32{turn})
	return e, nil
}

// CheckTokens returns an error unless the model's embedding has rows for the tokens.
func (e Encoder) CheckTokens(tokens []int32) error {
	for i, id := range tokens {
		if id < 0 || int(id) >= e.Vocab {
			return fmt.Errorf("token %d is %d, must be in [0, %d)", i, id, e.Vocab)
		}
	}
	return nil
}

// Encode implements policy.Encoder: the tokens of a conversation as Generate would have
// read and written them, turn by turn. Messages after the assistant's last one are
// ignored.
func (e Encoder) Encode(messages []policy.Message) ([]policy.Piece, []policy.Image, error) {
	var groups [][]image.Image
	for _, msg := range messages {
		groups = append(groups, msg.Images)
	}
	refs, places, errs := e.Images(groups)
	if err := errors.Join(errs...); err != nil {
		return nil, nil, err
	}
	var out []policy.Piece
	var images, fresh []policy.Image // fresh: images since the last response
	var past *Past
	var pending []tokenizer.Message
	var counts []int
	for i, msg := range messages {
		if msg.Role != policy.Assistant {
			part, err := marked(msg)
			if err != nil {
				return nil, nil, fmt.Errorf("%s: message %d: %w", e.Name, i, err)
			}
			pending, fresh, counts = append(pending, part), append(fresh, refs[i]...), append(counts, places[i]...)
			continue
		}
		if len(msg.Images) > 0 {
			return nil, nil, fmt.Errorf(
				"%s: message %d: %d images, but the assistant writes text only", e.Name, i, len(msg.Images),
			)
		}
		written, err := e.Chat.Written(msg.Text)
		finished := err != nil && msg.Unlearned
		if finished {
			written, err = msg.Text, nil
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%s: message %d: %w", e.Name, i, err)
		}
		context, err := e.context(past, pending, counts, !finished)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: before message %d: %w", e.Name, i, err)
		}
		response, err := e.response(written)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: message %d: %w", e.Name, i, err)
		}
		out = append(out, policy.Piece{Tokens: context}, policy.Piece{Tokens: response, Response: true})
		images = append(images, fresh...)
		past, pending, counts, fresh = &Past{Ended: true}, nil, nil, nil
	}
	return out, images, nil
}

// EncodeSystem implements policy.SystemEncoder.
func (e Encoder) EncodeSystem(text string) ([]int32, error) {
	shown, err := e.Chat.Render([]tokenizer.Message{tokenizer.Text(tokenizer.RoleSystem, text)})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.Name, err)
	}
	return e.Tok.Encode(shown)
}

// ToolCalls implements policy.ToolPrompter: see tokenizer.Chat.ToolCalls.
func (e Encoder) ToolCalls(text, calls string) (string, error) {
	return e.Chat.ToolCalls(text, json.RawMessage(calls))
}

// ToolSystem implements policy.ToolPrompter: see tokenizer.Chat.ToolSystem.
func (e Encoder) ToolSystem(text, tools string) (string, error) {
	return e.Chat.ToolSystem(text, json.RawMessage(tools))
}

// response returns the tokens of a response, with the end of its turn.
func (e Encoder) response(written string) ([]int32, error) {
	ids, err := e.Tok.Encode(written)
	if err == nil && e.Vision {
		ids, err = e.Tok.ExpandImages(nil, ids, nil) // rejects placeholders
	}
	_, end := e.Chat.EndOfTurn()
	return append(ids, end), err
}

// Past is what precedes a prompt in its conversation.
type Past struct {
	Recorded []int32 // of a resumed conversation for which nothing has been generated
	Ended    bool    // the last token is the end-of-turn token
}

// Prompt returns the tokens of a prompt's messages, whose images have counts placeholders, and the
// text of the response that the chat template has written. Without a past the messages open a
// conversation. An error about them wraps policy.ErrMessages.
func (e Encoder) Prompt(past *Past, messages []policy.Message, counts []int) ([]int32, string, error) {
	opened := e.Chat.Opened()
	if past != nil && len(past.Recorded) > 0 && len(messages) == 0 { // the response follows the recorded tokens
		switch {
		case past.Ended:
			return nil, "", fmt.Errorf("%w: the recorded tokens end with a complete response, and the prompt has no messages",
				policy.ErrResume)
		case !e.Chat.Begins(e.Tok, past.Recorded): // they end inside the response
			opened = ""
		}
		return nil, opened, nil
	}
	parts := make([]tokenizer.Message, len(messages))
	for i, m := range messages {
		var err error
		if parts[i], err = marked(m); err != nil {
			return nil, "", err
		}
	}
	ids, err := e.context(past, parts, counts, true)
	if err != nil {
		err = fmt.Errorf("%w: %w", policy.ErrMessages, err)
	}
	return ids, opened, err
}

func marked(m policy.Message) (tokenizer.Message, error) {
	return tokenizer.Marked(string(m.Role), m.Text, policy.ImageMark, len(m.Images))
}

// context returns the tokens before a response: those that the policy reads, or, without a
// request, those that the chat template shows before a finished response.
func (e Encoder) context(past *Past, msgs []tokenizer.Message, counts []int, request bool) ([]int32, error) {
	var text string
	var err error
	if past == nil {
		text, err = e.Chat.Open(msgs)
	} else {
		text, err = e.Chat.Continue(msgs, tokenizer.Ending(past.Ended))
	}
	if err != nil {
		return nil, err
	}
	if !request {
		text = e.Chat.Finished(text)
	}
	ids, err := e.Tok.Encode(text)
	if err != nil || len(counts) == 0 {
		return ids, err
	}
	return e.Tok.ExpandImages(nil, ids, counts)
}

// Opened implements policy.Templated. Like the next three methods it needs nothing of the zero value.
func (e Encoder) Opened() string {
	if e.Chat == nil {
		return ""
	}
	return e.Chat.Opened()
}

// RewritesHistory implements policy.Templated.
func (e Encoder) RewritesHistory() bool { return e.Chat != nil && e.Chat.RewritesHistory() }

// Response implements policy.Templated.
func (e Encoder) Response(tokens []int32) string {
	if e.Tok == nil {
		return ""
	}
	if n := len(tokens) - 1; n >= 0 && slices.Contains(e.End, tokens[n]) {
		tokens = tokens[:n]
	}
	return e.Chat.Opened() + e.Tok.Decode(tokens, tokenizer.KeepSpecial)
}

// Ends implements policy.Aligner.
func (e Encoder) Ends(tokens []int32) []int {
	if e.Tok == nil {
		return nil
	}
	return e.Chat.Ends(e.Tok, tokens)
}
