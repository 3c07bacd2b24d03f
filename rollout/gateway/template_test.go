package gateway

import (
	"context"
	"encoding/json"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/dialogue"
	"vagen/internal/testkit"
	"vagen/policy"
	"vagen/policy/vlm/tokenizer"
)

// fromTemplate is a policy with a chat template.
type fromTemplate struct {
	*scripted
	policy.ToolPrompter
}

// conversation is a recorded one with tools, as jinja2 shows it.
type conversation struct {
	Template, Text string
	Tools          json.RawMessage
	Messages       []struct {
		Role    string          `json:"role"`
		Content string          `json:"content"`
		Calls   json.RawMessage `json:"tool_calls,omitempty"`
	}
}

// open returns a policy with the template of a conversation.
func (c *conversation) open(t *testing.T) fromTemplate {
	t.Helper()
	dir := t.TempDir()
	tiny, err := tokenizer.NewTiny([]string{"<|start|>", "<|stop|>"})
	require.NoError(t, err)
	require.NoError(t, tiny.Save(dir))
	testkit.Write(t, filepath.Join(dir, "chat_template.jinja"), c.Template)
	d, err := dialogue.Open("test", dir, math.MaxInt32, nil, nil)
	require.NoError(t, err)
	return fromTemplate{&scripted{chat: d.Chat}, d}
}

// play sends the conversation, in the turns of the assistant or, all at once, for the last one of them.
func (c *conversation) play(t *testing.T, p fromTemplate, atOnce bool) string {
	t.Helper()
	asked := 0
	p.next = func(policy.Prompt) string {
		text, err := p.ToolCalls(c.Messages[asked].Content, string(c.Messages[asked].Calls))
		require.NoError(t, err)
		return text
	}
	g, err := New(Settings{Agent: func(_ context.Context, e *Episode) (*Score, error) {
		var sent []any
		for i, m := range c.Messages {
			if asked = i; m.Role != "assistant" || atOnce && i < len(c.Messages)-1 {
				sent = append(sent, m)
				continue
			}
			body, err := json.Marshal(object{"messages": sent, "tools": c.Tools})
			require.NoError(t, err)
			code, _, a := post(t, e.URL+"/v1/chat/completions", "", string(body))
			require.Equal(t, 200, code, a)
			sent = append(sent, a["choices"].([]any)[0].(object)["message"])
		}
		return &Score{Reward: 1}, nil
	}})
	require.NoError(t, err)
	tr := play(t, g, p, nil)
	require.NoError(t, g.Close())
	require.NoError(t, tr.Err)
	require.Len(t, tr.Rows, 1)
	return text(tr.Rows[0].Tokens())
}

// recorded returns the conversations of several templates.
func recorded(t *testing.T) (all []conversation) {
	t.Helper()
	require.NoError(t, json.Unmarshal(testkit.Read(t, "../../policy/vlm/tokenizer/testdata/tools.json"), &all))
	return all
}

// TestToolsAreShownByTheTemplateOfTheModel: rows have the text that jinja2 makes of the conversation, with which the
// model was trained and supervised training trains it. Turns that were not recorded are shown by it, too.
func TestToolsAreShownByTheTemplateOfTheModel(t *testing.T) {
	all := recorded(t)
	for _, i := range []int{1, 2, 4} {
		c := &all[i]
		want := c.Text[:strings.LastIndex(c.Text, "<|im_end|>")]
		require.Equal(t, want, c.play(t, c.open(t), false), i)
		if i != 4 { // it shows thoughts in the last turns only
			require.Equal(t, want, c.play(t, c.open(t), true), i)
		}
	}
	// A template that shows calls in another form is not used.
	other := all[2]
	other.Template = strings.ReplaceAll(other.Template, "\\n<tool_call>\\n{", "\\n[CALL]{")
	require.Contains(t, other.Template, "[CALL]")
	require.Nil(t, templateOf(other.open(t)))
	require.Nil(t, templateOf(all[3].open(t)), "it shows no definitions")
	require.Nil(t, templateOf(&scripted{}))
}
