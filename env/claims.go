package env

import (
	"fmt"
	"math"

	"vagen/reward"
)

// claimMetrics names the turn metric of a claim about each section.
var claimMetrics = map[string]string{
	reward.SectionObservation: "grounding_reward",
	reward.SectionPrediction:  "worldmodeling_reward",
}

// ClaimMetric returns the name of the turn metric that holds the judged reward of
// a section: grounding_reward for the observation, worldmodeling_reward for the
// prediction, else the section's name with _reward.
func ClaimMetric(section string) string {
	if name, ok := claimMetrics[section]; ok {
		return name
	}
	return section + "_reward"
}

// PayClaims adds the judged rewards of a turn: for each of its claims, the score
// times the claim's weight as a reward part named after the section and as a turn
// metric. Scores are one per claim, finite, in order. A claim with the
// score NaN was not judged and is not paid: no score is not a score of zero.
func (o *Outcome) PayClaims(scores []float64) error {
	if len(scores) != len(o.Claims) {
		return fmt.Errorf("env: %d scores for %d claims", len(scores), len(o.Claims))
	}
	for i, s := range scores {
		if math.IsInf(s, 0) {
			return fmt.Errorf("env: the score of claim %d is %v, it must be finite", i, s)
		}
	}
	for i, s := range scores {
		if math.IsNaN(s) {
			continue
		}
		c := o.Claims[i]
		value := s * c.Weight
		o.Reward = append(o.Reward, reward.Part{Name: c.Section, Value: value})
		if o.Turn == nil {
			o.Turn = make(Metrics)
		}
		o.Turn[ClaimMetric(c.Section)] = value
	}
	return nil
}
