package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"vagen/env"
	"vagen/internal/traintest"
	"vagen/rollout/gateway"
	"vagen/train"
	"vagen/train/track"
)

// guess is the agent: the model must answer with the number of a colour.
func guess(_ context.Context, e *gateway.Episode) (*gateway.Score, error) {
	secret := e.Seed % 2
	body, _ := json.Marshal(map[string]any{"messages": []map[string]any{{"role": "user",
		"content": "The box is " + []string{"red", "blue"}[secret] + "."}}})
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
	if a.Choices[0].Message.Content == fmt.Sprint(secret+1) {
		return &gateway.Score{Reward: 1}, nil
	}
	return &gateway.Score{}, nil
}

// A Go agent and the trainer in one program. The learner is a table with preferences for three answers; in your
// program it is a vlm.Model.
func Example_training() {
	g, err := gateway.New(gateway.Settings{Agent: guess})
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
	c := traintest.Small()
	c.Env.Name, c.Env.Config, c.Trainer.Steps = "agent", nil, 12
	metrics := new(traintest.Journal)
	t := &train.Trainer{Config: c, Learner: traintest.NewBandit("1", "2", "No idea."), Envs: envs,
		Sinks: []track.Sink{metrics}}
	if err := t.Run(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	steps := metrics.Steps()
	fmt.Println("success rises:", steps[11].Metrics["train/success"] > steps[0].Metrics["train/success"])
	// Output:
	// success rises: true
}
