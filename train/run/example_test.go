package run_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"vagen/env/builtin"
	"vagen/internal/traintest"
	"vagen/policy"
	"vagen/policy/vlm"
	"vagen/train"
	"vagen/train/config"
	"vagen/train/run"
	"vagen/train/track"
)

// Open builds a run from a configuration. Options replace parts of it: here the learner
// and an environment.
func ExampleOpen() {
	tmp, err := os.MkdirTemp("", "run")
	must(err)
	defer os.RemoveAll(tmp)
	games, err := new(traintest.Arena).Open()
	must(err)
	c := traintest.Small() // from config.Load in a program
	r, err := run.Open(context.Background(), c, run.Options{
		Dir: filepath.Join(tmp, "run"), Envs: games,
		Learner: func(context.Context, string) (policy.Learner, error) { return traintest.Guesser(), nil },
	})
	must(err)
	err = r.Train(context.Background())
	fmt.Println(err, r.Close())
	_, err = os.Stat(filepath.Join(r.Folder.Path, "metrics.jsonl"))
	fmt.Println(err)
	// Output:
	// <nil> <nil>
	// <nil>
}

// Without Open: a Trainer of one's own with a model from a folder in the Hugging Face layout.
// run.yaml names the folder and the environment:
//
//	env: {name: frozenlake, config: {render_mode: vision}}
//	actor_rollout_ref.model.path: /models/Qwen2.5-VL-3B-Instruct
func Example_ownTrainer() {
	ctx := context.Background()
	c, err := config.Load("run.yaml", "trainer.total_training_steps=100")
	must(err)
	model, err := vlm.Open(ctx, c.Agent.Model.Path, vlm.Options{Critic: vlm.SeparateCritic})
	must(err)
	defer model.Close()
	metrics, err := track.NewJSONLines("metrics.jsonl")
	must(err)
	defer metrics.Close()
	t := train.Trainer{
		Config: c, Learner: model, Envs: builtin.Registry(), Sinks: []track.Sink{metrics},
		Handled: []string{"actor_rollout_ref.model.path"}, // by vlm.Open above
	}
	must(t.Run(ctx))
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
