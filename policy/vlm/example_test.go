package vlm_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"vagen/policy"
	"vagen/policy/vlm"
)

// A new model of text writes a response. It has learned nothing, so only its form
// is of interest: tokens and, for each of them, a log-prob.
func Example() {
	dir, err := os.MkdirTemp("", "model")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	dir = filepath.Join(dir, "new")
	shape := vlm.Shape{Family: "qwen3", Layers: 1, Hidden: 16, FF: 16, Heads: 2, KVHeads: 1, HeadDim: 8, RopeTheta: 10000,
		MaxPositions: 256}
	if err := vlm.Create(dir, shape, []string{"Left", "Right"}, 1); err != nil {
		panic(err)
	}
	ctx := context.Background()
	m, err := vlm.Open(ctx, dir, vlm.Options{Backend: "go"})
	if err != nil {
		panic(err)
	}
	defer m.Close()
	prompt := policy.Prompt{Conversation: 1, Seed: 7,
		Messages: []policy.Message{{Role: policy.User, Text: "Left or Right?"}}}
	out, err := m.Generate(ctx, []policy.Prompt{prompt}, policy.Sampling{Temperature: 1, MaxTokens: 3})
	if err != nil {
		panic(err)
	}
	fmt.Println(m.Family(), m.Backend())
	fmt.Println(len(out[0].Tokens) <= 3, len(out[0].Tokens) == len(out[0].LogProbs))
	// Output:
	// qwen3 go
	// true true
}
