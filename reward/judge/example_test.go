package judge_test

import (
	"context"
	"fmt"

	"vagen/reward"
	"vagen/reward/judge"
)

// Rules read the relations that a statement asserts.
func ExampleRules_Read() {
	readings, err := new(judge.Rules).Read(context.Background(),
		[]reward.Claim{{Env: "sokoban", Text: "The box is above the player. The target is to the right."}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range readings[0].Relations {
		fmt.Printf("%s: %q %q\n", r.Object, r.Vertical, r.Horizontal)
	}
	// Output:
	// box: "above" ""
	// target: "" "right"
}
