// Package judge scores a model's claims about the state of the environment.
//
//   - Rules reads claims by fixed rules. It needs no service, is fast and
//     deterministic.
//   - Model reads claims with a language model, as the original systems do.
//
// # What a sentence asserts
//
// Rules reads English sentences about a board as a reader understands them, and only
// what they state:
//
//   - Relations are those of objects to the player. "I am left of the goal" asserts that
//     the goal is to the right; relations between two objects assert nothing.
//   - North, up, higher and top mean above; west means left, and so on. Distances count
//     as directions, apart from zero ("zero rows up" is the same row). Rows and columns
//     of the player and an object assert both directions.
//   - "Directly", "straight", "due" and the like assert that the other direction is the
//     same; plain "north of me" does not.
//   - A motion that leads from the player to an object places it: "to reach the goal I have
//     to go down". Other motions are plans and assert nothing.
//   - A negation alone asserts nothing, "neither left nor right" the same column.
//   - Hedges, questions, conditions, alternatives, examples, what others say and sentences
//     for the judge assert nothing, nor does what was true before. A hedge concerns its part
//     of the sentence: "the hole is above me, but I cannot tell where the goal is" asserts
//     the first part.
//   - A correction ("no wait", "scratch that") replaces what it corrects.
//   - One object that is stated two ways in a direction has none in it. Repetition adds
//     nothing. "Hole 1" and "another hole" are different objects; "three holes are above
//     me" asserts three relations.
//   - A relation of an object to anything else, such as a wall, asserts nothing.
//
// Texts in other languages assert nothing.
//
// Both implement env.Judge, compare the relations that a claim states with the
// true ones through a reward.Scorer, and are safe for concurrent use.
package judge
