package main

import (
	"fmt"

	"vagen/policy"
	"vagen/policy/vlm"
	"vagen/train"
	"vagen/train/config"
)

// presets are compared, in the order of the table.
var presets = []string{"vanilla_ppo", "masked_grpo", "turn_ppo", "vagen_base", "vagen_full"}

// words are the texts of the environment and of responses, one token each.
var words = []string{
	"<answer>", "</answer>", "system\n", "user\n", "assistant\n", "Reach", " the", " goal", " avoid", " holes", "Turn",
	" 1", " 2", " 3", " 4", " 5", " 6", " P ", " _ ", " O ", " G ", " X ", " V ",
	" to-left", " to-down", " to-right", " to-up", " free-left", " free-down", " free-right", " free-up", "Left", "Down", "Right", "Up",
}

// shape is a text-only decoder with 30,000 parameters, a third of them embeddings.
func shape() vlm.Shape {
	return vlm.Shape{
		Family: "llama", Hidden: 32, FF: 64, Layers: 2, Heads: 2, KVHeads: 1, HeadDim: 16,
		RopeTheta: 10000, MaxPositions: 1024,
	}
}

// setting is what all runs have in common.
type setting struct {
	episodes int // per training step, over all start states
	steps    int
	every    int // steps between validations
	maps     int // per validation
	turns    int // per episode, at most

	noise        float64 // share of random moves in the warm start
	roundTurns   int     // turns that a round of the warm start imitates
	rounds       int     // of the warm start, at most
	requiredRate float64 // success rate that ends the warm start
	imitation    train.Imitation
}

// published is the setting of docs/ablation.md.
func published() setting {
	opt := policy.DefaultOptimizer()
	opt.Rate = 5e-3
	return setting{
		episodes: 64, steps: 12, every: 3, maps: 256, turns: 6,
		noise: 0.3, roundTurns: 1600, rounds: 16, requiredRate: 0.3,
		imitation: train.Imitation{Batch: 64, Epochs: 1, Optimizer: opt, Warmup: 5, Every: 50},
	}
}

// world returns the environment's options. The penalty of a turn equals its format
// reward, so that neither delay nor an early failure increases the return.
func world() map[string]any {
	return map[string]any{
		"size": 4, "p": 0.8, "max_actions_per_step": 1, "prompt": "brief", "prompt_format": "answer",
		"success_reward": 1.0, "hole_penalty": 0.5, "turn_cost": 0.1, "format_reward": 0.1, partProgress: 0.5,
	}
}

// configure applies the setting to a preset. It keeps the keys in which the presets
// differ: estimator and turn discount, masks, placement of rewards, the positions that
// train the critic, and the number of episodes per start state.
func (s setting) configure(preset string, seed uint64, backend string) (config.Config, error) {
	c, err := config.Source{Preset: preset, Overrides: []string{"env=" + worldName}}.Load()
	if err != nil {
		return c, err
	}
	c.Run.Seed = seed
	c.Model.Backend, c.Model.CacheTokens, c.Model.MicroTokens = backend, 256, 2048
	c.Env.Config = world()
	// Validation uses the first maps; warm start and training of every seed have their own
	// range of maps.
	c.Env.ValSeed, c.Env.Seed = 0, 10_000_000*int64(seed+1)
	c.Data.TrainBatch, c.Data.ValBatch = s.episodes/c.Rollout.Trajectories, s.maps
	c.Data.MaxPrompt, c.Data.MaxResponse = 0, 6
	c.Rollout.MaxTurns, c.Rollout.MaxTrajectory, c.Rollout.WindowSize = s.turns, 0, nil
	// An almost untrained small model needs larger steps than one of three billion
	// parameters, and a KL penalty towards it is useless.
	c.Algorithm.KLInReward = false
	a := &c.Agent.Actor
	a.MiniBatch, a.Epochs, a.Entropy, a.Shuffle = s.episodes/4, 1, 0, true
	a.Optim = config.OptimConfig{Rate: 1.5e-3, Style: "constant", Beta1: 0.9, Beta2: 0.99}
	r := &c.Agent.Rollout
	r.Temperature, r.TopP, r.Val.Temperature, r.Val.TopP = 1, 1, 1, 1
	if c.Critic.Kind != "none" {
		c.Critic.Kind = "shared"
		c.Critic.ValueCoef, c.Critic.ValueClip, c.Critic.ZeroHead = 0.5, 0, true
	}
	t := &c.Trainer
	t.Steps, t.TestFreq, t.SaveFreq, t.ValBefore, t.LogEpisodes = s.steps, s.every, -1, true, 0
	t.Metrics, t.Project, t.Experiment = []string{"none"}, "ablation", fmt.Sprintf("%s-seed%d", preset, seed)
	return c, c.Validate()
}
