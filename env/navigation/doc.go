// Package navigation is the task of walking to an object in a generated room, observed
// from the agent's point of view.
//
// VAGEN's environment runs in AI2-THOR, a simulator with recorded homes. This package
// is a light substitute without dependencies: rooms are generated, furniture is made
// of boxes, cylinders and balls, the floor is a grid of free and blocked cells of
// 0.1 m, and pictures are ray cast. Actions, their grammar, step lengths, thresholds,
// limits, rewards, metrics and the state for a judge are those of the original's two
// generations VAGEN lite (its main branch) and legacy; Options lists their differences. So
// is the format of task files. The world differs: success rates here are not
// comparable with AI2-THOR's. To use the original service, see the remote client of
// package env/remote.
//
// Tasks come from built-in sets, generated from the rooms that Scene describes (see
// EvalSets; training, evaluation and open sets share no room), or from files of the original
// (see ReadTasks). The original's scenes are not available: a room generated from the
// hash of the scene's name replaces them, with the file's targets and starts at their
// positions.
//
// Pictures are drawn by this package; see Scene.Render. The agent's eye is 1.576 m
// above the floor, as AI2-THOR's. Render mode text is this package's own.
//
// Walkers and scripts (ShortestPath, Facing, Beeline, Random, Noisy, Env.Script) are
// reference players: they give success rates to compare a model with and write
// transcripts for imitation.
package navigation
