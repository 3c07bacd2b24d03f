package gateway

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"vagen/env"
	"vagen/internal/imagefile"
	"vagen/policy"
	"vagen/rollout/gateway/internal/dialect"
)

// toolText shows definitions of tools in the system prompt and says how to call them, in the form of
// the chat templates of Qwen2.5 and Qwen3. It is for policies whose own template is not used, see templateOf.
const toolText = "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n" +
	"You are provided with function signatures within <tools></tools> XML tags:\n<tools>\n%s\n</tools>\n\n" +
	"For each function call, return a json object with function name and arguments within " +
	callOpen + callClose + " XML tags:\n" + callOpen +
	"\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n" + callClose

// templateOf returns the chat template of a policy, nil if it shows no tools, or shows calls in a form that newAnswer
// does not read: then the policy would be taught that form, and its calls be lost.
func templateOf(p policy.Policy) policy.ToolPrompter {
	t, ok := policy.As[policy.ToolPrompter](p)
	if !ok {
		return nil
	}
	const tool = `{"type":"function","function":{"name":"f","parameters":{"properties":{"a":{"type":"integer"}}}}}`
	_, err := t.ToolSystem("", "["+tool+"]")
	text, wrong := t.ToolCalls("", `[{"name": "f", "arguments": {"a": 1}}]`)
	read := newAnswer("", text, nil, tool).Calls
	if err != nil || wrong != nil || !sameCalls(read, []dialect.Call{{Name: "f", Arguments: `{"a": 1}`}}) {
		return nil
	}
	return t
}

// instructions shows a text and definitions of tools, one a line.
func (e *Episode) instructions(text, tools string) string {
	if e.template != nil {
		shown, err := e.template.ToolSystem(text, "["+strings.ReplaceAll(tools, "\n", ",")+"]")
		if err == nil {
			return env.WithoutMarks(shown)
		}
	}
	if text != "" {
		text += "\n\n"
	}
	return text + fmt.Sprintf(toolText, tools)
}

// calling shows a message of the assistant that the policy has not written.
func (e *Episode) calling(m dialect.Message) string {
	if e.template != nil && len(m.Calls) > 0 {
		calls, _ := json.Marshal(m.Calls) // texts cannot fail
		if shown, err := e.template.ToolCalls(m.Text, string(calls)); err == nil {
			return env.WithoutMarks(shown)
		}
	}
	some := []string{m.Text}
	for _, c := range m.Calls {
		arguments := cmp.Or(c.Arguments, "{}")
		call := fmt.Sprintf("%s\n{\"name\": %q, \"arguments\": %s}\n%s", callOpen, c.Name, arguments, callClose)
		some = append(some, env.WithoutMarks(call))
	}
	return dialect.Join(some)
}

// withTools adds definitions of tools, which the instructions show.
func withTools(ms []dialect.Message, tools string) []dialect.Message {
	if tools == "" {
		return ms
	}
	return slices.Insert(ms, 0, dialect.Message{Role: dialect.System, Replaced: dialect.Tools,
		Text: env.WithoutMarks(tools)})
}

// leads reports whether a message at the beginning belongs to the instructions, in which templates show no images.
func leads(m dialect.Message) bool { return m.Role == dialect.System && len(m.Images) == 0 }

// messages converts messages to those of a policy: leading instructions make one message, and users and later
// instructions in turn another, as chat templates want it. So do results of tools, unless the template shows them.
func (e *Episode) messages(ms []dialect.Message, begins bool) []policy.Message {
	var out []policy.Message
	var texts [][]string        // of each of out
	tools, alone := "", !begins // alone: the last message was the assistant's or a result, and has no other's text
	for _, m := range ms {
		role, text := policy.User, m.Text
		begins = begins && leads(m)
		switch {
		case begins && m.Replaced == dialect.Tools:
			role, tools, text = policy.System, m.Text, ""
		case begins:
			role = policy.System
		case m.Role == dialect.Assistant:
			role, text = policy.Assistant, e.calling(m)
		case m.Role == dialect.Tool && e.template != nil && alone:
			role = policy.Tool
		case m.Role == dialect.Tool:
			text = "<tool_response>\n" + m.Text + "\n</tool_response>"
		}
		alone = role == policy.Assistant || role == policy.Tool
		last := len(out) - 1
		if last < 0 || out[last].Role != role || alone {
			out, texts = append(out, policy.Message{Role: role}), append(texts, nil)
			last++
		}
		if !begins || text != "" {
			texts[last] = append(texts[last], text)
		}
		for _, im := range m.Images {
			out[last].Images = append(out[last].Images, e.images[im.Hash])
		}
	}
	for i := range out {
		gap := "\n"
		if out[i].Role == policy.System {
			gap = "\n\n"
		}
		out[i].Text = strings.Join(texts[i], gap)
	}
	if tools != "" {
		out[0].Text = e.instructions(out[0].Text, tools)
	}
	return out
}

// Limits of images.
const (
	maxSide   = 8192
	maxPixels = 1 << 24 // of those of one call that were not sent before
	maxImages = 1 << 10 // of one call, of which most were sent before
	maxHeld   = 1 << 27 // pixels of an episode
)

// decode decodes the images of messages that the episode has not seen, and drops their files.
func (e *Episode) decode(ms []dialect.Message) error {
	n, pixels := 0, 0
	for i := range ms {
		for k := range ms[i].Images {
			im := &ms[i].Images[k]
			if n++; n > maxImages {
				return refusal("", "more than %d images in the messages of one call", maxImages)
			}
			if _, seen := e.images[im.Hash]; !seen {
				size, err := imagefile.Check(im.Data, maxSide, maxPixels-pixels)
				if err != nil {
					return refusal(im.Field, "%v", err)
				}
				if pixels += size; e.pixels+size > maxHeld {
					return refusal("", "the images of the episode have more than %d pixels", maxHeld)
				}
				picture, err := imagefile.Decode(im.Data)
				if err != nil {
					return refusal(im.Field, "%v", err)
				}
				e.pixels += size
				e.images[im.Hash] = picture
			}
			im.Data = nil
		}
	}
	return nil
}

// refusal is an error about a request that is not repeated.
var refusal = dialect.Bad
