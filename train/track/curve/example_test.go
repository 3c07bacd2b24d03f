package curve_test

import (
	"fmt"

	"vagen/train/track"
	"vagen/train/track/curve"
)

// A curve collects a metric of validations and plot.PNG draws it.
func ExampleCurve() {
	c := &curve.Curve{Title: "FrozenLake", Train: "train/success", Val: "val/success", Label: "success"}
	for step, x := range []float64{0.25, 0.5, 0.75} {
		if err := c.Event(track.Event{Kind: track.KindValidate, Step: step, Total: 2,
			Metrics: track.Metrics{"val/success": x}}); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(c.Ends())
	// Output: 0.25 0.75
}
