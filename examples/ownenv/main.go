// Ownenv shows how to write your own environment: a number guessing game, which is
// registered, checked and played for one episode.
package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"

	"vagen/env"
	"vagen/env/builtin"
	"vagen/reward"
)

// guess is the environment. Its fields with a tag are its options.
type guess struct {
	Max    int `option:"max"`
	number int // 0 before the first Reset
	parser *reward.Parser
}

// newGuess is its factory.
func newGuess(config map[string]any) (env.Env, error) {
	g := &guess{Max: 100}
	if err := env.Decode(config, g); err != nil {
		return nil, err
	}
	if g.Max < 1 {
		return nil, fmt.Errorf("option \"max\": %w: %d is below 1", env.ErrOption, g.Max)
	}
	var err error
	g.parser, err = reward.NewParser("free_think", reward.ParserOptions{Dialect: reward.Lite, MaxActions: 1})
	return g, err
}

func (g *guess) System(ctx context.Context) (env.Observation, error) {
	return env.Observation{Text: fmt.Sprintf(
		"Find my number from 1 to %d. Answer in this form: <think>…</think><answer>7</answer>", g.Max)}, ctx.Err()
}

func (g *guess) Reset(ctx context.Context, seed int64) (env.Observation, error) {
	g.number = 1 + rand.New(rand.NewPCG(uint64(seed), 0)).IntN(g.Max) // equal seeds, equal episodes
	return env.Observation{Text: "What is it?"}, ctx.Err()
}

func (g *guess) Step(ctx context.Context, response string) (env.Outcome, error) {
	if g.number == 0 {
		return env.Outcome{}, errors.New("guess: Step before Reset")
	}
	out := env.Outcome{Response: g.parser.Parse(response), Observation: env.Observation{Text: "That is no number."}}
	if out.Response.FormatCorrect {
		out.Reward = append(out.Reward, reward.Part{Name: "format", Value: 0.1})
	}
	var said int
	if len(out.Response.Actions) > 0 {
		if _, err := fmt.Sscan(out.Response.Actions[0], &said); err != nil {
			return out, ctx.Err() // a mistake of the model is not an error of the environment
		}
		switch {
		case said < g.number:
			out.Observation.Text = "It is higher."
		case said > g.number:
			out.Observation.Text = "It is lower."
		default:
			out.Observation.Text, out.Done, out.Success = "That is it!", true, true
			out.Reward = append(out.Reward, reward.Part{Name: "success", Value: 1})
		}
	}
	return out, ctx.Err()
}

func (g *guess) Close() error { return nil }

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "ownenv:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	envs := builtin.Registry() // the library's and our own; run.Options.Envs takes such a registry
	if err := envs.Register("guess", newGuess); err != nil {
		return err
	}
	report, err := env.Check(ctx, newGuess, env.CheckOptions{Responses: []string{answer(50), answer(25), answer(75)}})
	if err := errors.Join(err, report.Err()); err != nil {
		return err
	}
	fmt.Printf("checked: %d problems\n", len(report.Problems))
	return play(ctx, envs, 7)
}

func answer(n int) string { return fmt.Sprintf("<think>-</think><answer>%d</answer>", n) }

// play plays one episode by halving.
func play(ctx context.Context, envs *env.Registry, seed int64) error {
	e, err := envs.New("guess", map[string]any{"max": 60})
	if err != nil {
		return err
	}
	defer e.Close()
	if _, err := e.Reset(ctx, seed); err != nil {
		return err
	}
	total := 0.0
	for low, high, done := 1, 60, false; !done; {
		middle := (low + high) / 2
		out, err := e.Step(ctx, answer(middle))
		if err != nil {
			return err
		}
		fmt.Printf("%d? %s\n", middle, out.Observation.Text)
		total += out.Reward.Sum()
		done = out.Done
		if out.Observation.Text == "It is higher." {
			low = middle + 1
		} else {
			high = middle - 1
		}
	}
	fmt.Printf("reward %.1f\n", total)
	return nil
}
