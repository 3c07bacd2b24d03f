package chat

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
)

// Reasoning in a field of its own is kept, whatever the service calls it, also without an
// answer, and is not sent back to the service.
func TestReasoningApartFromTheAnswerIsKept(t *testing.T) {
	messages := []string{
		`{"content": "Up", "reasoning_content": "hm"}`,                    // DeepSeek, SGLang, older vLLM
		`{"content": "Up", "reasoning": "hm"}`,                            // OpenRouter, newer vLLM
		`{"content": "Up", "reasoning": "hm", "reasoning_content": "hm"}`, // both, of the same text
		`{"content": "Up", "reasoning": "hm", "reasoning_content": null}`,
		`{"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "Up"}]}`,
		`{"content": null, "reasoning_content": "hm"}`,
		`{"reasoning_content": "hm"}`,
		`{"content": "Up", "reasoning": {"effort": "low"}}`, // not a text
	}
	rec := record(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"choices": [{"message": %s, "finish_reason": "stop"}]}`, messages[n])
	})
	m := newModel(t, options(t, OpenAI, rec.URL))
	for i := range messages {
		prompt := policy.Prompt{Conversation: 1, Messages: []policy.Message{{Role: policy.User, Text: "on"}}}
		out, err := m.Generate(t.Context(), []policy.Prompt{prompt}, policy.Sampling{MaxTokens: 9})
		require.NoError(t, err)
		require.NoError(t, out[0].Err)
		text, reasoning := "Up", "hm"
		switch i {
		case 5, 6:
			text = ""
		case 7:
			reasoning = ""
		}
		require.Equal(t, []string{text, reasoning}, []string{out[0].Text, out[0].Reasoning}, messages[i])
	}
	require.NotContains(t, fmt.Sprint(rec.all()), "hm")
}

// What a server's template opens and its answers leave out is put in front of them.
func TestWhatAServersTemplateOpensIsPutBack(t *testing.T) {
	answers := []string{"go</think>Up", "<think> go</think>Up", ""}
	rec := record(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, said(OpenAI, answers[n], "stop", 1, 1))
	})
	o := options(t, OpenAI, rec.URL)
	o.Opened = "<think>\n"
	m := newModel(t, o)
	for _, want := range []string{"<think>\ngo</think>Up", "<think> go</think>Up", "<think>\n"} {
		prompt := policy.Prompt{Conversation: 1, Messages: []policy.Message{{Role: policy.User, Text: "on"}}}
		out, err := m.Generate(t.Context(), []policy.Prompt{prompt}, policy.Sampling{MaxTokens: 9})
		require.NoError(t, err)
		require.Equal(t, want, out[0].Text)
	}
}
