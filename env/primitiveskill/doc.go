// Package primitiveskill is the task of moving objects on a table with a robot arm that
// has three skills: pick, place and push.
//
// VAGEN's environment runs in ManiSkill, a physics simulator. This package is a light
// substitute without dependencies: cubes, an apple and a drawer follow a few geometric
// rules, and pictures are ray cast. Skills, their grammar, workspaces, start positions,
// success and stage tests, potentials, rewards, observations and the state for a judge
// are those of VAGEN lite (the original's main branch) and VAGEN legacy;
// Options lists their differences. The world differs: a skill here either works or has
// no effect, and nothing slips, tilts or bounces. Success rates here are not comparable
// with ManiSkill's. To use the original service, see the remote client of package
// env/remote.
//
// The rules of the world:
//
//   - pick opens the gripper, so that a held object falls, and takes the object whose
//     centre is within 20 mm horizontally and vertically, unless another object is on
//     top of it. The arm then returns to its home position, with the object.
//   - place moves the held object above the position and releases it. It comes to rest
//     on the table, in the open drawer, or on the highest object below it, if its centre
//     is over that object; otherwise it slides off to the side.
//   - push opens the gripper and moves it along a line. An object under the gripper at
//     its start moves along; objects in the way end 10 mm ahead of it, push others, and
//     carry the objects on top of them. The front of the drawer follows the gripper
//     between its stops.
//
// Solver and scripts (Solve, Env.Script) are reference players: they show
// that tasks can be solved and write transcripts for imitation.
package primitiveskill
