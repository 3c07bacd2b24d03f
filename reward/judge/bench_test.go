package judge

import (
	"context"
	"testing"

	"vagen/reward"
)

// BenchmarkRules reports how many turns of two claims are judged in a second.
func BenchmarkRules(b *testing.B) {
	truth := []reward.Relation{reward.Relate("target", 1, 2), reward.Relate("hole", 0, 1), reward.Relate("hole", -1, 1)}
	turn := []reward.Claim{
		{Env: "frozenlake", Section: reward.SectionObservation, Text: "The goal is below and to the right of me. The first hole is in the same row as me, to the right; the second hole is two rows up and one column to the right.", Truth: truth},
		{Env: "frozenlake", Section: reward.SectionPrediction, Text: "After the move the goal will be one row below me and the holes will be to my left.", Truth: truth},
	}
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		r := new(Rules)
		for p.Next() {
			if _, err := r.Score(context.Background(), turn); err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "turns/s")
}
