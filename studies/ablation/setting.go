package main

import (
	"fmt"
	"strings"

	"vagen/policy"
	"vagen/policy/vlm"
	"vagen/train"
	"vagen/train/config"
)

// presets are all presets that are compared, in the order of the table.
var presets = []string{vanilla, grpo, turnPPO, base, full}

// The presets' names in configurations.
const (
	vanilla = "vanilla_ppo"
	grpo    = "masked_grpo"
	turnPPO = "turn_ppo"
	base    = "vagen_base"
	full    = "vagen_full"
)

// words are the texts of the environment and of responses, one token each.
var words = []string{
	"<think>", "</think>", "<observation>", "</observation>", "<prediction>", "</prediction>", "<answer>", "</answer>",
	"system\n", "user\n", "assistant\n", "Reach", " the", " goal", " avoid", " holes", "Turn",
	" 1", " 2", " 3", " 4", " 5", " 6",
	"goal", " up", " down", " left", " right", " same", " free", " hole", " none",
	"Left", "Down", "Right", "Up",
}

// setting is what all runs have in common.
type setting struct {
	presets  []string // with echoing, those that predict observations, too
	reasons  string   // section of the page
	shape    vlm.Shape
	episodes int // per training step, over all start states
	group    int // episodes of a start state, for GRPO
	steps    int
	every    int // steps between validations
	maps     int // per validation
	turns    int // per episode, at most
	epochs   int // passes over the episodes of a step
	batches  int // optimiser steps of a pass

	pay     float64 // for true statements, with vagen_full
	noise   float64 // share of random moves in the lessons
	follows bool    // the lessons' moves follow their statements, not the map
	text    bool    // the lake is written, not a picture
	lessons []lesson
}

// lesson is a part of the warm start: the first turns of scripted episodes.
type lesson struct {
	episodes, turns int
	values          bool    // trains the value head, too
	slips           float64 // share of wrong words in the statements, if moves follow them
	train.Imitation
}

// published is the setting of docs/ablation.md.
func published() setting {
	return setting{
		presets: presets, reasons: reasons,
		shape: vlm.Small(), episodes: 128, group: 8, steps: 12, every: 4, maps: 256, turns: 6, epochs: 2, batches: 4,
		pay: 0.3, noise: 0.7, lessons: []lesson{{12000, 1, false, 0, imitation(30, 8e-4)},
			{1280, 6, true, 0, imitation(16, 5e-4)}},
	}
}

// longer is the setting of docs/ablation-long.md: two presets, twice as many steps.
func longer() setting {
	s := published()
	s.presets, s.reasons, s.steps = []string{base, full}, longerReasons, 2*s.steps
	return s
}

// slipping is the setting of docs/ablation-slips.md: a warm start that states a part of what it
// sees wrongly and moves by what it stated.
func slipping() setting {
	s := published()
	s.reasons, s.steps = slippingReasons, 2*s.steps
	s.follows, s.noise, s.lessons[1].slips = true, 0.3, 0.3
	return s
}

func imitation(batch int, rate float64) train.Imitation {
	opt := policy.DefaultOptimizer()
	opt.Rate = rate
	return train.Imitation{Batch: batch, Epochs: 1, Optimizer: opt, Warmup: 20, Every: 50}
}

// world returns the environment's options. Success pays at the end only. No turn pays more
// than it costs, and a hole costs more than all turns of an episode, so that neither delay nor
// an early failure increases the return of a preset without state rewards.
func world(pay float64) map[string]any {
	return map[string]any{
		"rules": "lite", "render_mode": "vision", "prompt": "brief", "prompt_format": "observe_predict",
		"max_actions_per_step": 1, "describe_holes": true,
		"success_reward": 1.0, "hole_penalty": 0.5, "turn_cost": 0.1, "format_reward": 0.05,
		"observation_reward": 1.0, "prediction_reward": 1.0, optionPay: pay,
	}
}

// configure applies the setting to a preset. It keeps the keys in which the presets
// differ: estimator and turn discount, masks, placement of rewards, the positions that
// train the critic, and whether a start state is played more than once.
func (s setting) configure(name string, seed uint64, backend string) (config.Config, error) {
	preset, predicts := strings.CutSuffix(name, echoing)
	c, err := config.Source{Preset: preset, Overrides: []string{"env=" + worldName}}.Load()
	if err != nil {
		return c, err
	}
	c.Run.Seed = seed
	c.Model.Backend, c.Model.CacheTokens, c.Model.MicroTokens = backend, 256, 2240
	pay := 0.0
	if preset == full {
		pay = s.pay
	}
	c.Env.Config = world(pay)
	if s.text {
		c.Env.Config["render_mode"] = "text"
	}
	if predicts {
		c.Algorithm.Echo.Alpha = echoWeight
	}
	// Validation uses the first maps; warm start and training of every seed have their own
	// range of maps.
	c.Env.ValSeed, c.Env.Seed = 0, 10_000_000*int64(seed+1)
	if preset == grpo {
		c.Rollout.Trajectories = s.group
	}
	c.Data.TrainBatch, c.Data.ValBatch = s.episodes/c.Rollout.Trajectories, s.maps
	c.Data.MaxPrompt, c.Data.MaxResponse = 0, 24
	c.Rollout.MaxTurns, c.Rollout.MaxTrajectory, c.Rollout.WindowSize = s.turns, 0, nil
	// An almost untrained small model needs larger steps than one of three billion parameters,
	// and a KL term to its warm start that is larger than the presets' 0.001 in the reward.
	c.Algorithm.KLInReward = false
	a := &c.Agent.Actor
	a.MiniBatch, a.Epochs, a.Entropy, a.Shuffle = s.episodes/s.batches, s.epochs, 0, true
	a.Optim = config.OptimConfig{Rate: 3e-4, WarmupRatio: 0.2, Style: "constant", Beta1: 0.9, Beta2: 0.99}
	a.UseKLLoss, a.KLLoss, a.KLLossType = true, 0.05, "low_var_kl"
	r := &c.Agent.Rollout
	r.Temperature, r.TopP, r.Val.Temperature, r.Val.TopP = 1, 1, 1, 1
	if c.Critic.Kind != "none" {
		c.Critic.Kind, c.Critic.NormLimit = "shared", nil
		c.Critic.ValueCoef, c.Critic.ValueClip, c.Critic.ZeroHead = valueCoef, 0, true
	}
	t := &c.Trainer
	t.Steps, t.TestFreq, t.SaveFreq, t.ValBefore, t.LogEpisodes = s.steps, s.every, -1, true, 0
	t.Metrics, t.Project, t.Experiment = []string{"none"}, "ablation", fmt.Sprintf("%s-seed%d", name, seed)
	return c, c.Validate()
}
