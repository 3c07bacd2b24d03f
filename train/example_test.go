package train_test

import (
	"context"
	"fmt"
	"log"

	"vagen/advantage"
	"vagen/env"
	"vagen/internal/traintest"
	"vagen/mask"
	"vagen/train"
	"vagen/train/track"
)

// A Trainer without package run needs a learner, environments and sinks. It refuses settings
// that it does not implement.
func Example() {
	var steps []int
	t := train.Trainer{
		Config:  traintest.Small(), // a guessing game
		Learner: traintest.Guesser(),
		Envs:    games(),
		Sinks: []track.Sink{track.SinkFunc(func(e track.Event) error {
			if e.Kind == track.KindStep {
				steps = append(steps, e.Step)
			}
			return nil
		})},
	}
	must(t.Run(context.Background()))
	fmt.Println("steps", steps)

	t.Config.Trainer.Project, t.Config.Model.BFloat16 = "mine", true
	fmt.Println(t.Run(context.Background()))
	// Output:
	// steps [1 2 3]
	// train: bad configuration: a Trainer does not honour model.bfloat16, trainer.project_name: use train/run.Open, or list them in Trainer.Handled if your program honours them
}

// A loop of one's own: collect the episodes of a step, look at what the update would learn from, and
// update. It ends if no episode can be used.
func ExampleTrainer_Step() {
	ctx := context.Background()
	t := train.Trainer{Config: traintest.Small(), Learner: traintest.Guesser(), Envs: games()}
	for t.Done() < 3 {
		episodes, err := t.Collect(ctx, t.Done()+1)
		must(err)
		if episodes.Metrics["train/episodes"] == episodes.Metrics["train/unusable"] {
			break
		}
		rows, err := t.Score(ctx, episodes)
		must(err)
		metrics, err := t.Step(ctx, episodes)
		must(err)
		fmt.Printf("step %d: %d rows, %.0f tokens, learning rate %v\n",
			t.Done(), len(rows), metrics["train/trained_tokens"], metrics["actor/lr"])
	}
	state, err := t.State() // to be saved beside the weights
	must(err)
	fmt.Println("state after step", state.Step)
	// Output:
	// step 1: 8 rows, 80 tokens, learning rate 2
	// step 2: 8 rows, 80 tokens, learning rate 2
	// step 3: 8 rows, 80 tokens, learning rate 2
	// state after step 3
}

// games is a registry with the guessing game.
func games() *env.Registry {
	envs, err := (&traintest.Arena{}).Open()
	must(err)
	return envs
}

// Embed the estimators in another trainer.
func Example_embed() {
	prompt, reply := []int32{1, 2}, []int32{11, 12, 9}
	answer, reply2 := []int32{3, 4}, []int32{13, 9}
	values := []float32{0, 0, 0.2, 0.3, 0.4, 0, 0, 0.6, 0.8} // of a critic; not read where the model did not write

	var row mask.Sequence
	must(row.AppendContext(mask.Prompt, prompt...))      // system prompt and first observation
	must(row.AppendResponse(reply...))                   // a turn; its last token is the turn end
	must(row.AppendContext(mask.Observation, answer...)) // what the environment said
	must(row.AppendResponse(reply2...))
	rewards, err := row.PlaceTurnRewards(nil, []float64{0.1, 1}, 0)
	must(err)

	var b advantage.Batch
	must(b.Append(&row, mask.Options{}, advantage.Row{Rewards: rewards, Values: values}))

	est := advantage.BiLevel{Gamma: 1, Lambda: 1, TurnGamma: 0.95} // no Whiten: one row is too little
	var out advantage.Result                                       // reused from step to step: no allocation
	must(est.Estimate(&out, &b))
	fmt.Printf("%.2f\n", out.Advantages)
	fmt.Printf("%.2f\n", out.Returns)
	// Output:
	// [0.00 0.00 0.85 0.75 0.65 0.00 0.00 0.40 0.20]
	// [0.00 0.00 1.05 1.05 1.05 0.00 0.00 1.00 1.00]
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
