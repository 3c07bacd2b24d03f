package diagnose_test

import (
	"fmt"
	"log"
	"maps"
	"slices"

	"vagen/rollout/diagnose"
)

// Responses that differ, but not by what was asked.
func ExampleTemplateCollapse() {
	b := &diagnose.Batch{
		Group: []string{"left", "left", "right", "right"},
		Text: []string{
			"I will look around and then move",
			"I will look around and then push",
			"I will look around and then move",
			"I will look around and then push",
		},
	}
	found := map[string]float64{}
	if err := diagnose.TemplateCollapse(4)(found, b); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("across %.2f, within %.2f\n", found["template/across"], found["template/within"])
	// Output: across 0.88, within 0.75
}

// A metric of one's own next to built-in ones.
func ExampleRegistry_Measure() {
	metrics := diagnose.Builtin()
	solved := func(dst map[string]float64, b *diagnose.Batch) error {
		n := 0
		for _, s := range b.Score {
			if s >= 1 {
				n++
			}
		}
		dst["solved"] = float64(n) / float64(len(b.Score))
		return nil
	}
	if err := metrics.Register("solved", solved); err != nil {
		log.Fatal(err)
	}
	found := map[string]float64{}
	b := &diagnose.Batch{Group: []string{"a", "a", "b", "b"}, Score: []float64{0, 1, 1, 1}}
	if err := metrics.Measure(found, b, "solved", "reward_variance"); err != nil {
		log.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		fmt.Println(name, found[name])
	}
	// Output:
	// reward_variance 0.125
	// reward_variance/max 0.25
	// reward_variance/min 0
	// reward_variance/zero_share 0.5
	// solved 0.75
}
