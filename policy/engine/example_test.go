package engine_test

import (
	"errors"
	"fmt"

	"vagen/policy/engine"
)

// Compare measures how far the log-probs of servers are from those of the learner; Diagnose
// says why.
func ExampleDiagnose() {
	samples := []engine.Sample{
		{Sampled: []float32{-1.2, -0.7}, Learner: []float32{-1.2, -0.7}},
		{Sampled: []float32{-2.1, -0.4}, Learner: []float32{-1.6, -0.9}, Images: true},
	}
	a := engine.Compare(samples)
	fmt.Printf("%d tokens differ by %.3f on average, at most by %.1f\n", a.Tokens, a.Mean, a.Largest)
	err := engine.Diagnose(samples, 0.02) // names the images: responses without them agree
	fmt.Println(errors.Is(err, engine.ErrMismatch))
	// Output:
	// 4 tokens differ by 0.250 on average, at most by 0.5
	// true
}
