// Ownlearner trains your own learner with the library's loop: run.Open provides
// environments, rollouts, masks, advantages, folder, checkpoints, resuming and the
// curve; the learner, a table instead of a network, is the program's (package table).
//
// It plays Blackjack from the words that describe the table, and learns when to stand.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"

	"vagen/examples/ownlearner/table"
	"vagen/policy"
	"vagen/train/config"
	"vagen/train/run"
)

func main() {
	steps := flag.Int("steps", 60, "training steps")
	out := flag.String("out", "runs/ownlearner", "`folder` to write to; a run in it is resumed")
	flag.Parse()
	ctx, stop := run.UntilSignal(context.Background())
	defer stop()
	err := trainTable(ctx, *out, *steps, os.Stdout)
	code := run.ExitCode(ctx, err)
	if code > 1 {
		err = errors.New("interrupted; the same command resumes the run")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "ownlearner:", err)
	}
	os.Exit(code)
}

// trainTable trains a table and reports what it wins.
func trainTable(ctx context.Context, dir string, steps int, w io.Writer) (err error) {
	c, err := config.Load("",
		"env=blackjack", "env.config={render_mode: text, prompt_format: no_think, format_reward: 0}",
		"algorithm.adv_estimator=masked_gae", "algorithm.lam=0.95",
		"data.train_batch_size=512", "data.val_batch_size=2048", "rollout_manager.max_turns=8",
		"actor_rollout_ref.actor.ppo_mini_batch_size=512", "actor_rollout_ref.actor.ppo_epochs=4",
		"actor_rollout_ref.actor.optim.lr=10", "actor_rollout_ref.actor.entropy_coeff=0",
		"critic.optim.lr=10", "critic.cliprange_value=0",
		fmt.Sprint("trainer.total_training_steps=", steps), "trainer.test_freq=1000", "trainer.logger=[jsonl]",
	)
	if err != nil {
		return err
	}
	r, err := run.Open(ctx, c, run.Options{
		Dir: dir, Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Learner: func(context.Context, string) (policy.Learner, error) { return table.New(words, read), nil },
	})
	if err != nil {
		return err
	}
	if err := r.Train(ctx); err != nil {
		r.Close()
		return err
	}
	if err := r.Close(); err != nil {
		return err
	}
	first, last := r.Curve.Ends()
	_, err = fmt.Fprintf(w, "games won: before %.2f, trained %.2f\n", first, last)
	return err
}
