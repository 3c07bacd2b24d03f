package vlm

import (
	"encoding/json"
	"fmt"
	"maps"

	"vagen/policy"
	"vagen/policy/vlm/tokenizer"
)

// encoder is the part of a Model that encodes conversations, which needs no device.
type encoder struct{ m *Model }

var _ policy.Aligner = encoder{}

func (e encoder) Encode(messages []policy.Message) ([]policy.Piece, []policy.Image, error) {
	return e.m.Encode(messages)
}
func (e encoder) Ends(tokens []int32) []int                      { return e.m.Ends(tokens) }
func (e encoder) MaxPositions() int                              { return e.m.MaxPositions() }
func (e encoder) ToolCalls(text, calls string) (string, error)   { return e.m.ToolCalls(text, calls) }
func (e encoder) WithTools(tools string) (policy.Encoder, error) { return e.m.WithTools(tools) }
func (e encoder) Opened() string                                 { return e.m.Opened() }
func (e encoder) RewritesHistory() bool                          { return e.m.RewritesHistory() }
func (e encoder) Response(tokens []int32) string                 { return e.m.Response(tokens) }

// ToolCalls returns the text of a response that calls tools, as the chat template shows it: see
// tokenizer.Chat.ToolCalls.
func (m *Model) ToolCalls(text, calls string) (string, error) {
	out, err := m.chat.ToolCalls(text, json.RawMessage(calls))
	if err != nil {
		return "", fmt.Errorf("vlm: %w", err)
	}
	return out, nil
}

// WithTools returns an encoder of conversations with definitions of tools: a JSON list, which
// the chat template shows.
func (m *Model) WithTools(tools string) (policy.Encoder, error) {
	var list []json.RawMessage
	if err := json.Unmarshal([]byte(tools), &list); err != nil || len(list) == 0 {
		return nil, fmt.Errorf(
			"vlm: %w: the definitions of tools must be a JSON list that is not empty", tokenizer.ErrText,
		)
	}
	vars := map[string]any{"tools": json.RawMessage(tools)}
	maps.Copy(vars, m.opts.Template)
	chat, err := m.tok.Chat(vars)
	if err != nil {
		return nil, fmt.Errorf("vlm: with tools: %w", err)
	}
	question := []tokenizer.Message{tokenizer.Text(tokenizer.RoleUser, "x")}
	without, err := m.chat.Render(question)
	if err != nil {
		return nil, fmt.Errorf("vlm: %w", err)
	}
	if with, err := chat.Render(question); err != nil || with == without {
		return nil, fmt.Errorf("vlm: %w: the chat template shows no definitions of tools", tokenizer.ErrText)
	}
	return encoder{&Model{opts: m.opts, cfg: m.cfg, tok: m.tok, chat: chat, proc: m.proc, pictures: m.pictures}}, nil
}
