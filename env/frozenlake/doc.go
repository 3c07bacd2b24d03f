// Package frozenlake is the FrozenLake grid world as text or pictures.
//
// The player walks over a square lake from the start to the goal. Some cells are
// holes; falling into one ends the episode, and so does reaching the goal. A turn
// is one response of the model with one or several moves in it.
//
// Two rule sets reproduce the environment of VAGEN's two generations: Lite (its
// main branch) and Legacy. They differ in defaults, prompts, formats and in how
// success and format are paid; Options says how. For both, a seed names the same
// level as in the original, bit for bit. Two things differ on purpose: Legacy
// draws its map from the seed of Reset, where the original kept one unseeded map
// for the life of an instance (set Options.MapSeed for a map that stays), and the
// slips of Lite's slip_prob follow from the seed instead of a global generator.
//
// Pictures are drawn by this package; see Renderer. The state can be said in a
// few words, see Env.Describe, which lets observations and predictions be
// rewarded without a judge.
//
// Walkers and scripts (Random, ShortestPath, HoleBlind, Noisy, Env.Script) are
// reference players: they give the success rates to compare a model with and
// write transcripts for imitation.
//
// A third rule set, Next, is Lite with the response formats and the strictness
// that VAGEN has had since August 2026.
package frozenlake
