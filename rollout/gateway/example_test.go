package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"vagen/env"
	"vagen/policy"
	"vagen/rollout"
	"vagen/rollout/gateway"
)

// parrot is a policy that always answers the same.
type parrot struct{}

func (parrot) Forget(...uint64) {}

func (parrot) Generate(_ context.Context, prompts []policy.Prompt, _ policy.Sampling) ([]policy.Completion, error) {
	out := make([]policy.Completion, len(prompts))
	for i := range out {
		out[i] = policy.Completion{Text: "four", Stop: policy.StopEnd}
	}
	return out, nil
}

// ask is the agent: it asks one question over chat completions and scores the answer.
func ask(_ context.Context, e *gateway.Episode) (*gateway.Score, error) {
	body, _ := json.Marshal(map[string]any{"messages": []map[string]any{{"role": "user",
		"content": "What is two and two?"}}})
	r, err := http.Post(e.URL+"/v1/chat/completions", "application/json", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	var a struct {
		Choices []struct{ Message struct{ Content string } }
	}
	if err := json.NewDecoder(r.Body).Decode(&a); err != nil {
		return nil, err
	}
	fmt.Println("the policy says", a.Choices[0].Message.Content)
	return &gateway.Score{Reward: 1}, nil
}

// An agent in Go plays an episode. The same registry is what a train.Trainer needs to train the policy.
func Example() {
	g, err := gateway.New(gateway.Settings{Agent: ask})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer g.Close()
	envs := new(env.Registry)
	if err := envs.Register("agent", g.Env); err != nil {
		fmt.Println(err)
		return
	}
	p := rollout.Player{Policy: parrot{}, Envs: envs, MaxTurns: 8}
	ts, _, err := p.Play(context.Background(), []rollout.Episode{{Env: "agent"}}, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(ts[0].End, ts[0].Return())
	// Output:
	// the policy says four
	// done 1
}
