package blackjack_test

import (
	"context"
	"fmt"
	"math/rand/v2"

	"vagen/env"
	"vagen/env/blackjack"
)

// A player that stands at 17, as the dealer does.
func Example() {
	o := blackjack.DefaultOptions()
	o.RenderMode = env.Text
	e, err := blackjack.New(o)
	if err != nil {
		panic(err)
	}
	ctx, r := context.Background(), rand.New(rand.NewPCG(1, 2))
	if _, err := e.Reset(ctx, 1); err != nil {
		panic(err)
	}
	for done := false; !done; {
		response := e.Script(r, blackjack.StandAt(17))
		out, err := e.Step(ctx, response)
		if err != nil {
			panic(err)
		}
		fmt.Println(response)
		fmt.Println(out.Reward, out.Success)
		done = out.Done
	}
	dealer, player := e.Hands()
	fmt.Println(player.Sum(), "against", dealer.Sum())
	// Output:
	// <think>With 12, I choose to Hit.</think><answer>Hit</answer>
	// [{format 0.5}] false
	// <think>With 18, I choose to Stand.</think><answer>Stand</answer>
	// [{game 1} {format 0.5}] true
	// 18 against 17
}
