// Agent is a program in which a language model must find a number with a tool. It knows nothing of training, and
// agents with an SDK work in the same way. A run with this environment trains it, and says by variables where to ask:
//
//	env: {name: agent, config: {command: [go, run, ./examples/agent]}}
package main

import (
	"bytes"
	"encoding/json"
	"log"
	"net/http"
	"os"
	"strconv"
)

type object = map[string]any

const tools = `[{"type": "function", "function": {"name": "guess", "description": "guesses the number", "parameters":
	{"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}}}]`

// main lets the model guess at most twice, and reports the reward: 1 for the first guess, 0.5 for the second.
func main() {
	seed := must(strconv.Atoi(os.Getenv("VAGEN_SEED")))
	ms := []any{object{"role": "system", "content": "Find the number."},
		object{"role": "user", "content": "The box is " + []string{"red", "blue"}[seed%2] + "."}}
	reward := 0.0
	for turn := 1; turn <= 2 && reward == 0; turn++ {
		var answer struct {
			Choices []struct{ Message json.RawMessage }
		}
		post(os.Getenv("OPENAI_BASE_URL")+"/chat/completions",
			object{"model": "policy", "messages": ms, "tools": json.RawMessage(tools)}, &answer)
		var said struct {
			Calls []struct {
				ID       string
				Function struct{ Arguments string }
			} `json:"tool_calls"`
		}
		_ = json.Unmarshal(answer.Choices[0].Message, &said) // what is no message has no calls
		ms = append(ms, answer.Choices[0].Message)
		for _, c := range said.Calls {
			result, arguments := "wrong", struct{ Number int }{}
			if json.Unmarshal([]byte(c.Function.Arguments), &arguments) == nil && arguments.Number == seed%2+1 {
				result, reward = "right", 1/float64(turn)
			}
			ms = append(ms, object{"role": "tool", "tool_call_id": c.ID, "content": result})
		}
		if len(said.Calls) == 0 {
			ms = append(ms, object{"role": "user", "content": "Use the tool."})
		}
	}
	post(os.Getenv("VAGEN_EPISODE_URL")+"/reward", object{"reward": reward, "success": reward == 1}, new(object))
}

func post(url string, body, answer any) {
	r := must(http.NewRequest("POST", url, bytes.NewReader(must(json.Marshal(body)))))
	r.Header.Set("Authorization", "Bearer "+os.Getenv("OPENAI_API_KEY"))
	got := must(http.DefaultTransport.RoundTrip(r))
	defer got.Body.Close()
	if err := json.NewDecoder(got.Body).Decode(answer); err != nil || got.StatusCode >= 300 {
		log.Fatal(url, ": ", got.Status, " ", err)
	}
}

// must ends the program with an error, and the episode with it.
func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
