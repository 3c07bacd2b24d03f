package builtin_test

import (
	"context"
	"fmt"
	"log"

	"vagen/env/builtin"
)

// Make an environment by name and play one turn.
func Example() {
	ctx := context.Background()
	e, err := builtin.Registry().New("frozenlake", map[string]any{"desc": []any{"SF", "HG"}})
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close()
	if _, err := e.Reset(ctx, 1); err != nil {
		log.Fatal(err)
	}
	out, err := e.Step(ctx, "<think>Right, then down.</think><answer>Right,Down</answer>")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(out.Done, out.Success, out.Reward.Sum())
	// Output: true true 1.02
}

// List the environments and what the agent does in each.
func ExampleKinds() {
	for _, k := range builtin.Kinds()[:3] {
		fmt.Printf("%s: %s\n", k.Name, k.About)
	}
	// Output:
	// blackjack: draw cards or stand against a dealer
	// frozenlake: walk over a lake to the goal, around its holes
	// navigation: walk to an object in a generated room, seen from inside
}
