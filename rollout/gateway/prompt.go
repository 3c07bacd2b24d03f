package gateway

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"vagen/env"
	"vagen/internal/imagefile"
	"vagen/policy"
	"vagen/rollout/gateway/internal/dialect"
)

// toolText shows definitions of tools in the system prompt and says how to call them, in the form of
// the chat templates of Qwen2.5 and Qwen3, which the models were trained with.
const toolText = "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n" +
	"You are provided with function signatures within <tools></tools> XML tags:\n<tools>\n%s\n</tools>\n\n" +
	"For each function call, return a json object with function name and arguments within " +
	callOpen + callClose + " XML tags:\n" + callOpen +
	"\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n" + callClose

// withTools adds definitions of tools after the leading instructions.
func withTools(ms []dialect.Message, tools string) []dialect.Message {
	if tools == "" {
		return ms
	}
	at := 0
	for at < len(ms) && ms[at].Role == dialect.System {
		at++
	}
	return slices.Insert(ms, at, dialect.Message{Role: dialect.System, Replaced: dialect.Tools,
		Text: fmt.Sprintf(toolText, env.WithoutMarks(tools))})
}

// messages converts messages to those of a policy: leading instructions make one message, and users, tools and
// later instructions in turn another, as chat templates want it.
func (e *Episode) messages(ms []dialect.Message, begins bool) []policy.Message {
	var out []policy.Message
	var texts [][]string // of each of out
	for _, m := range ms {
		role, some := policy.User, []string{m.Text}
		begins = begins && m.Role == dialect.System
		switch {
		case begins:
			role = policy.System
		case m.Role == dialect.Assistant:
			role = policy.Assistant
			if m.Text == "" {
				some = nil
			}
			for _, c := range m.Calls {
				call := fmt.Sprintf("%s\n{\"name\": %q, \"arguments\": %s}\n%s", callOpen, c.Name, cmp.Or(c.Arguments, "{}"),
					callClose)
				some = append(some, env.WithoutMarks(call))
			}
		case m.Role == dialect.Tool:
			some[0] = "<tool_response>\n" + m.Text + "\n</tool_response>"
		}
		last := len(out) - 1
		if last < 0 || out[last].Role != role || role == policy.Assistant {
			out, texts = append(out, policy.Message{Role: role}), append(texts, nil)
			last++
		}
		texts[last] = append(texts[last], some...)
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
	return out
}

// Limits of images.
const (
	maxSide   = 8192
	maxPixels = 1 << 24
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
				width, height, err := imagefile.Size(im.Data)
				if err != nil {
					return refusal(im.Field, "%v, must be PNG, JPEG or GIF", err)
				}
				if pixels += width * height; width > maxSide || height > maxSide || pixels > maxPixels {
					return refusal(im.Field, "an image of %d by %d pixels, at most %d a side and %d in a call are allowed", width,
						height, maxSide, maxPixels)
				}
				if e.pixels+width*height > maxHeld {
					return refusal("", "the images of the episode have more than %d pixels", maxHeld)
				}
				picture, err := imagefile.Decode(im.Data)
				if err != nil {
					return refusal(im.Field, "%v", err)
				}
				e.pixels += width * height
				e.images[im.Hash] = picture
			}
			im.Data = nil
		}
	}
	return nil
}

// refusal is an error about a request that is not repeated.
var refusal = dialect.Bad
