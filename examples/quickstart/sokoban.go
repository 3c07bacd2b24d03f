package main

import (
	"vagen/env/sokoban"
	"vagen/policy/vlm"
	"vagen/train/config"
)

// sokobanWords are what the agent of the recipe sokoban reads and writes, one token each.
var sokobanWords = []string{
	"<think>", "</think>", "<observation>", "</observation>", "<prediction>", "</prediction>", "<answer>", "</answer>",
	"system\n", "user\n", "assistant\n", "Push", " each", " box", " onto", " a", " target", ".", "Turn",
	" 1", " 2", " 3", " 4", " 5", " 6", " 7", " 8",
	"target", " up", " down", " left", " right", " same", " free", " wall", " stuck", ",",
	" Up", " Down", " Left", " Right", "Up", "Down", "Left", "Right",
}

// warehouse is Sokoban in pictures with one box, two moves a turn. The agent says where target
// and box are and which moves are possible, and is paid for saying it right. Small rooms of
// different seeds are often equal, so validation has rooms of its own.
func warehouse() map[string]any {
	return map[string]any{
		"rules": "lite", "render_mode": "vision", "prompt": "brief", "prompt_format": "observe_predict",
		"max_actions_per_step": 2, "describe_moves": true,
		"dim_room": []int{6, 7}, "num_boxes": 1, "min_solution_steps": []int{2, 6}, "retry": "lcg", "held_out": 1000,
		"success_reward": 1.0, "turn_cost": 0.2,
		"format_reward": 0.1, "observation_reward": 0.05, "prediction_reward": 0.05,
	}
}

// sokobanRecipe is the recipe sokoban.
func sokobanRecipe() recipe {
	shape := vlm.Small()
	// Between the colours of floor and walls.
	shape.Mean = [3]float64{0.5, 0.5, 0.75}
	return recipe{
		about: "Sokoban in pictures, 12 training steps", title: "Visual Sokoban", world: "sokoban",
		words: sokobanWords, shape: shape, turns: 4, actions: 2, env: warehouse(),
		players: []player{
			{name: "random actions", rate: rate((*sokoban.Env).Script, sokoban.Random)},
			{name: "straight to the box", rate: rate((*sokoban.Env).Script, sokoban.Straight)},
			{name: "greedy", rate: rate((*sokoban.Env).Script, sokoban.Greedy)},
			{name: "shortest path", rate: rate((*sokoban.Env).Script, sokoban.ShortestPath), fixed: true},
		},
		noise: 0.6, lessons: lessons(9600, 1280, 4), steps: 12,
		config: func(c *config.Config) {
			brisk(c)
			c.Data.MaxResponse = 32
		},
	}
}
