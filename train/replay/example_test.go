package replay_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"vagen/policy/vlm"
	"vagen/train/config"
	"vagen/train/replay"
	"vagen/train/run"
)

// Train a tiny model for two steps that are recorded, then repeat the second one.
func ExampleStep() {
	tmp, err := os.MkdirTemp("", "replay")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(tmp)
	dir, log := filepath.Join(tmp, "run"), slog.New(slog.DiscardHandler)
	if err := trainIn(context.Background(), tmp, dir); err != nil {
		fmt.Println(err)
		return
	}
	r, err := replay.Step(context.Background(), dir, nil, 2, nil, log)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("step", r.Step, "from", r.From, "episodes", r.Episodes, "same", r.Same())
	// Output: step 2 from 0 episodes 2 same true
}

// trainIn trains in the folder dir.
func trainIn(ctx context.Context, tmp, dir string) error {
	shape, model := vlm.Small(), filepath.Join(tmp, "model")
	shape.Layers, shape.Hidden = 1, 32
	if err := vlm.Create(model, shape, []string{"Left", "Up"}, 1); err != nil {
		return err
	}
	yaml := filepath.Join(tmp, "run.yaml")
	if err := os.WriteFile(yaml, []byte(`
env: {name: frozenlake, config: {render_mode: text, prompt: brief, size: 2}}
model: {backend: go, cache_tokens: 256, micro_tokens: 512}
actor_rollout_ref: {actor: {ppo_mini_batch_size: 2}}
critic: {kind: shared}
data: {train_batch_size: 2, val_batch_size: 2, max_response_length: 4}
rollout_manager: {max_turns: 1}
trainer: {total_training_steps: 2, save_freq: 2, val_before_train: false}
`), 0o644); err != nil {
		return err
	}
	c, err := config.Load(yaml, "actor_rollout_ref.model.path="+model, "trainer.rollout_data_dir="+
		filepath.Join(tmp, "episodes"))
	if err != nil {
		return err
	}
	r, err := run.Open(ctx, c, run.Options{Dir: dir, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	return errors.Join(r.Train(ctx), r.Close())
}
