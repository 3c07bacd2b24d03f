// Package reward parses responses of a model and computes rewards.
//
//   - Parser reads responses in the formats of the original systems, and
//     [ObservePredict], into a Response.
//   - Parts is a turn's reward by component; Place puts rewards on the tokens of
//     a row that package mask recorded.
//   - ShapeKL subtracts a penalty for the divergence from a reference policy; a
//     Controller holds its coefficient.
//   - Clip and Normalizer bring rewards to a common scale.
//   - Relation, Claim, Reading and the Scorers score a model's claims about the state
//     of the environment after a judge has read them; ExtractRelations parses the
//     judge's answer.
//
// No function blocks or draws random numbers. Sums are computed in float64, in the
// order of the arguments.
package reward
