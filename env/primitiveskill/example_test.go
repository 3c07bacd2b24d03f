package primitiveskill_test

import (
	"context"
	"fmt"
	"math/rand/v2"

	"vagen/env"
	"vagen/env/primitiveskill"
)

// A player that knows the world builds a tower.
func Example() {
	o := primitiveskill.DefaultOptions(env.Lite)
	o.Task, o.PromptFormat, o.RenderMode = primitiveskill.StackThreeCube, "free_think", env.Text
	e, err := primitiveskill.New(o)
	if err != nil {
		panic(err)
	}
	ctx, r := context.Background(), rand.New(rand.NewPCG(1, 2))
	if _, err := e.Reset(ctx, 3); err != nil {
		panic(err)
	}
	for done := false; !done; {
		out, err := e.Step(ctx, e.Script(r, primitiveskill.Solve, 2))
		if err != nil {
			panic(err)
		}
		fmt.Println(out.Response.Actions, out.Reward)
		done = out.Done
	}
	fmt.Println(e.State())
	// Output:
	// [pick(-36,-116,20) place(22,78,120)] [{format 0.1}]
	// [pick(-58,-15,20) place(22,78,120)] [{format 0.1} {stage 10} {success 10}]
	// [{red_cube_position [22 78 60]} {green_cube_position [22 78 20]} {purple_cube_position [22 78 100]}]
}
