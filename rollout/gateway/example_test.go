package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"

	"vagen/env"
	"vagen/internal/traintest"
	"vagen/rollout/gateway"
	"vagen/train"
	"vagen/train/config"
	"vagen/train/track"
)

// guess is the agent: it asks the model over chat completions for the number of a colour, and scores the answer.
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

// A Go agent and the trainer in one program. The learner is a table here; vlm.Open returns one that is the model of a
// folder. Later episodes are rewarded more often.
func Example() {
	c, err := config.Load("", "env=agent", "algorithm.adv_estimator=trajectory_grpo", "critic.kind=none",
		"rollout_manager.n_trajectory=4", "data.train_batch_size=8", "actor_rollout_ref.actor.ppo_mini_batch_size=8",
		"actor_rollout_ref.actor.entropy_coeff=0", "actor_rollout_ref.actor.optim.lr=2",
		"trainer.total_training_steps=12", "trainer.val_before_train=false", "trainer.test_freq=0")
	must(err)
	g, err := gateway.New(gateway.Settings{Agent: guess})
	must(err)
	defer g.Close()
	envs := new(env.Registry)
	must(envs.Register("agent", g.Env))
	var success []float64
	t := &train.Trainer{Config: c, Learner: traintest.NewBandit("1", "2", "No idea."), Envs: envs,
		Sinks: []track.Sink{track.SinkFunc(func(e track.Event) error {
			success = append(success, e.Metrics["train/success"])
			return nil
		})}}
	must(t.Run(context.Background()))
	fmt.Println(success[11] > success[0])
	// Output:
	// true
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
