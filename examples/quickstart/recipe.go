package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"

	"vagen/env"
	"vagen/env/builtin"
	"vagen/policy"
	"vagen/policy/vlm"
	"vagen/train"
	"vagen/train/config"
)

// recipe is everything that a run of the quickstart depends on beside its flags.
type recipe struct {
	about   string
	title   string // of the curve
	world   string // name of the environment
	words   []string
	shape   vlm.Shape
	turns   int // of an episode
	actions int // of a turn
	env     map[string]any
	players []player // to compare the agent with; the first acts at random

	noise   float64 // share of the script's actions that are random
	lessons []lesson
	config  func(c *config.Config)
	steps   int // of reinforcement learning
}

// player is a scripted player.
type player struct {
	name string
	// rate returns its success rate on the validation levels of a recipe. It uses other random
	// numbers in every play.
	rate  func(ctx context.Context, r recipe, c config.Config, play uint64) (float64, error)
	fixed bool // every play gives the same
}

// rate is that of a player whose responses are written by the method Script of the recipe's environments.
func rate[E env.Env, P any](script func(E, *rand.Rand, P, int) string, p P) func(
	ctx context.Context, r recipe, c config.Config, play uint64,
) (float64, error) {
	return func(ctx context.Context, r recipe, c config.Config, play uint64) (float64, error) {
		o := maps.Clone(r.env)
		o["render_mode"] = "text" // no pictures are needed
		e, err := builtin.Registry().New(r.world, o)
		if err != nil {
			return 0, err
		}
		rooms, ok := e.(E)
		if !ok {
			return 0, fmt.Errorf("%s made a %T", r.world, e)
		}
		return env.SuccessRate(ctx, rooms, c.Env.ValSeed, c.Data.ValBatch, r.turns, play, func(rng *rand.Rand) string {
			return script(rooms, rng, p, r.actions)
		})
	}
}

// lesson is one part of the imitation: scripted episodes of so many turns.
type lesson struct {
	transcripts, turns int
	train.Imitation
}

// recipes by the name that the flag takes. The first three differ in how long the agent plays.
var recipes = map[string]recipe{
	"default": forSteps(24, "24 training steps, some minutes on two cores"),
	"long":    forSteps(100, "100 training steps, about a quarter of an hour"),
	"hour":    forSteps(300, "300 training steps, about an hour"),
	"sokoban": sokobanRecipe(), "navigation": navigationRecipe(),
}

// lessons teach to see first, then to play on. In an episode of several turns
// most observations can be copied from the prediction before them; an episode's
// first turn cannot, so single turns teach what is in a picture with far less
// work. Whole episodes follow for the rest.
func lessons(first, whole, turns int) []lesson {
	return []lesson{
		{first, 1, imitation(30, 8e-4)},
		{whole, turns, imitation(16, 5e-4)},
	}
}

func imitation(batch int, rate float64) train.Imitation {
	opt := policy.DefaultOptimizer()
	opt.Rate = rate
	return train.Imitation{Batch: batch, Epochs: 1, Optimizer: opt, Warmup: 20, Every: 16}
}

// full is VAGEN-Full at this size: bi-level GAE, both masks, turn rewards and
// state rewards; the critic is a head on the policy.
func full(c *config.Config) {
	c.Algorithm.Estimator, c.Algorithm.TurnGamma, c.Algorithm.Lambda = "bi_level_gae", 0.95, 0.95
	c.Data.TrainBatch, c.Data.ValBatch, c.Data.MaxResponse = 128, 256, 24
	a := &c.Agent.Actor
	a.MiniBatch, a.Epochs, a.Entropy = 32, 2, 0
	a.Optim = config.OptimConfig{Rate: 3e-4, WarmupRatio: 0.08, Style: "constant", Beta1: 0.9, Beta2: 0.99}
	a.Optim.Style, a.Optim.MinRatio = "linear", 0.2
	// The warm start is the reference: what the agent says stays readable and true.
	a.UseKLLoss, a.KLLoss, a.KLLossType = true, 0.05, "low_var_kl"
	c.Critic.Kind, c.Critic.ValueCoef, c.Critic.ValueClip, c.Critic.ZeroHead = "shared", 0.5, 0, true
	c.Trainer.TestFreq, c.Trainer.ValBefore = 10, true
}

// brisk is full with as many optimiser steps, of half as many episodes each, in one pass instead
// of two: it takes less time where rows are long.
func brisk(c *config.Config) {
	full(c)
	c.Agent.Actor.MiniBatch, c.Agent.Actor.Epochs = 16, 1
}

// configure writes a recipe as a configuration.
func (r recipe) configure(o options) config.Config {
	c := config.Default()
	c.Run.Seed, c.Run.Workers = o.seed, o.workers
	c.Model.Backend, c.Model.CacheTokens, c.Model.MicroTokens = o.backend, 256, 2240
	c.Env.Name, c.Env.Config = r.world, r.env
	// Levels: validation takes 0 to 255, every seed's training has its own range.
	c.Env.ValSeed, c.Env.Seed = 0, 10_000_000*int64(o.seed+1)
	c.Rollout.MaxTurns = r.turns
	c.Trainer.Project, c.Trainer.Experiment = "quickstart", o.name
	c.Trainer.ResumeMode = "disable"                   // every run is a new one
	c.Agent.Model.Path = filepath.Join(o.out, "model") // for commands that open the run
	// What vagen view shows: every training episode, and what was computed for its tokens.
	rollouts := filepath.Join(o.out, "rollouts")
	c.Trainer.RolloutDir, c.Trainer.RolloutScores = &rollouts, true
	c.Trainer.LogImage.Enable, c.Trainer.LogImage.Level = true, 1
	r.config(&c)
	c.Trainer.Steps = r.steps
	if o.steps >= 0 {
		c.Trainer.Steps = o.steps
	}
	// The state before the last step is kept, too, so that vagen verify can replay the step, and
	// vagen credit can measure its recorded episodes.
	c.Trainer.SaveFreq = max(c.Trainer.Steps-1, 0)
	kept := 2
	c.Trainer.KeepActors, c.Trainer.KeepCritics = &kept, &kept
	return c
}

// reduced cuts a recipe down to what the pure-Go backend can do in minutes.
func (r recipe) reduced() recipe {
	r.steps = min(r.steps, 2)
	r.lessons = slices.Clone(r.lessons)
	for i, most := range []int{1024, 64} {
		r.lessons[i].transcripts = min(r.lessons[i].transcripts, most)
	}
	inner := r.config
	r.config = func(c *config.Config) {
		inner(c)
		d, a := &c.Data, &c.Agent.Actor
		d.TrainBatch, d.ValBatch, a.MiniBatch, a.Epochs = min(d.TrainBatch, 16), min(d.ValBatch, 16), min(a.MiniBatch, 16), 1
		c.Trainer.TestFreq = 2
	}
	return r
}

// recipeNames lists the recipes, a line each.
func recipeNames() string {
	out := ""
	for _, name := range slices.Sorted(maps.Keys(recipes)) {
		out += fmt.Sprintf("\n  %-10s %s", name, recipes[name].about)
	}
	return out
}
