package track_test

import (
	"fmt"
	"os"

	"vagen/train/track"
)

// A console prints a line for each event if the output is not a terminal. SinkFunc makes
// a sink of a function.
func Example() {
	console := track.NewConsole(os.Stdout)
	best := 0.0
	keepBest := track.SinkFunc(func(e track.Event) error {
		best = max(best, e.Metrics["val/success"])
		return nil
	})
	for step, success := range []float64{0.25, 0.5} {
		e := track.Event{Kind: track.KindValidate, Step: step, Total: 1, Metrics: track.Metrics{"val/success": success}}
		for _, s := range []track.Sink{console, keepBest} {
			if err := s.Event(e); err != nil {
				fmt.Println(err)
			}
		}
	}
	fmt.Println("best", best)
	// Output:
	// validation after step 0: success 0.25 on 0 unseen levels, - turns, format -
	// validation after step 1: success 0.50 on 0 unseen levels, - turns, format -
	// best 0.5
}
