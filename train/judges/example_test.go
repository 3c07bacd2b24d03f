package judges_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"vagen/policy/vlm"
	"vagen/reward"
	"vagen/reward/judge"
	"vagen/reward/judge/client"
	"vagen/train/judges"
)

// A folder with a model becomes a judge. This one was never trained and answers nonsense, so its statements have no
// score, and are counted.
func Example() {
	dir, err := os.MkdirTemp("", "judge")
	check(err)
	defer os.RemoveAll(dir)
	dir = filepath.Join(dir, "model")
	shape := vlm.Small()
	shape.Layers, shape.VisionDepth = 1, 1
	check(vlm.Create(dir, shape, nil, 1))

	block := judge.DefaultStateReward()
	block.Service.Model = dir
	models := &judges.Models{Options: vlm.Options{Backend: "go"}}
	defer models.Close()
	j, err := block.Judge(models.Dial(client.Dial(nil)))
	check(err)
	ctx, meter := client.WithMeter(context.Background())
	scores, err := j.Score(ctx, []reward.Claim{{
		Section: reward.SectionObservation, Env: "sokoban", Text: "It is below me.",
		Truth: []reward.Relation{reward.Relate("box", 1, 0)},
	}})
	check(err)
	fmt.Println(scores, meter.Usage().Unscored)

	block.Service.Model = filepath.Dir(dir) // no model's folder
	_, err = models.Dial(client.Dial(nil))(&block)
	fmt.Println(err != nil)
	// Output:
	// [NaN] map[answer:1]
	// true
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
