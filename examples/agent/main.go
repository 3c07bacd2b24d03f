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

var tools = json.RawMessage(`[{"type": "function", "function": {"name": "guess", "description": "guesses the number",
	"parameters": {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}}}]`)

// main lets the model guess at most twice, and reports the reward: 1 for the first guess, 0.5 for the second.
func main() {
	seed, _ := strconv.Atoi(os.Getenv("VAGEN_SEED"))
	colour := []string{"red", "blue"}[seed%2]
	ms := []any{object{"role": "system", "content": "Find the number."},
		object{"role": "user", "content": "The box is " + colour + "."}}
	reward := 0.0
	for turn := 1.0; turn <= 2 && reward == 0; turn++ {
		answer := post(os.Getenv("OPENAI_BASE_URL")+"/chat/completions",
			object{"model": "policy", "messages": ms, "tools": tools})
		message := answer["choices"].([]any)[0].(object)["message"].(object)
		ms = append(ms, message)
		calls, _ := message["tool_calls"].([]any)
		for _, c := range calls {
			result, arguments := "wrong", struct{ Number int }{}
			text := c.(object)["function"].(object)["arguments"].(string)
			if json.Unmarshal([]byte(text), &arguments) == nil && arguments.Number == seed%2+1 {
				result, reward = "right", 1/turn
			}
			ms = append(ms, object{"role": "tool", "tool_call_id": c.(object)["id"], "content": result})
		}
		if len(calls) == 0 {
			ms = append(ms, object{"role": "user", "content": "Use the tool."})
		}
	}
	post(os.Getenv("VAGEN_EPISODE_URL")+"/reward", object{"reward": reward, "success": reward == 1})
}

// post sends a request and returns the answer. An error ends the program, and the episode with it.
func post(url string, body object) (answer object) {
	raw, _ := json.Marshal(body)
	r, err := http.NewRequest("POST", url, bytes.NewReader(raw))
	if err != nil {
		log.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+os.Getenv("OPENAI_API_KEY"))
	got, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		log.Fatal(err)
	}
	defer got.Body.Close()
	if err := json.NewDecoder(got.Body).Decode(&answer); err != nil || got.StatusCode >= 300 {
		log.Fatal(url, ": ", got.Status, " ", err)
	}
	return answer
}
