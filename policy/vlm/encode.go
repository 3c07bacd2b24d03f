package vlm

import (
	"vagen/policy"
)

var (
	_ policy.Templated     = (*Model)(nil)
	_ policy.Aligner       = (*Model)(nil)
	_ policy.SystemEncoder = (*Model)(nil)
)

// Encode implements policy.Encoder: the tokens of a conversation as Generate would have
// read and written them, turn by turn. Messages after the assistant's last one are
// ignored.
func (m *Model) Encode(messages []policy.Message) ([]policy.Piece, []policy.Image, error) {
	return m.text.Encode(messages)
}

// EncodeSystem implements policy.SystemEncoder.
func (m *Model) EncodeSystem(text string) ([]int32, error) { return m.text.EncodeSystem(text) }

// Opened implements policy.Templated.
func (m *Model) Opened() string { return m.text.Opened() }

// RewritesHistory implements policy.Templated.
func (m *Model) RewritesHistory() bool { return m.text.RewritesHistory() }

// Response implements policy.Templated.
func (m *Model) Response(tokens []int32) string { return m.text.Response(tokens) }

// Ends implements policy.Aligner.
func (m *Model) Ends(tokens []int32) []int { return m.text.Ends(tokens) }

// ToolCalls returns the text of a response that calls tools, as the chat template shows it: see
// tokenizer.Chat.ToolCalls.
func (m *Model) ToolCalls(text, calls string) (string, error) { return m.text.ToolCalls(text, calls) }

// WithTools returns an encoder of conversations with definitions of tools: a JSON list, which
// the chat template shows.
func (m *Model) WithTools(tools string) (policy.Encoder, error) { return m.text.WithTools(tools) }

// MaxPositions returns the maximum length of a row in tokens; 0 is no limit.
func (m *Model) MaxPositions() int { return m.text.MaxPositions() }
