// Package primitiveskill is the task of moving things on a table with a robot arm
// that knows three skills: pick, place and push.
//
// VAGEN's environment runs in ManiSkill, a physics simulator. This is a light
// substitute that needs nothing: cubes, an apple and a drawer obey a few rules of
// geometry, and pictures are drawn by casting rays. Skills, their grammar,
// workspaces, starting places, success and stage tests, potentials, rewards,
// observations and the state that a judge is shown are those of the original's
// two generations, Lite (its main branch) and Legacy; Options says how they
// differ. What differs is the world: a skill here either works or has no effect,
// and nothing slips, tilts or bounces. A success rate here says nothing about one
// in ManiSkill, for which the remote client of package env/remote attaches the
// original service.
//
// The rules of the world:
//
//   - pick opens the gripper, so that what it holds falls, and takes the object
//     whose centre lies within 20 mm over the table and in height, unless
//     something lies on top of it. The arm then goes home, with the object.
//   - place brings the held object over the place and lets go of it. It comes to
//     rest on the table, in the open drawer, or on the highest object below it,
//     if its centre is over that object; else it slides off to the side.
//   - push opens the gripper and sweeps it along a line. What it came down over
//     goes along; what is in the way ends up 10 mm before it, pushing others, and
//     takes along what lies on it. The front of the drawer follows the gripper
//     between its stops.
//
// Solver and scripts (Solve, Clumsy, Env.Script) are reference players: they show
// that tasks can be solved and write transcripts for imitation.
package primitiveskill
