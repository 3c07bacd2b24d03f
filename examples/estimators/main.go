// Estimators shows one idea: which tokens a reward reaches depends on the
// estimator. It records an episode of two turns with package mask, and prints
// the advantages that four estimators of package advantage give its tokens.
package main

import (
	"fmt"
	"log"

	"vagen/advantage"
	"vagen/mask"
)

func main() {
	// The tokens of the episode: a prompt, a first response of three tokens, an
	// observation, a second response of two.
	var row mask.Sequence
	must(row.AppendContext(mask.Prompt, 101, 102))
	must(row.AppendResponse(11, 12, 13))
	must(row.AppendContext(mask.Observation, 103, 104, 105))
	must(row.AppendResponse(21, 22))

	// The first turn was slightly good, the second one solved the task.
	rewards, err := row.PlaceTurnRewards(nil, []float64{0.1, 1}, 0)
	must(err)
	// A critic whose values increase over the episode. Its values at observation tokens are
	// meaningless, and only plain GAE uses them.
	values := []float32{0, 0, 0.3, 0.3, 0.4, 2, -2, 1, 0.7, 0.8}

	var b advantage.Batch
	must(b.Append(&row, mask.Options{}, advantage.Row{Rewards: rewards, Values: values}))

	kinds := row.Kinds(nil)
	fmt.Printf("%-22s", "token of")
	for _, k := range kinds {
		fmt.Printf("%9.8s", k)
	}
	fmt.Println()
	for _, e := range []struct {
		name string
		est  advantage.Estimator
	}{
		{"gae", advantage.GAE{Gamma: 1, Lambda: 0.9}},
		{"masked_gae", advantage.Masked{Gamma: 1, Lambda: 0.9}},
		{"bi_level_gae, γH 0.5", advantage.BiLevel{Gamma: 1, Lambda: 0.9, TurnGamma: 0.5}},
		{"turn_wise_gae, γH 0.5", advantage.TurnWise{TurnGamma: 0.5, Lambda: 0.9}},
	} {
		var out advantage.Result // reuse it in a real loop: no allocation then
		must(e.est.Estimate(&out, &b))
		fmt.Printf("%-22s", e.name)
		for _, a := range out.Advantages {
			fmt.Printf("%9.3f", a)
		}
		fmt.Println()
	}
	fmt.Println("\nPlain GAE takes observation tokens for actions, and the junk in their values spreads.\n" +
		"The masked recursion steps over them. The bi-level one hands the second turn's credit\n" +
		"to the first as a whole, discounted once; the turn-wise one gives a turn's tokens one number.")
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
