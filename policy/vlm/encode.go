package vlm

import (
	"vagen/policy"
	"vagen/policy/vlm/internal/generate"
	"vagen/policy/vlm/internal/model"
)

var (
	_ policy.Templated     = (*Model)(nil)
	_ policy.Aligner       = (*Model)(nil)
	_ policy.SystemEncoder = (*Model)(nil)
)

// encoder returns the model's encoder. That of a zero value says nothing of its model.
func (m *Model) encoder() *generate.Encoder {
	if m.text == nil {
		return &generate.Encoder{Cfg: &model.Config{}}
	}
	return m.text
}

// Encode implements policy.Encoder: the tokens of a conversation as Generate would have
// read and written them, turn by turn. Messages after the assistant's last one are
// ignored.
func (m *Model) Encode(messages []policy.Message) ([]policy.Piece, []policy.Image, error) {
	if m.text == nil {
		return nil, nil, errZero
	}
	return m.text.Encode(messages)
}

// EncodeSystem implements policy.SystemEncoder.
func (m *Model) EncodeSystem(text string) ([]int32, error) {
	if m.text == nil {
		return nil, errZero
	}
	return m.text.EncodeSystem(text)
}

// Opened implements policy.Templated.
func (m *Model) Opened() string { return m.encoder().Opened() }

// RewritesHistory implements policy.Templated.
func (m *Model) RewritesHistory() bool { return m.encoder().RewritesHistory() }

// Response implements policy.Templated.
func (m *Model) Response(tokens []int32) string { return m.encoder().Response(tokens) }

// Ends implements policy.Aligner.
func (m *Model) Ends(tokens []int32) []int { return m.encoder().Ends(tokens) }

// ToolCalls returns the text of a response that calls tools, as the chat template shows it: see
// tokenizer.Chat.ToolCalls.
func (m *Model) ToolCalls(text, calls string) (string, error) {
	if m.text == nil {
		return "", errZero
	}
	return m.text.ToolCalls(text, calls)
}

// ToolSystem returns the text of a system message with definitions of tools: see tokenizer.Chat.ToolSystem.
func (m *Model) ToolSystem(text, tools string) (string, error) {
	if m.text == nil {
		return "", errZero
	}
	return m.text.ToolSystem(text, tools)
}

// WithTools returns an encoder of conversations with definitions of tools: a JSON list, which
// the chat template shows.
func (m *Model) WithTools(tools string) (policy.Encoder, error) {
	if m.text == nil {
		return nil, errZero
	}
	return m.text.WithTools(tools)
}

// MaxPositions returns the maximum length of a row in tokens; 0 is no limit.
func (m *Model) MaxPositions() int { return m.encoder().MaxPositions() }
