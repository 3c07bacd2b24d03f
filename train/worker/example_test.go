package worker_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"vagen/env"
	"vagen/internal/traintest"
	"vagen/policy"
	"vagen/rollout"
	"vagen/train/config"
	"vagen/train/queue/embedded"
	"vagen/train/worker"
)

// A worker opens the environments of the trainer's configuration. Without Options.Policy it
// samples on the servers that the configuration names. In a program, package train/run is
// the trainer, and the worker is another process.
func ExampleWork() {
	if err := work(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// max_turns after 3 turns
	// max_turns after 3 turns
}

func work(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "run")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	c, err := config.Load("", "env=frozenlake", "run.queue=embedded", "run.queue_options.listen=127.0.0.1:0")
	if err != nil {
		return err
	}
	trainer := worker.Trainer{Config: &c, Dir: dir, ID: "a run", Own: true, QueueServer: embedded.Start}
	q, err := trainer.Open(ctx, traintest.Walker(), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, q.Close()) }()

	o := worker.DefaultOptions()
	o.URL, o.KeyFile, o.Slots = q.URL(), q.KeyFile(), 2
	o.Policy = func(context.Context, *config.Config, []byte) (policy.Policy, error) { return traintest.Walker(), nil }
	working, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- worker.Work(working, o) }()

	player := rollout.Player{Policy: traintest.Walker(), Envs: new(env.Registry), MaxTurns: 3, Dealer: q,
		Sampling: policy.Sampling{Temperature: 1, MaxTokens: 4}}
	lake := map[string]any{"render_mode": "text", "desc": []any{"SFF", "FHF", "FFG"}}
	played, _, err := player.Play(ctx, []rollout.Episode{
		{Env: "frozenlake", Config: lake},
		{Env: "frozenlake", Config: lake, Index: 1},
	}, 0)
	stop()
	for _, t := range played {
		fmt.Printf("%s after %d turns\n", t.End, len(t.Turns))
	}
	return errors.Join(err, <-ended)
}
