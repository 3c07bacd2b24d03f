// Package reward reads what a model wrote and prices it.
//
//   - Parser reads responses in the formats of the original systems, and
//     [ObservePredict], into a Response.
//   - Parts is a turn's reward by component; Place puts rewards on the tokens of
//     a row that package mask recorded.
//   - ShapeKL charges tokens for leaving a reference policy, with a coefficient
//     that a Controller holds.
//   - Clip and Normalizer bring rewards to a common scale.
//   - Relation, Claim, Reading and the Scorers price what a model says about the
//     state of the world, once a judge has read it; ExtractRelations reads the
//     judge's answer.
//
// Nothing here waits or draws random numbers. Sums are made in
// float64, in the order of their arguments.
package reward
