// Package navigation is the task of walking to an object in a furnished room, seen
// through the agent's eyes.
//
// VAGEN's environment runs in AI2-THOR, a simulator with recorded homes. This is a
// light substitute that needs nothing: rooms are generated, furniture is made of
// boxes, cylinders and balls, the floor is a grid of cells of 0.1 m that are free
// or not, and pictures are cast ray by ray. Actions, their grammar, step lengths,
// thresholds, limits, rewards, metrics and the state that a judge is shown are
// those of the original's two generations, Lite (its main branch) and Legacy;
// Options says how they differ. So is the format of task files. What differs is
// the world: a success rate here says nothing about one in AI2-THOR, for which the
// remote client of package env/remote attaches the original service.
//
// Tasks come from built-in sets, drawn from the rooms that Scene describes (see
// EvalSets; rooms of training and evaluation sets have nothing in common), or from
// files of the original (see ReadTasks). The original's scenes are not at hand: a
// room generated from the hash of the scene's name stands in, with the file's
// targets and starts at their places.
//
// Pictures are drawn by this package; see Scene.Render. The agent's eye is 1.576 m
// above the floor, as AI2-THOR's. Render mode text is this package's own.
//
// Walkers and scripts (ShortestPath, Facing, Beeline, Random, Noisy, Env.Script)
// are reference players: they give the success rates to compare a model with and
// write transcripts for imitation.
package navigation
