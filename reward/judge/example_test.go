package judge_test

import (
	"fmt"

	"vagen/reward/judge"
)

// Read finds relations in sentences. names maps the words for objects to their kinds.
func ExampleRead() {
	for _, r := range judge.Read("The box is above the player. The target is to the right.", map[string]string{"box": "box", "target": "target"}) {
		fmt.Printf("%s: %q %q\n", r.Object, r.Vertical, r.Horizontal)
	}
	// Output:
	// box: "above" ""
	// target: "" "right"
}
