package train

import (
	"math"
	"slices"

	"vagen/internal/floats"
	"vagen/reward"
	"vagen/train/track"
)

// TrendState is what the metrics trend/… compare a step with.
type TrendState struct {
	// First has, by metric, the sum and the number of its first values.
	First map[string][2]float64 `json:"first,omitempty"`
	// Paid and Success are the state rewards and the success of the last steps, oldest first.
	Paid    []float64 `json:"paid,omitempty"`
	Success []float64 `json:"success,omitempty"`
}

const (
	// trendFirst is how many steps define a metric's initial level.
	trendFirst = 10
	// trendWindow is the number of steps of each of the two windows that are compared.
	trendWindow = 20
)

// addTrends writes the metrics that compare a step with those before it:
//
//	trend/response_length   response_length/mean / its mean over the first 10 steps
//	trend/grad_norm         the same of actor/grad_norm
//	trend/state_without_success
//
// The last one compares the last 20 steps with the 20 before them. It is the smaller of two
// numbers, the relative rise of the state rewards and the fall of the success rate, and at
// least 0: above 0 statements are paid more while the task is solved less.
func (s *TrendState) addTrends(m track.Metrics) {
	for _, of := range []struct{ name, metric string }{{"trend/response_length", "response_length/mean"},
		{"trend/grad_norm", "actor/grad_norm"}} {
		x, ok := m[of.metric]
		if !ok || !floats.Finite(x) {
			continue
		}
		first := s.First[of.metric]
		if first[1] < trendFirst {
			if s.First == nil {
				s.First = map[string][2]float64{}
			}
			s.First[of.metric] = [2]float64{first[0] + x, first[1] + 1}
		} else if first[0] > 0 {
			m[of.name] = x * first[1] / first[0]
		}
	}
	paid, success := 0.0, m["train/success"]
	given := false
	for _, section := range []string{reward.SectionObservation, reward.SectionPrediction} {
		x, ok := m["train/reward/"+section]
		paid, given = paid+x, given || ok
	}
	if !given {
		return
	}
	s.Paid, s.Success = append(s.Paid, paid), append(s.Success, success)
	if n := len(s.Paid) - 2*trendWindow; n >= 0 {
		mean := func(x []float64) float64 { return floats.MomentsOf(x).Mean }
		s.Paid, s.Success = slices.Clone(s.Paid[n:]), slices.Clone(s.Success[n:])
		before, now := mean(s.Paid[:trendWindow]), mean(s.Paid[trendWindow:])
		fall := mean(s.Success[:trendWindow]) - mean(s.Success[trendWindow:])
		rise := 0.0
		if now > before {
			rise = (now - before) / max(math.Abs(before), 1e-9)
		}
		m["trend/state_without_success"] = max(0, min(rise, fall))
	}
}
