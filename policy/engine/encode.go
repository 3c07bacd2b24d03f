package engine

import (
	"image"

	"vagen/internal/dialogue"
	"vagen/policy"
)

var (
	_ policy.Templated = (*Codec)(nil)
	_ policy.Aligner   = (*Codec)(nil)
)

func (c *Codec) dialogue() dialogue.Encoder {
	return dialogue.Encoder{Name: "engine", Tokenizer: c.tok, Chat: c.chat, Vision: c.proc != nil,
		End: c.end, Images: c.placeholders}
}

// placeholders prepares the images of messages.
func (c *Codec) placeholders(groups [][]image.Image) ([][]policy.Image, [][]int, []error) {
	refs, counts, errs := make([][]policy.Image, len(groups)), make([][]int, len(groups)), make([]error, len(groups))
	for i, group := range groups {
		pics, err := c.pictures([]policy.Message{{Images: group}})
		errs[i] = err
		for _, pic := range pics {
			refs[i], counts[i] = append(refs[i], pic.ref), append(counts[i], pic.tokens)
		}
	}
	return refs, counts, errs
}

// Encode implements policy.Encoder: the tokens of a conversation as a model reads and writes
// them, turn by turn, in plain Go. Messages after the assistant's last one are ignored.
func (c *Codec) Encode(messages []policy.Message) ([]policy.Piece, []policy.Image, error) {
	return c.dialogue().Encode(messages)
}

// Opened implements policy.Templated.
func (c *Codec) Opened() string { return c.chat.Opened() }

// RewritesHistory implements policy.Templated.
func (c *Codec) RewritesHistory() bool { return c.chat.RewritesHistory() }

// Response implements policy.Templated.
func (c *Codec) Response(tokens []int32) string { return c.dialogue().Response(tokens) }

// Ends implements policy.Aligner.
func (c *Codec) Ends(tokens []int32) []int { return c.chat.Ends(c.tok, tokens) }
