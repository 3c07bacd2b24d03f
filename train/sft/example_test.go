package sft_test

import (
	"context"
	"fmt"

	"vagen/env/builtin"
	"vagen/train/config"
	"vagen/train/sft"
)

// Lessons are episodes that a script of the environment plays. What it answered is learned,
// what it read is not.
func Example() {
	ctx := context.Background()
	c, err := config.Load("", "trainer.stage=sft", "env=frozenlake", "env.config={render_mode: text, size: 3}",
		"sft.lessons.teacher=shortest_path", "sft.lessons.episodes=4", "sft.train_batch_size=4", "sft.val_fraction=0",
		"sft.total_epochs=3")
	if err != nil {
		fmt.Println(err)
		return
	}
	data, err := sft.Open(ctx, &c, builtin.Registry(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := data.Encode(ctx, letters{limit: 8192}); err != nil { // an encoder with a token per byte
		fmt.Println(err)
		return
	}
	batch, err := data.Batch(1, c.Run.Seed)
	if err != nil {
		fmt.Println(err)
		return
	}
	weighted := 0
	for _, w := range batch.Weight {
		if w > 0 {
			weighted++
		}
	}
	rows, _ := data.Rows()
	fmt.Println(rows, "rows,", c.Trainer.Steps, "steps")
	fmt.Println("only a part is learned:", weighted > 0 && weighted < len(batch.Tokens))
	// Output:
	// 4 rows, 3 steps
	// only a part is learned: true
}
