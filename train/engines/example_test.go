package engines_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"vagen/policy/engine"
	"vagen/policy/vlm"
	"vagen/train/config"
	"vagen/train/engines"
)

// Check finds a missing server before anything is trained. A configuration without servers
// has nothing to check.
func ExampleCheck() {
	tmp, err := os.MkdirTemp("", "model")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(tmp)
	dir := filepath.Join(tmp, "new")
	shape := vlm.Shape{Family: "qwen3", Layers: 1, Hidden: 16, FF: 16, Heads: 2, KVHeads: 1, HeadDim: 8, RopeTheta: 10000,
		MaxPositions: 256}
	if err := vlm.Create(dir, shape, []string{"Left", "Right"}, 1); err != nil {
		fmt.Println(err)
		return
	}
	const rollout = "actor_rollout_ref.rollout."
	for _, overrides := range [][]string{
		nil,
		// where nothing listens
		{rollout + "name=vllm", rollout + "engine.addresses=[http://127.0.0.1:1]", rollout + "engine.start_timeout=0"},
	} {
		c, err := config.Load("", append(overrides, "env=frozenlake", "actor_rollout_ref.model.path="+dir)...)
		if err != nil {
			fmt.Println(err)
			return
		}
		err = engines.Check(context.Background(), &c)
		fmt.Println(err == nil, errors.Is(err, config.ErrConfig), errors.Is(err, engine.ErrServer))
	}
	// Output:
	// true false false
	// false true true
}
