package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/internal/traintest"
	"vagen/policy/vlm"
	"vagen/rollout/gateway"
	"vagen/train"
	"vagen/train/config"
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

// settings are those of the run, as on the command line of vagen train.
var settings = []string{"env=agent", "actor_rollout_ref.model.path=/models/Qwen2.5-0.5B-Instruct",
	"algorithm.adv_estimator=trajectory_grpo", "critic.kind=none", "rollout_manager.n_trajectory=8"}

// A Go agent and the trainer in one program.
func Example_training() {
	ctx := context.Background()
	c, err := config.Load("", settings...)
	must(err)
	model, err := vlm.Open(ctx, c.Agent.Model.Path, vlm.Options{})
	must(err)
	defer model.Close()
	g, err := gateway.New(gateway.Settings{Agent: guess})
	must(err)
	defer g.Close()
	envs := new(env.Registry)
	must(envs.Register("agent", g.Env))
	metrics, err := track.NewJSONLines("metrics.jsonl")
	must(err)
	defer metrics.Close()
	t := &train.Trainer{Config: c, Learner: model, Envs: envs, Sinks: []track.Sink{metrics},
		Handled: []string{"actor_rollout_ref.model.path"}} // by vlm.Open
	must(t.Run(ctx))
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// TestAGoAgentIsTrained: the agent of the example, with a table instead of a model. Its settings are allowed.
func TestAGoAgentIsTrained(t *testing.T) {
	given, err := config.Load("", settings...)
	require.NoError(t, err)
	g, err := gateway.New(gateway.Settings{Agent: guess})
	require.NoError(t, err)
	defer func() { require.NoError(t, g.Close()) }()
	envs := new(env.Registry)
	require.NoError(t, envs.Register("agent", g.Env))
	c := traintest.Small()
	c.Env, c.Trainer.Steps = given.Env, 12
	metrics := new(traintest.Journal)
	tr := &train.Trainer{Config: c, Learner: traintest.NewBandit("1", "2", "No idea."), Envs: envs,
		Sinks: []track.Sink{metrics}}
	require.NoError(t, tr.Run(t.Context()))
	steps := metrics.Steps()
	require.Greater(t, steps[11].Metrics["train/success"], steps[0].Metrics["train/success"])
}
