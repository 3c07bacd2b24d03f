package vlm

import (
	"image"

	"vagen/internal/dialogue"
	"vagen/policy"
)

var (
	_ policy.Templated = (*Model)(nil)
	_ policy.Aligner   = (*Model)(nil)
	_ policy.Templated = encoder{}
)

func (m *Model) dialogue() dialogue.Encoder {
	return dialogue.Encoder{Name: "vlm", Tokenizer: m.tok, Chat: m.chat, Vision: m.cfg.Vision != nil,
		End: m.cfg.EndOfTurn, Images: m.placeholders}
}

// placeholders prepares the images of messages.
func (m *Model) placeholders(groups [][]image.Image) ([][]policy.Image, [][]int, []error) {
	refs, pics, errs := m.prepareImages(groups)
	counts := make([][]int, len(pics))
	for i := range pics {
		for _, pic := range pics[i] {
			counts[i] = append(counts[i], pic.grid.tokens(m.cfg.Vision.Merge))
		}
	}
	return refs, counts, errs
}

// Encode implements policy.Encoder: the tokens of a conversation as Generate would have
// read and written them, turn by turn. Messages after the assistant's last one are
// ignored.
func (m *Model) Encode(messages []policy.Message) ([]policy.Piece, []policy.Image, error) {
	m.pictures.startRound()
	return m.dialogue().Encode(messages)
}

// Opened implements policy.Templated.
func (m *Model) Opened() string { return m.chat.Opened() }

// RewritesHistory implements policy.Templated.
func (m *Model) RewritesHistory() bool { return m.chat.RewritesHistory() }

// Response implements policy.Templated.
func (m *Model) Response(tokens []int32) string { return m.dialogue().Response(tokens) }

// Ends implements policy.Aligner.
func (m *Model) Ends(tokens []int32) []int { return m.chat.Ends(m.tok, tokens) }
