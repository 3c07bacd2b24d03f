package loss_test

import (
	"fmt"
	"log"
	"strings"

	"vagen/policy/loss"
)

// Two rows, three response tokens. The first token has become much more likely
// than it was and is clipped: no gradient.
func ExampleEval() {
	b := &loss.Batch[float32]{
		Offsets:    []int{0, 3, 5},
		Mask:       []bool{false, true, true, false, true},
		LogProb:    []float32{0, -0.5, -1.0, 0, -2.0},
		OldLogProb: []float32{0, -1.5, -1.0, 0, -2.1},
		Advantage:  []float32{0, 1, 1, 0, -1},
	}
	var out loss.Result // reuse it: the second evaluation allocates nothing
	if err := loss.Eval(&out, loss.DefaultPPO(), loss.Aggregation{}, b); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("loss %.3f, gradient %.3f\n", out.Loss, out.Grad)
	fmt.Printf("clipped %.2f, KL %.3f\n", out.Metrics.ClipFraction, out.Metrics.KL)
	// Output:
	// loss -0.365, gradient [0.000 0.000 -0.333 0.000 0.368]
	// clipped 0.33, KL -0.367
}

// Losses are found by the names that configurations use.
func ExampleRegistry_New() {
	registry := loss.Builtin()
	p, err := registry.New("turn_gspo", loss.DefaultOptions())
	fmt.Printf("%+v %v\n", p, err)
	_, err = registry.New("turn_gpso", loss.DefaultOptions())
	says, _, _ := strings.Cut(err.Error(), " (known: ") // and then all names
	fmt.Println(says)
	// Output:
	// {Low:0.2 High:0.2} <nil>
	// loss: policy loss "turn_gpso": unknown name, did you mean "turn_gspo"?
}

// Weights of a whole update make it the same in parts: the mean over all of its tokens.
func ExampleAggregation_Weights() {
	offsets, mask := []int{0, 3, 5}, []bool{true, true, true, false, true}
	logProb := []float64{-1, -2, -3, 0, -4}
	weights, err := loss.Aggregation{Mode: loss.TokenMean}.Weights(nil, offsets, mask)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(weights)
	for row := range 2 {
		from, to := offsets[row], offsets[row+1]
		var out loss.Result
		err := loss.EvalWeighted(&out, loss.Reinforce{}, weights[from:to], &loss.Batch[float64]{
			Offsets: []int{0, to - from}, Mask: mask[from:to], LogProb: logProb[from:to], OldLogProb: logProb[from:to],
			Advantage: []float64{1, 1, 1}[:to-from],
		})
		fmt.Println(out.Loss, err)
	}
	// Output:
	// [0.25 0.25 0.25 0 0.25]
	// 1.5 <nil>
	// 1 <nil>
}

// The rollout engine and the trainer disagree on the second token.
func ExampleCorrect() {
	rules, err := loss.ParseRejections("seq_max_k1", "0.1_10")
	if err != nil {
		log.Fatal(err)
	}
	c := loss.DefaultCorrection()
	c.Reject = rules
	var out loss.Corrected
	err = loss.Correct(&out, c, &loss.CorrectionBatch[float32]{
		Offsets: []int{0, 2, 3}, Mask: []bool{true, true, true},
		Trainer: []float32{-1, -1, -1},
		Rollout: []float32{-1.1, -4, -1},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("weights %.2f, mask %v, rows rejected %.1f\n", out.Weight, out.Mask, out.Metrics.RejectedRows)
	// Output:
	// weights [1.11 2.00 1.00], mask [false false true], rows rejected 0.5
}
