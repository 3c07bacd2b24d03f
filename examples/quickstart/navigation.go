package main

import (
	"math/rand/v2"

	"vagen/env/navigation"
	"vagen/policy/vlm"
	"vagen/train/config"
)

// navigationWords are what the agent of the recipe navigation reads and writes, one token each,
// beside the names of targets.
var navigationWords = []string{
	"<think>", "</think>", "<observation>", "</observation>", "<prediction>", "</prediction>", "<action>", "</action>",
	"system\n", "user\n", "assistant\n", "Go", " to", " the", " target", ".", "Target",
	"target", " up", " down", " left", " right", " same", " hidden", " free", " ahead", " back", " blocked", "|",
	"move_forward", "move_backward", "move_right", "move_left", "turn_right", "turn_left", "look_up", "look_down",
}

// targets are the furniture that stands in every kitchen, living room, bedroom or bathroom.
var targets = []string{
	"Fridge", "StoveBurner", "DiningTable", "Sofa", "TVStand", "CoffeeTable", "Bed", "Desk", "Dresser", "Bathtub",
	"Toilet", "SinkCabinet",
}

// home is Navigation as text in generated rooms, two actions a turn. The agent reads where the
// target is, if it is in view, and which ways are free; it says so, and where the target will be,
// and is paid for saying it right. Pictures would take most of the time: they are ray cast on
// the CPU.
func home() map[string]any {
	return map[string]any{
		"rules": "lite", "render_mode": "text", "prompt": "brief", "prompt_format": "observe_predict",
		"eval_set": "base_open", "targets": targets, "max_objects_in_state": 0,
		"max_actions_per_step": 2, "max_steps": 12, "step_length": 0.5, "success_threshold": 1.5,
		"success_reward": 1.0, "turn_cost": 0.2,
		"per_turn_format_reward": 0.1, "observation_reward": 0.05, "prediction_reward": 0.05,
	}
}

// navigationRecipe is the recipe navigation.
func navigationRecipe() recipe {
	shape := vlm.Small()
	shape.Family = "qwen2" // no pictures
	words := navigationWords
	for _, name := range targets {
		words = append(words, " "+navigation.Spoken(name))
	}
	ahead := func(*rand.Rand, *navigation.Scene, navigation.Agent, navigation.Goal) navigation.Action {
		return navigation.MoveAhead
	}
	return recipe{
		about: "Navigation as text, 24 training steps", title: "Navigation", world: "navigation",
		words: words, shape: shape, turns: 6, actions: 2, env: home(),
		players: []player{
			{name: "random actions", rate: rate((*navigation.Env).Script, navigation.Random)},
			{name: "always ahead", rate: rate((*navigation.Env).Script, ahead), fixed: true},
			{name: "straight to the target", rate: rate((*navigation.Env).Script, navigation.Beeline), fixed: true},
			{name: "shortest path", rate: rate((*navigation.Env).Script, navigation.ShortestPath), fixed: true},
		},
		noise: 0.5, lessons: lessons(6000, 1024, 6), steps: 24,
		config: func(c *config.Config) {
			brisk(c)
			c.Data.MaxResponse = 28
		},
	}
}
