package navigation_test

import (
	"context"
	"fmt"
	"math/rand/v2"

	"vagen/env"
	"vagen/env/navigation"
)

// A walker that knows the room plays an episode.
func Example() {
	o := navigation.DefaultOptions(env.Lite)
	o.PromptFormat, o.RenderMode = "no_think", env.Text
	e, err := navigation.New(o)
	if err != nil {
		panic(err)
	}
	ctx, r := context.Background(), rand.New(rand.NewPCG(1, 2))
	if _, err := e.Reset(ctx, 0); err != nil {
		panic(err)
	}
	fmt.Println(e.Task().Instruction)
	for done := false; !done; {
		response := e.Script(r, navigation.ShortestPath, 5)
		out, err := e.Step(ctx, response)
		if err != nil {
			panic(err)
		}
		fmt.Println(response)
		fmt.Println(out.Reward, out.Success)
		done = out.Done
	}
	// Output:
	// Go to the plate and stop as close to it as you can.
	// <action>move_left|move_left|move_left|move_left|move_forward</action>
	// [{format 0.01}] false
	// <action>move_forward|move_forward|move_forward|move_forward|move_forward</action>
	// [{format 0.01}] false
	// <action>move_forward|move_forward</action>
	// [{format 0.01} {success 1}] true
}
