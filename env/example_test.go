package env_test

import (
	"context"
	"fmt"

	"vagen/env"
	"vagen/env/builtin"
)

// The built-in environments are made by name; options are checked by name, too.
func ExampleRegistry() {
	r := builtin.Registry()
	fmt.Println(r.Names())
	_, err := r.New("frozenlake", map[string]any{"sizes": 8})
	fmt.Println(err != nil)
	e, err := r.New("frozenlake", map[string]any{"size": 4, "render_mode": "text"})
	if err != nil {
		panic(err)
	}
	defer e.Close()
	if _, err := e.Reset(context.Background(), 1); err != nil {
		panic(err)
	}
	out, err := e.Step(context.Background(), "<think>up twice, then right</think><answer>Up,Up,Right</answer>")
	if err != nil {
		panic(err)
	}
	fmt.Println(out.Reward, out.Done, out.Success)
	// Output:
	// [blackjack frozenlake navigation openenv primitive_skill remote remote_legacy sokoban svg]
	// true
	// [{success 1} {format 0.02}] true true
}

// An environment is checked for breaches of the contract before it is trained on.
func ExampleCheck() {
	report, err := env.Check(context.Background(), func(config map[string]any) (env.Env, error) {
		return builtin.Registry().New("sokoban", config)
	}, env.CheckOptions{Responses: []string{"<answer>Up</answer>"}})
	fmt.Println(err, report.Err())
	// Output: <nil> <nil>
}
