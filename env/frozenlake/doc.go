// Package frozenlake is the FrozenLake grid world as text or pictures.
//
// The player walks over a square lake from the start to the goal. Some cells are
// holes. An episode ends when the player falls into a hole or reaches the goal. A turn
// is one response of the model and contains one or several moves.
//
// Two rule sets reproduce the environment of VAGEN's two generations: Lite (its
// main branch) and Legacy. They differ in defaults, prompts, formats and in the rewards
// of success and format; Options lists the differences. For both, a seed gives the same
// level as in the original, bit for bit. There are two intended differences. Legacy
// draws its map from the seed of Reset, while the original keeps one unseeded map
// per instance (Options.MapSeed gives all episodes one map). The slips of Lite's
// slip_prob are drawn from the seed instead of a global generator.
//
// The reward parts are "success", "format", "observation", "prediction", "hole",
// "progress" and "turn".
//
// This package draws the pictures itself. Env.Describe describes the state in a few
// words, so that observations and predictions can be rewarded without a judge.
//
// Walkers and scripts (Random, ShortestPath, HoleBlind, Noisy, Env.Script) are
// reference players: env.SuccessRate measures them for comparison with a model, and their
// responses can be used for imitation learning.
//
// A third rule set, Next, is Lite with the response formats and the strictness
// that VAGEN has had since August 2026.
package frozenlake
