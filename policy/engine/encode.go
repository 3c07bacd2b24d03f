package engine

import (
	"image"

	"vagen/policy"
)

var (
	_ policy.Templated = (*Codec)(nil)
	_ policy.Aligner   = (*Codec)(nil)
)

// placeholders prepares the images of messages.
func (c *Codec) placeholders(groups [][]image.Image) ([][]policy.Image, [][]int, []error) {
	refs, places, errs := make([][]policy.Image, len(groups)), make([][]int, len(groups)), make([]error, len(groups))
	for i, group := range groups {
		var pics []picture
		pics, errs[i] = c.pictures([]policy.Message{{Images: group}})
		places[i] = counts(pics)
		for _, pic := range pics {
			refs[i] = append(refs[i], pic.ref)
		}
	}
	return refs, places, errs
}

// Encode implements policy.Encoder: the tokens of a conversation as a model reads and writes
// them, turn by turn, in plain Go. Messages after the assistant's last one are ignored.
func (c *Codec) Encode(messages []policy.Message) ([]policy.Piece, []policy.Image, error) {
	if c.text.Tok == nil {
		return nil, nil, errCodec
	}
	return c.text.Encode(messages)
}

// Opened implements policy.Templated.
func (c *Codec) Opened() string { return c.text.Opened() }

// RewritesHistory implements policy.Templated.
func (c *Codec) RewritesHistory() bool { return c.text.RewritesHistory() }

// Response implements policy.Templated.
func (c *Codec) Response(tokens []int32) string { return c.text.Response(tokens) }

// Ends implements policy.Aligner.
func (c *Codec) Ends(tokens []int32) []int { return c.text.Ends(tokens) }
