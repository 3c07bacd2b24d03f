// Package dialogue converts conversations to the tokens that a model reads and writes, with
// its tokenizer and chat template and without its weights.
package dialogue

import (
	"errors"
	"fmt"
	"image"
	"slices"

	"vagen/policy"
	"vagen/policy/vlm/tokenizer"
)

// ImageMark marks the position of an image in a message's text.
const ImageMark = "<image>"

// Encoder implements policy.Templated and policy.Aligner.
type Encoder struct {
	Name      string // the package that errors name
	Tokenizer *tokenizer.Tokenizer
	Chat      *tokenizer.Chat
	Vision    bool    // the model has placeholders of images
	End       []int32 // tokens that end a response

	// Images prepares the images of messages: for each message references, numbers of
	// placeholders, and its error, which names the package.
	Images func(groups [][]image.Image) ([][]policy.Image, [][]int, []error)
}

var (
	_ policy.Templated = Encoder{}
	_ policy.Aligner   = Encoder{}
)

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
	var pending []tokenizer.Message
	var counts []int
	for i, msg := range messages {
		if msg.Role != policy.Assistant {
			part, err := tokenizer.Marked(string(msg.Role), msg.Text, ImageMark, len(msg.Images))
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
		context, err := e.context(pending, counts, len(out) > 0, !finished)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: before message %d: %w", e.Name, i, err)
		}
		response, err := e.response(written)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: message %d: %w", e.Name, i, err)
		}
		out = append(out, policy.Piece{Tokens: context}, policy.Piece{Tokens: response, Response: true})
		images = append(images, fresh...)
		pending, counts, fresh = nil, nil, nil
	}
	return out, images, nil
}

// EncodeSystem implements policy.SystemEncoder.
func (e Encoder) EncodeSystem(text string) ([]int32, error) {
	shown, err := e.Chat.Render([]tokenizer.Message{tokenizer.Text(tokenizer.RoleSystem, text)})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.Name, err)
	}
	return e.Tokenizer.Encode(shown)
}

// response returns the tokens of a response, with the end of its turn.
func (e Encoder) response(written string) ([]int32, error) {
	ids, err := e.Tokenizer.Encode(written)
	if err == nil && e.Vision {
		ids, err = e.Tokenizer.ExpandImages(nil, ids, nil) // rejects placeholders
	}
	_, end := e.Chat.EndOfTurn()
	return append(ids, end), err
}

// context returns the tokens before a response: those that the policy reads, or, without a
// request, those that the chat template shows before a finished response.
func (e Encoder) context(msgs []tokenizer.Message, counts []int, opened, request bool) ([]int32, error) {
	render := e.Chat.Open
	if opened {
		render = func(msgs []tokenizer.Message) (string, error) { return e.Chat.Continue(msgs, tokenizer.EndedTurn) }
	}
	text, err := render(msgs)
	if err != nil {
		return nil, err
	}
	if !request {
		text = e.Chat.Finished(text)
	}
	ids, err := e.Tokenizer.Encode(text)
	if err != nil || len(counts) == 0 {
		return ids, err
	}
	return e.Tokenizer.ExpandImages(nil, ids, counts)
}

// Opened implements policy.Templated.
func (e Encoder) Opened() string { return e.Chat.Opened() }

// RewritesHistory implements policy.Templated.
func (e Encoder) RewritesHistory() bool { return e.Chat.RewritesHistory() }

// Response implements policy.Templated.
func (e Encoder) Response(tokens []int32) string {
	if n := len(tokens) - 1; n >= 0 && slices.Contains(e.End, tokens[n]) {
		tokens = tokens[:n]
	}
	return e.Chat.Opened() + e.Tokenizer.Decode(tokens, tokenizer.KeepSpecial)
}

// Ends implements policy.Aligner.
func (e Encoder) Ends(tokens []int32) []int { return e.Chat.Ends(e.Tokenizer, tokens) }
