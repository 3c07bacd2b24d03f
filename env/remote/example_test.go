package remote_test

import (
	"context"
	"fmt"
	"net/http/httptest"

	"vagen/env"
	"vagen/env/frozenlake"
	"vagen/env/remote"
	"vagen/env/sokoban"
)

// A service hosts FrozenLake for clients of both protocols, and a client plays it.
func Example() {
	var legacy env.Registry
	if err := legacy.Register("frozenlake",
		remote.WithDefaults(frozenlake.FromConfig, map[string]any{"rules": "legacy"})); err != nil {
		fmt.Println(err)
		return
	}
	o := remote.DefaultServerOptions()
	o.Lite, o.Legacy = frozenlake.FromConfig, &legacy
	service, err := remote.NewServer(o)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	defer service.Close(ctx)
	h := httptest.NewServer(service) // or service.ListenAndServe(ctx, "127.0.0.1:8000")
	defer h.Close()

	lake, err := remote.FromConfig(map[string]any{"base_urls": h.URL, "desc": []string{"SF", "FG"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lake.Close()
	if _, err := lake.Reset(ctx, 0); err != nil {
		fmt.Println(err)
		return
	}
	turn, err := lake.Step(ctx, "<think>The goal is near.</think><answer>Down,Right</answer>")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(turn.Done, turn.Success, turn.Reward.Sum(), turn.Response.Actions)
	// Output: true true 1.02 [down right]
}

func ExampleWithDefaults() {
	legacy := remote.WithDefaults(sokoban.FromConfig, map[string]any{"rules": "legacy"})
	e, err := legacy(map[string]any{"num_boxes": 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	o := e.(*sokoban.Env).Options()
	fmt.Println(o.Rules, o.Boxes)
	// Output: legacy 2
}

func ExampleFromConfig() {
	e, err := remote.FromConfig(map[string]any{
		"base_urls": "http://sim-1:8000; http://sim-2:8000",
		"timeout":   60,
		"eval_set":  "base", // not the client's: it goes to the environment
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer e.Close() // nothing to close yet: a session opens with the first Reset
	_, err = remote.FromConfig(map[string]any{"base_urls": "sim-1:8000"})
	fmt.Println(err)
	// Output: remote: base_urls: "sim-1:8000" is not of the form http://host:port
}
