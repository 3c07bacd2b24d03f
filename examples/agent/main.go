// Agent is a program that plays a game with the help of a language model: it must find a number with a
// tool. It knows nothing of training and speaks chat completions over net/http, so that it needs no SDK;
// agents with one work in the same way. As the environment agent of a run it is trained by
//
//	env: {name: agent, config: {command: [go, run, ./examples/agent]}}
//
// which sets OPENAI_BASE_URL, and two variables of vagen's with which it reports its reward.
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
	seed, err := strconv.Atoi(os.Getenv("VAGEN_SEED"))
	check(err)
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
		check(json.Unmarshal(answer.Choices[0].Message, &said))
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
	raw, err := json.Marshal(body)
	check(err)
	r, err := http.NewRequest("POST", url, bytes.NewReader(raw))
	check(err)
	r.Header.Set("Authorization", "Bearer "+os.Getenv("OPENAI_API_KEY"))
	got, err := http.DefaultTransport.RoundTrip(r)
	check(err)
	defer got.Body.Close()
	if got.StatusCode >= 300 {
		log.Fatal(url, ": ", got.Status)
	}
	check(json.NewDecoder(got.Body).Decode(answer))
}

// check ends the program with an error, and the episode with it.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
