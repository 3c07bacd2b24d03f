// Package sokoban is the box-pushing puzzle as text or pictures.
//
// The player walks through a room with walls and pushes boxes, one at a time,
// until every target has one. A turn is one response of the model and contains one or
// several moves.
//
// New makes an Env of Options, FromConfig one of named options. A Walker is a reference
// player, and env.SuccessRate measures it for comparison with a model.
//
// Two rule sets reproduce the environment of VAGEN's two generations: Lite (its
// main branch) and Legacy; Options lists how they differ. A seed gives the same room as
// in the originals, bit for bit. These use different versions of one generator
// (gym-sokoban's and a copy of it): a random walk carves the room, boxes start
// on their targets, and a search that plays backwards pulls them away.
//
// If the generator fails, or a room's solution is too short or too long, the
// originals try another seed, which depends on Python's salted string hash.
// Options.Retry offers that hash without salt, as in the recorded episodes, and the
// machine-independent rule of VAGEN's later version.
//
// The reward parts are "success", "format", "observation", "prediction" and "turn",
// and under the legacy rules "move", the cost of moves, and "box", for boxes that were
// moved onto or off targets.
//
// This package draws the pictures itself. Env.Describe describes the state in a few
// words.
//
// A third rule set, Next, is Lite with the response formats and the strictness
// that VAGEN has had since August 2026.
package sokoban
