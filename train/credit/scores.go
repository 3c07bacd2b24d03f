package credit

import "fmt"

// Scores are the numbers that a run recorded of the tokens of one row.
type Scores struct {
	Group, Index, Row                                                     int
	OldLogProbs, Reference, Values, Entropy, Rewards, Advantages, Returns []float32
	Loss, Value                                                           []bool
}

// fits checks the lengths of what an estimator needs.
func (s *Scores) fits(tokens int, values bool) error {
	if len(s.Rewards) != tokens || len(s.Loss) != tokens {
		return fmt.Errorf("%w: %d rewards and %d marks of the loss were recorded for %d tokens", ErrUnavailable, len(s.Rewards), len(s.Loss), tokens)
	}
	if values && len(s.Values) != tokens {
		return fmt.Errorf("%w: it needs the critic's values, and %d were recorded for %d tokens", ErrUnavailable, len(s.Values), tokens)
	}
	return nil
}
