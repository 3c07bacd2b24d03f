package loss_test

import (
	"fmt"
	"log"

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
	fmt.Println(err)
	// Output:
	// {Low:0.2 High:0.2} <nil>
	// loss: policy loss "turn_gpso": unknown name, did you mean "turn_gspo"? (known: cispo, clip_cov, dppo_kl, dppo_prime, dppo_skyrl, dppo_tv, dro, geo_mean, gmpo, gpg, gspo, ipo, kl_cov, luspo, m2po, opd, ppo, ref_kl, reinforce, sapo, sdft, turn_gspo, turn_ppo, vanilla, vespo)
}

// Four micro-batches of one row each: the mean of per-row means, as the
// original code trains, against one mean over all tokens of the update.
func ExampleNorm() {
	offsets, mask := []int{0, 4}, []bool{true, true, true, true}
	for _, norm := range []loss.Norm{{Accumulation: 4}, {Tokens: 20, Rows: 4}} {
		a := loss.Aggregation{Mode: loss.TokenMean, Norm: norm}
		w, factor, err := a.Weights(nil, offsets, mask)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("weight of a token: %.4f\n", factor*w[0])
	}
	// Output:
	// weight of a token: 0.0625
	// weight of a token: 0.0500
}

// From logits to a loss and back to the gradient of the logits.
func ExampleLogits() {
	logits := loss.Logits[float32]{
		Values: []float32{2, 0, 0 /**/, 0, 1, 0}, Vocab: 3,
		Labels: []int32{0, 2}, Temperature: 1,
	}
	var s loss.Softmax
	if err := logits.Forward(&s); err != nil {
		log.Fatal(err)
	}
	var out loss.Result
	err := loss.Eval(&out, loss.LegacyPPO(), loss.Aggregation{}, &loss.Batch[float64]{
		Offsets: []int{0, 2}, Mask: []bool{true, true},
		LogProb: s.LogProb, OldLogProb: s.LogProb, Advantage: []float64{1, -1},
	})
	if err != nil {
		log.Fatal(err)
	}
	grad, err := logits.Backward(nil, &s, out.Grad, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("entropy %.3f\n", s.Entropy)
	fmt.Printf("gradient of the logits %.3f\n", grad)
	// Output:
	// entropy [0.666 0.975]
	// gradient of the logits [-0.107 0.053 0.053 -0.106 -0.288 0.394]
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
