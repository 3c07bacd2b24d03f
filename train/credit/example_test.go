package credit_test

import (
	"fmt"
	"log"

	"vagen/mask"
	"vagen/reward"
	"vagen/rollout"
	"vagen/rollout/store"
	"vagen/train/config"
	"vagen/train/credit"
)

// What two estimators claim about an episode of two turns. A program reads Episodes and
// Scores with package rollout/store from what a run recorded.
func ExampleStep_Estimate() {
	var row mask.Sequence
	must(row.AppendContext(mask.Prompt, 1, 2))
	must(row.AppendResponse(11, 9))
	must(row.AppendContext(mask.Observation, 3))
	must(row.AppendResponse(12, 9))
	c := config.Default()
	c.Algorithm.Estimator, c.Algorithm.TurnGamma = "bi_level_gae", 0.5
	step := credit.Step{
		Config: &c,
		Episodes: []*rollout.Trajectory{{
			Rows: []rollout.Row{{Sequence: row, LogProbs: make([]float32, row.Len())}},
			Turns: []rollout.Turn{{Reward: reward.Parts{{Name: "pay", Value: 0}}},
				{Reward: reward.Parts{{Name: "pay", Value: 1}}}},
			End: rollout.EndDone,
		}},
		Scores: []store.Scores{{
			Rewards: []float32{0, 0, 0, 0, 0, 0, 1}, Values: make([]float32, 7),
			Loss:   []bool{false, false, true, true, false, true, true},
			Scored: []bool{false, false, true, true, false, true, true},
		}},
	}
	for _, name := range []string{"bi_level_gae", "masked_gae", "grpo"} {
		e, err := step.Estimate(name, c.Algorithm.Params)
		if err != nil {
			fmt.Println(err)
			continue
		}
		for _, t := range e.Turns {
			fmt.Println(name, "turn", t.Turn, "claim", t.Claim)
		}
	}
	// Output:
	// bi_level_gae turn 0 claim 0.5
	// bi_level_gae turn 1 claim 1
	// masked_gae turn 0 claim 1
	// masked_gae turn 1 claim 1
	// credit: grpo: cannot be computed from what was recorded: it compares episodes of one start state, and rollout_manager.n_trajectory is 1
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
