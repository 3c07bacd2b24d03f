// Package judge prices what a model claims about the state of the world.
//
//   - Rules reads claims by fixed rules. It needs nothing else, is fast, and says
//     the same every time, so it is what environments are judged by unless
//     somebody asks for more.
//   - Model has claims read by a language model, as the original systems do.
//
// Both implement env.Judge, compare the relations that a claim states with the
// true ones through a reward.Scorer, and are safe for concurrent use.
package judge
