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
	"fmt"
	"log"
	"net/http"
	"os"
	"strconv"
)

type object = map[string]any

const tools = `[{"type": "function", "function": {"name": "guess", "description": "guesses the number", "parameters":
	{"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}}}]`

func main() {
	seed, err := strconv.Atoi(os.Getenv("VAGEN_SEED"))
	if err == nil {
		err = play(seed % 2)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// play lets the model guess at most twice, and reports the reward: 1 for the first guess, 0.5 for the second.
func play(secret int) error {
	colour := []string{"red", "blue"}[secret]
	ms := []any{object{"role": "system", "content": "Find the number."},
		object{"role": "user", "content": "The box is " + colour + "."}}
	reward := 0.0
	for turn := 0; turn < 2 && reward == 0; turn++ {
		var answer struct {
			Choices []struct{ Message json.RawMessage }
		}
		err := post(os.Getenv("OPENAI_BASE_URL")+"/chat/completions", object{"model": "policy", "messages": ms,
			"tools": json.RawMessage(tools)}, &answer)
		if err != nil {
			return err
		}
		var said struct {
			Calls []struct {
				ID       string
				Function struct{ Arguments string }
			} `json:"tool_calls"`
		}
		if err := json.Unmarshal(answer.Choices[0].Message, &said); err != nil {
			return err
		}
		ms = append(ms, answer.Choices[0].Message)
		for _, c := range said.Calls {
			var arguments struct{ Number int }
			result := "wrong"
			if json.Unmarshal([]byte(c.Function.Arguments), &arguments) == nil && arguments.Number == secret+1 {
				result, reward = "right", 1/float64(turn+1)
			}
			ms = append(ms, object{"role": "tool", "tool_call_id": c.ID, "content": result})
		}
		if len(said.Calls) == 0 {
			ms = append(ms, object{"role": "user", "content": "Use the tool."})
		}
	}
	return post(os.Getenv("VAGEN_EPISODE_URL")+"/reward", object{"reward": reward, "success": reward == 1}, nil)
}

func post(url string, body, answer any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequest("POST", url, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+os.Getenv("OPENAI_API_KEY"))
	got, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return err
	}
	defer got.Body.Close()
	if got.StatusCode >= 300 {
		return fmt.Errorf("%s: %s", url, got.Status)
	}
	if answer == nil {
		return nil
	}
	return json.NewDecoder(got.Body).Decode(answer)
}
