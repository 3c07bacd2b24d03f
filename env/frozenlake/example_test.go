package frozenlake_test

import (
	"context"
	"fmt"
	"math/rand/v2"

	"vagen/env"
	"vagen/env/frozenlake"
	"vagen/reward"
)

// A walker that knows the level plays an episode in the words of a tiny model.
func Example() {
	o := frozenlake.DefaultOptions(env.Lite)
	o.Desc = []string{"SFH", "FFG", "FFF"}
	o.PromptFormat, o.Prompt, o.DescribeHoles = reward.ObservePredict, "brief", true
	o.ObservationReward, o.PredictionReward = 0.05, 0.05
	e, err := frozenlake.New(o)
	if err != nil {
		panic(err)
	}
	ctx, r := context.Background(), rand.New(rand.NewPCG(1, 2))
	if _, err := e.Reset(ctx, 0); err != nil {
		panic(err)
	}
	for done := false; !done; {
		response := e.Script(r, frozenlake.ShortestPath, 2)
		out, err := e.Step(ctx, response)
		if err != nil {
			panic(err)
		}
		fmt.Println(response)
		fmt.Println(out.Reward, out.Success)
		done = out.Done
	}
	// Output:
	// <think><observation>goal down right free none Down Right none</observation><prediction>goal same right</prediction></think><answer>Down,Right</answer>
	// [{format 0.02} {observation 0.05} {prediction 0.05}] false
	// <think><observation>goal same right free Left Down Right Up</observation><prediction>goal same same</prediction></think><answer>Right</answer>
	// [{success 1} {format 0.02} {observation 0.05} {prediction 0.05}] true
}
