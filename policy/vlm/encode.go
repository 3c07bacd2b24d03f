package vlm

import (
	"errors"
	"fmt"
	"image"

	"vagen/policy"
	"vagen/policy/vlm/tokenizer"
)

var (
	_ policy.Templated = (*Model)(nil)
	_ policy.Templated = encoder{}
)

// Encode implements policy.Encoder: the tokens of a conversation as Generate would have
// read and written them, turn by turn. Messages after the assistant's last one are
// ignored.
func (m *Model) Encode(messages []policy.Message) ([]policy.Piece, []policy.Image, error) {
	var groups [][]image.Image
	for _, msg := range messages {
		groups = append(groups, msg.Images)
	}
	refs, pics, errs := m.prepareImages(groups)
	if err := errors.Join(errs...); err != nil {
		return nil, nil, err
	}
	var out []policy.Piece
	var images, fresh []policy.Image // fresh: images since the last response
	var pending []tokenizer.Message
	var counts []int
	for i, msg := range messages {
		if msg.Role != policy.Assistant {
			part, err := tokenizer.Marked(string(msg.Role), msg.Text, imageMark, len(msg.Images))
			if err != nil {
				return nil, nil, fmt.Errorf("vlm: message %d: %w", i, err)
			}
			pending, fresh = append(pending, part), append(fresh, refs[i]...)
			for _, pic := range pics[i] {
				counts = append(counts, pic.grid.tokens(m.cfg.Vision.Merge))
			}
			continue
		}
		if len(msg.Images) > 0 {
			return nil, nil, fmt.Errorf("vlm: message %d: %d images, but the assistant writes text only", i, len(msg.Images))
		}
		context, err := m.renderContext(pending, counts, len(out) > 0)
		if err != nil {
			return nil, nil, fmt.Errorf("vlm: before message %d: %w", i, err)
		}
		var response []int32
		written, err := m.chat.Written(msg.Text)
		if err == nil {
			response, err = m.tok.Encode(written)
		}
		if err == nil && m.cfg.Vision != nil {
			response, err = m.tok.ExpandImages(nil, response, nil) // rejects placeholders
		}
		if err != nil {
			return nil, nil, fmt.Errorf("vlm: message %d: %w", i, err)
		}
		_, end := m.chat.EndOfTurn()
		out = append(out, policy.Piece{Tokens: context}, policy.Piece{Tokens: append(response, end), Response: true})
		images = append(images, fresh...)
		pending, counts, fresh = nil, nil, nil
	}
	return out, images, nil
}

// renderContext returns the tokens that the policy reads before a response.
func (m *Model) renderContext(msgs []tokenizer.Message, counts []int, opened bool) ([]int32, error) {
	render := m.chat.Open
	if opened {
		render = func(msgs []tokenizer.Message) (string, error) { return m.chat.Continue(msgs, tokenizer.EndedTurn) }
	}
	text, err := render(msgs)
	if err != nil {
		return nil, err
	}
	ids, err := m.tok.Encode(text)
	if err != nil || len(counts) == 0 {
		return ids, err
	}
	return m.tok.ExpandImages(nil, ids, counts)
}

// Opened implements policy.Templated.
func (m *Model) Opened() string { return m.chat.Opened() }

// RewritesHistory implements policy.Templated.
func (m *Model) RewritesHistory() bool { return m.chat.RewritesHistory() }

// Response implements policy.Templated.
func (m *Model) Response(tokens []int32) string {
	if _, end := m.chat.EndOfTurn(); len(tokens) > 0 && tokens[len(tokens)-1] == end {
		tokens = tokens[:len(tokens)-1]
	}
	return m.chat.Opened() + m.tok.Decode(tokens, tokenizer.KeepSpecial)
}

// Ends implements policy.Aligner.
func (m *Model) Ends(tokens []int32) []int { return m.chat.Ends(m.tok, tokens) }

var _ policy.Aligner = (*Model)(nil)
