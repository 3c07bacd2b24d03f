package loss

import (
	"maps"
	"slices"
	"testing"
	"time"

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

// BenchmarkBeside alternates between each loss and a pass over the columns that all losses read and write, and
// reports the shortest time of each and their quotient: other load slows down both alike.
func BenchmarkBeside(b *testing.B) {
	var pass []float64
	touch := func(batch *Batch[float32]) {
		pass = zeros(pass, len(batch.Mask))
		for i, m := range batch.Mask {
			if m {
				d := float64(batch.LogProb[i]) - float64(batch.OldLogProb[i])
				pass[i] = d * float64(batch.Advantage[i]) * float64(batch.Weight[i])
			}
		}
	}
	all, compared := everyPolicy(), benchBatch()
	plain := *compared
	plain.Chosen, plain.Teacher = nil, nil
	for _, name := range slices.Sorted(maps.Keys(all)) {
		p, batch := all[name], &plain
		if ChoiceOf(p) != (Choice{}) {
			batch = compared
		}
		b.Run(name, func(b *testing.B) {
			var r Result
			best := [2]time.Duration{time.Hour, time.Hour}
			for b.Loop() {
				start := time.Now()
				touch(batch)
				middle := time.Now()
				if err := Eval(&r, p, Aggregation{}, batch); err != nil {
					b.Fatal(err)
				}
				best[0] = min(best[0], middle.Sub(start))
				best[1] = min(best[1], time.Since(middle))
			}
			b.ReportMetric(float64(best[0]), "pass-ns")
			b.ReportMetric(float64(best[1]), "loss-ns")
			b.ReportMetric(float64(best[1])/float64(best[0]), "passes")
		})
	}
}
