package sokoban_test

import (
	"context"
	"fmt"
	"math/rand/v2"

	"vagen/env"
	"vagen/env/sokoban"
)

// The shortest solution of a room, played in turns of two moves.
func Example() {
	o := sokoban.DefaultOptions(env.Lite)
	o.Desc = []string{"######", "#P___#", "#__X_#", "#____#", "#__O_#", "######"}
	o.MaxActions, o.PromptFormat = 2, "free_think"
	e, err := sokoban.New(o)
	if err != nil {
		panic(err)
	}
	ctx, r := context.Background(), rand.New(rand.NewPCG(1, 2))
	if _, err := e.Reset(ctx, 0); err != nil {
		panic(err)
	}
	for done := false; !done; {
		response := e.Script(r, sokoban.ShortestPath, o.MaxActions)
		out, err := e.Step(ctx, response)
		if err != nil {
			panic(err)
		}
		fmt.Println(response)
		fmt.Println(out.Reward, out.Success)
		done = out.Done
	}
	// Output:
	// <think>I go Right, Right.</think><answer>Right,Right</answer>
	// [{format 0.1}] false
	// <think>I go Down, Down.</think><answer>Down,Down</answer>
	// [{success 1} {format 0.1}] true
}
