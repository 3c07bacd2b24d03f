// Package sokoban is the box-pushing puzzle as text or pictures.
//
// The player walks through a room with walls and pushes boxes, one at a time,
// until every target holds one. A turn is one response of the model with one or
// several moves in it.
//
// Two rule sets reproduce the environment of VAGEN's two generations: Lite (its
// main branch) and Legacy; Options says how they differ. Rooms come from the seed
// bit for bit as in the originals, which use different versions of one generator
// (gym-sokoban's and a copy of it): a random walk carves the room, boxes start
// on their targets, and a search that plays backwards pulls them away.
//
// Where the generator fails, or a room's solution is too short or too long, the
// originals go on with a seed that depends on Python's salted string hash.
// Options.Retry offers that hash without salt, which is what the recorded
// episodes used, and the machine-independent rule of VAGEN's later version.
//
// Pictures are drawn by this package; see Renderer. The state can be said in a
// few words, see Env.Describe.
//
// A third rule set, Next, is Lite with the response formats and the strictness
// that VAGEN has had since August 2026.
package sokoban
