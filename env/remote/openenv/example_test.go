package openenv_test

import (
	"context"
	"fmt"
	"net/http/httptest"

	"vagen/env/frozenlake"
	"vagen/env/remote"
	"vagen/env/remote/openenv"
)

// A server hosts FrozenLake for OpenEnv's clients, and a client plays it.
func Example() {
	lake := openenv.Hosted{Name: "frozenlake", About: "walk over a lake", Make: frozenlake.FromConfig}
	s, err := openenv.NewServer(lake, remote.DefaultServerOptions())
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	defer s.Close(ctx)
	h := httptest.NewServer(s) // with a key and other checks: remote.ServerOptions.Other
	defer h.Close()

	e, err := openenv.FromConfig(map[string]any{"base_urls": h.URL})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer e.Close()
	if _, err := e.Reset(ctx, 3); err != nil {
		fmt.Println(err)
		return
	}
	turn, err := e.Step(ctx, "<think>The goal is near.</think><answer>Right,Up,Up</answer>")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(turn.Done, turn.Success, turn.Reward.Sum())
	// Output: true true 1.02
}
