package envs_test

import (
	"context"
	"fmt"
	"strings"

	"vagen/train/config"
	"vagen/train/envs"
)

// Open returns the environments that a configuration trains on.
func ExampleOpen() {
	c, err := config.Load("", "env=frozenlake")
	if err != nil {
		fmt.Println(err)
		return
	}
	registry, err := envs.Open(&c, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	lake, err := registry.New(c.Env.Name, map[string]any{"render_mode": "text", "desc": []any{"SFF", "FHF", "FFG"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	defer func() { _ = lake.Close() }()
	first, err := lake.Reset(ctx, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(strings.Contains(first.Text, " _  O  _ "))
	// Output:
	// true
}
