package filter_test

import (
	"fmt"
	"log"

	"vagen/rollout/filter"
)

// Three start states with two rollouts each; only one of them teaches much.
func ExampleRegistry_New() {
	f, err := filter.Builtin().New("reward_variance_top_p", map[string]any{"top_p": 0.8})
	if err != nil {
		log.Fatal(err)
	}
	var out filter.Result
	err = f.Filter(&out, &filter.Batch{
		Group:  []string{"easy", "easy", "fair", "fair", "odd", "odd"},
		Return: []float64{1, 1, 0, 1, 0.9, 1},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("keep rows %v, scale their advantages by %.3f\n", out.Keep, out.Scale)
	// Output: keep rows [2 3], scale their advantages by 0.577
}

// A setting that no filter knows is an error, not a default.
func ExampleRegistry_New_unknownSetting() {
	_, err := filter.Builtin().New("reward_variance", map[string]any{"top_k": 0.5})
	fmt.Println(err)
	// Output: filter: "reward_variance": top_k: no such setting, did you mean "topk"? (known: topk, ddof, scaling): setting not allowed
}
