package reward_test

import (
	"fmt"

	"vagen/reward"
)

// A response is read in its format; what stands around it doesn't matter to the
// lite dialect.
func ExampleParser() {
	p, err := reward.NewParser("free_think", reward.ParserOptions{MaxActions: 3})
	if err != nil {
		panic(err)
	}
	r := p.Parse("Well: <think>The goal is below.</think> <answer>Down, Down</answer>")
	fmt.Println(r.FormatCorrect, r.Actions, r.Sections["think"])
	// Output: true [down down] The goal is below.
}

// The rewards of two turns sit on the last token of each, the reward of the
// episode on that of the last.
func ExamplePlace() {
	row := make([]float32, 8)
	turns := []reward.Turn{
		{End: 3, Reward: reward.Parts{{Name: "format", Value: 0.5}}},
		{End: 7, Reward: reward.Parts{{Name: "format", Value: 0.5}, {Name: "success", Value: 1}}},
	}
	if err := reward.Place(row, reward.PerTurn, turns, 10); err != nil {
		panic(err)
	}
	fmt.Println(row)
	// Output: [0 0 0 0.5 0 0 0 11.5]
}

// Tokens are charged for leaving the reference policy.
func ExampleShapeKL() {
	scores := []float32{0, 0, 1}
	policy, reference := []float32{-1, -2, -1}, []float32{-1, -1, -2}
	kl, err := reward.ShapeKL(scores, scores, policy, reference, nil, []int{0, 3}, reward.KLSquared, 0.5)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%.3f %v\n", kl, scores)
	// Output: 0.333 [0 -0.25 0.75]
}
