package main

import (
	"vagen/env/frozenlake"
	"vagen/policy/vlm"
)

// lakeWords are what the agent reads and writes, one token each.
var lakeWords = []string{
	"<think>", "</think>", "<observation>", "</observation>", "<prediction>", "</prediction>", "<answer>", "</answer>",
	"system\n", "user\n", "assistant\n", "Reach", " the", " goal", " avoid", " holes", "Turn",
	" 1", " 2", " 3", " 4", " 5", " 6", " 7", " 8",
	"goal", " up", " down", " left", " right", " same", " free", " hole", " none",
	" Left", " Down", " Right", " Up", "Left", "Down", "Right", "Up",
}

// lake is the environment of the recipes default, long and hour: 4×4 FrozenLake in pictures, one move a turn. The
// agent says where the goal is and which cells around it are safe, and is paid for saying it
// right. A turn costs more than a well-formed response is paid, or the agent dawdles.
func lake() map[string]any {
	return map[string]any{
		"rules": "lite", "render_mode": "vision", "prompt": "brief", "prompt_format": "observe_predict",
		"max_actions_per_step": 1, "describe_holes": true,
		"success_reward": 1.0, "hole_penalty": 0.5, "turn_cost": 0.2,
		"format_reward": 0.1, "observation_reward": 0.05, "prediction_reward": 0.05,
	}
}

// forSteps is the recipe that plays for so many steps.
func forSteps(n int, about string) recipe {
	return recipe{
		about: about, title: "Visual FrozenLake", world: "frozenlake", words: lakeWords, shape: vlm.Small(),
		turns: 8, actions: 1, env: lake(),
		players: []player{
			{name: "random actions", rate: rate((*frozenlake.Env).Script, frozenlake.Random)},
			{name: "blind to holes", rate: rate((*frozenlake.Env).Script, frozenlake.HoleBlind)},
			{name: "shortest path", rate: rate((*frozenlake.Env).Script, frozenlake.ShortestPath)},
		},
		noise: 0.7, lessons: lessons(12000, 1280, 8), config: full, steps: n,
	}
}
