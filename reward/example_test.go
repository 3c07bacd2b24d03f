package reward_test

import (
	"errors"
	"fmt"

	"vagen/mask"
	"vagen/policy/loss"
	"vagen/reward"
)

// A response is parsed in its format; the lite dialect ignores text around it.
func ExampleParser() {
	p, err := reward.NewParser("free_think", reward.ParserOptions{MaxActions: 3})
	if err != nil {
		panic(err)
	}
	r := p.Parse("Well: <think>The goal is below.</think> <answer>Down, Down</answer>")
	fmt.Println(r.FormatCorrect, r.Actions, r.Sections["think"])
	// Output: true [down down] The goal is below.
}

// A format of your own is one tagged block after another.
func ExampleNewTagged() {
	p, err := reward.NewTagged("planner", []string{"plan", "answer"}, reward.ParserOptions{MaxActions: 2})
	if err != nil {
		panic(err)
	}
	r := p.Parse("<plan>Around the hole.</plan><answer>Left, Down</answer>")
	fmt.Println(r.FormatCorrect, r.Actions, r.Sections["plan"])
	fmt.Println(p.Parse("<answer>Left</answer>").FormatCorrect)
	// Output:
	// true [left down] Around the hole.
	// false
}

// The rewards of two turns sit on the last token of each, the reward of the
// episode on that of the last. A part that is about a section of a response may
// sit where the section ends.
func ExamplePlace() {
	var row mask.Sequence
	err := errors.Join(
		row.AppendResponse(1, 2, 3), row.AppendContext(mask.Observation, 4), row.AppendResponse(5, 6, 7),
		row.AddSpan("observation", 0, 2),
	)
	if err != nil {
		panic(err)
	}
	turns := []reward.Parts{
		{{Name: "format", Value: 0.5}, {Name: "observation", Value: 0.25}},
		{{Name: "format", Value: 0.5}, {Name: "success", Value: 1}},
	}
	for _, how := range []reward.Placement{reward.PerTurn, reward.PerSpan, reward.AtLast} {
		rewards, err := reward.Place(nil, &row, how, turns, 10)
		if err != nil {
			panic(err)
		}
		fmt.Println(how, rewards)
	}
	// Output:
	// turn [0 0 0.75 0 0 0 11.5]
	// span [0 0.25 0.5 0 0 0 11.5]
	// last [0 0 0 0 0 0 12.25]
}

// Tokens are charged for leaving the reference policy.
func ExampleShapeKL() {
	scores := []float32{0, 0, 1}
	policy, reference := []float32{-1, -2, -1}, []float32{-1, -1, -2}
	kl, err := reward.ShapeKL(scores, scores, policy, reference, nil, []int{0, 3}, loss.K2, 0.5)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%.3f %v\n", kl, scores)
	// Output: 0.333 [0 -0.25 0.75]
}
