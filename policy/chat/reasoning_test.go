package chat

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
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
		c := one(t, m, prompt(1, user("on")))
		require.NoError(t, c.Err)
		text, reasoning := "Up", "hm"
		switch i {
		case 5, 6:
			text = ""
		case 7:
			reasoning = ""
		}
		require.Equal(t, []string{text, reasoning}, []string{c.Text, c.Reasoning}, messages[i])
	}
	require.NotContains(t, fmt.Sprint(rec.all()), "hm")
}

// What a server's template opens and its answers leave out is put in front of them.
func TestWhatAServersTemplateOpensIsPutBack(t *testing.T) {
	answers := []string{"go</think>Up", "<think> go</think>Up", ""}
	rec := saying(t, OpenAI, func(n int) string { return answers[n] })
	o := options(t, OpenAI, rec.URL)
	o.Opened = "<think>\n"
	m := newModel(t, o)
	for _, want := range []string{"<think>\ngo</think>Up", "<think> go</think>Up", "<think>\n"} {
		require.Equal(t, want, one(t, m, prompt(1, user("on"))).Text)
	}
}
