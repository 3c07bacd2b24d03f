// Package judge scores a model's claims about the state of the environment.
//
//   - Rules reads claims by fixed rules. It needs no service, is fast and
//     deterministic, and is the default.
//   - Model reads claims with a language model, as the original systems do.
//
// Both implement env.Judge, compare the relations that a claim states with the
// true ones through a reward.Scorer, and are safe for concurrent use.
package judge
