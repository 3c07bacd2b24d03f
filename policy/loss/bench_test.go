package loss

import (
	"testing"

	"vagen/internal/rng"
)

// benchBatch is 128 rows of about 2000 tokens, half of them responses, in turns
// of about 50.
func benchBatch() *Batch[float32] {
	r := rng.New(1, rng.Script)
	b := &Batch[float64]{Offsets: []int{0}, Weight: []float64{}}
	for range 128 {
		for turn := range int32(20) {
			addContext(b, 50)
			addTurn(b, r, turn, 50)
		}
		b.Offsets = append(b.Offsets, len(b.Mask))
	}
	return narrow(b)
}

func BenchmarkEval(b *testing.B) {
	batch := benchBatch()
	for name, p := range everyPolicy() {
		b.Run(name, func(b *testing.B) {
			var r Result
			if err := Eval(&r, p, Aggregation{}, batch); err != nil { // sizes the result
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := Eval(&r, p, Aggregation{}, batch); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(batch.Mask))*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mtokens/s")
		})
	}
}

func BenchmarkEvalActor(b *testing.B) {
	batch := benchBatch()
	actor := Actor{Policy: LitePPO(), KL: K3, KLCoef: 0.001, EntropyCoef: 0.001}
	var r ActorResult
	if err := EvalActor(&r, actor, batch); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := EvalActor(&r, actor, batch); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCorrect(b *testing.B) {
	batch := benchBatch()
	cb := &CorrectionBatch[float32]{Offsets: batch.Offsets, Mask: batch.Mask, Trainer: batch.LogProb, Rollout: batch.OldLogProb}
	c := DefaultCorrection()
	c.Reject = []Rejection{{Over: SeqMean, Divergence: 3, Upper: 0.1}}
	var r Corrected
	if err := Correct(&r, c, cb); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := Correct(&r, c, cb); err != nil {
			b.Fatal(err)
		}
	}
}
