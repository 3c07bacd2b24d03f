package policy_test

import (
	"fmt"

	"vagen/policy"
	"vagen/policy/loss"
)

// Eval computes an objective in plain Go, with its derivative by each
// token's log-prob, entropy and value: what a learner of one's own needs for its gradient.
func ExampleObjective_Eval() {
	o := policy.Objective{Policy: loss.PPO{Low: 0.2, High: 0.2}, Temperature: 1}
	b := &policy.Batch{
		Rows:        policy.Rows{Offsets: []int{0, 3}, Tokens: []int32{7, 8, 9}},
		Weight:      []float32{0, 0.5, 0.5}, // the first token is context
		OldLogProbs: []float32{0, -1, -2},
		Advantages:  []float32{0, 1, -1},
	}
	e, err := o.Eval(b, &policy.Scores{LogProbs: []float32{0, -1, -2}})
	fmt.Println(err)
	fmt.Printf("loss %.2f, slopes %.2f\n", e.Loss, e.Slopes.LogProbs)
	// Output:
	// <nil>
	// loss 0.00, slopes [0.00 -0.50 0.50]
}
