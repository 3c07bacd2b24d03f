package queue_test

import (
	"context"
	"fmt"
	"os"

	"vagen/env"
	"vagen/env/builtin"
	"vagen/internal/traintest"
	"vagen/rollout"
	"vagen/train/queue"
	"vagen/train/queue/embedded"
)

// The trainer opens a queue, and the player that has it as its Dealer gives its episodes to
// workers. Usually these are other processes: see vagen/train/worker.
func Example() {
	if err := deal(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// max_turns after 3 turns
	// max_turns after 3 turns
}

func deal(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "queue")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	o := queue.DefaultOptions()
	o.Run, o.Dir, o.Listen, o.Server = "a run", dir, "127.0.0.1:0", embedded.Start
	q, err := queue.Open(ctx, o)
	if err != nil {
		return err
	}
	defer func() { _ = q.Close() }()

	w := queue.DefaultWorkerOptions()
	w.URL, w.KeyFile = q.URL(), q.KeyFile()
	w.Open = func(context.Context, queue.Batch) (queue.Opened, error) {
		return queue.Opened{Player: func() *rollout.Player {
			return &rollout.Player{Policy: traintest.Walker(), Envs: builtin.Registry()}
		}}, nil
	}
	working, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- queue.Work(working, w) }()

	player := rollout.Player{Policy: traintest.Walker(), Envs: new(env.Registry), MaxTurns: 3, Dealer: q}
	played, _, err := player.Play(ctx, []rollout.Episode{
		{Env: "frozenlake", Config: map[string]any{"render_mode": "text", "desc": []any{"SFF", "FFF", "FFG"}}},
		{Env: "frozenlake", Config: map[string]any{"render_mode": "text", "desc": []any{"SFF", "FHF", "FFG"}}, Group: 1},
	}, 0)
	stop()
	if err != nil {
		return err
	}
	for _, t := range played {
		fmt.Printf("%s after %d turns\n", t.End, len(t.Turns))
	}
	return <-ended
}
