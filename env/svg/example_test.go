package svg_test

import (
	"context"
	"fmt"

	"vagen/env/svg"
)

// A drawing is compared with the picture that it should reproduce.
func Example() {
	o := svg.DefaultOptions()
	o.PromptFormat = "no_think"
	data, err := svg.NewDataset([]svg.Sample{{Name: "disc",
		Code: `<svg viewBox="0 0 64 64"><circle cx="32" cy="32" r="20" fill="teal"/></svg>`}})
	if err != nil {
		panic(err)
	}
	e, err := svg.NewFrom(o, data)
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	if _, err := e.Reset(ctx, 0); err != nil {
		panic(err)
	}
	for _, code := range []string{
		`<svg viewBox="0 0 64 64"><rect x="20" y="20" width="24" height="24" fill="blue"/></svg>`,
		`<svg viewBox="0 0 64 64"><circle cx="32" cy="32" r="18" fill="green"/></svg>`,
		`<svg viewBox="0 0 64 64"><circle cx="32" cy="32" r="20" fill="teal"/></svg>`,
	} {
		out, err := e.Step(ctx, "<answer>"+code+"</answer>")
		if err != nil {
			panic(err)
		}
		fmt.Printf("%.2f\n", out.Reward.Sum())
	}
	// Output:
	// 1.31
	// 2.73
	// 5.50
}
