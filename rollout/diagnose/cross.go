package diagnose

import (
	"fmt"
	"math"

	"vagen/internal/floats"
)

// CrossScores are responses scored by the policy under every start state of the batch,
// not only under their own: one forward pass per pair.
type CrossScores struct {
	// LogProb holds ln p(response i | start state j) at i·Starts + j, summed
	// over the tokens of the response.
	LogProb []float64
	Starts  int   // start states, ≥ 2; all different
	Own     []int // per response: the start state that it answered
	Tokens  []int // per response: its tokens, ≥ 1; nil omits the per-token numbers
}

// MutualInformation measures how much the responses depend on the start state, by the
// policy's own probabilities. With ℓ_ij = ln p(response i | start j), N start states, all
// equally likely, and own(i) the start state of response i,
//
//	matched_i  = ℓ_i,own(i)
//	marginal_i = ln (1/N) Σ_j exp ℓ_ij
//
// it writes, as means over responses, in nats
//
//	mutual_information            matched − marginal: near 0 is template collapse, ln N is the maximum
//	mutual_information/share      the same divided by ln N
//	conditional_entropy           −matched: how varied responses are, given the start
//	marginal_entropy              −marginal
//	retrieval_accuracy            share of responses most likely under their own start; ties count as fractions
//	retrieval_accuracy/chance     1/N
//	mutual_information/per_token, conditional_entropy/per_token
//	                              with ℓ divided by the response's length first
//
// The estimate can be slightly negative when there is no dependence.
// RAGEN-2, arXiv:2604.06268.
func MutualInformation(dst map[string]float64, b *Batch) error {
	if err := b.check(); err != nil {
		return err
	}
	c := b.Cross
	if c == nil || len(c.Own) == 0 {
		return nil
	}
	if err := c.check(); err != nil {
		return err
	}
	n := float64(len(c.Own))
	var mi, matched, hits, miToken, matchedToken float64
	for i, own := range c.Own {
		l := c.LogProb[i*c.Starts : (i+1)*c.Starts]
		m, marginal := l[own], logMeanExp(l, 1)
		mi += (m - marginal) / n
		matched += m / n
		hits += retrieved(l, own) / n
		if c.Tokens != nil {
			t := float64(c.Tokens[i])
			miToken += (m/t - logMeanExp(l, t)) / n
			matchedToken += m / t / n
		}
	}
	dst["mutual_information"] = mi
	dst["mutual_information/share"] = mi / math.Log(float64(c.Starts))
	dst["conditional_entropy"] = -matched
	dst["marginal_entropy"] = mi - matched
	dst["retrieval_accuracy"] = hits
	dst["retrieval_accuracy/chance"] = 1 / float64(c.Starts)
	if c.Tokens != nil {
		dst["mutual_information/per_token"] = miToken
		dst["conditional_entropy/per_token"] = -matchedToken
	}
	return nil
}

// logMeanExp is ln of the mean of exp(l/scale).
func logMeanExp(l []float64, scale float64) float64 {
	top := math.Inf(-1)
	for _, v := range l {
		top = max(top, v/scale)
	}
	var sum float64
	for _, v := range l {
		sum += math.Exp(v/scale - top)
	}
	return top + math.Log(sum/float64(len(l)))
}

// retrieved is 1 if own is the largest, 1/k if k are equally large.
func retrieved(l []float64, own int) float64 {
	ties := 0
	for _, v := range l {
		if v > l[own] {
			return 0
		}
		if v == l[own] {
			ties++
		}
	}
	return 1 / float64(ties)
}

func (c *CrossScores) check() error {
	if c.Starts < 2 {
		return fmt.Errorf("diagnose: cross scores: %d start states, want 2 or more: %w", c.Starts, ErrSetting)
	}
	if len(c.LogProb) != len(c.Own)*c.Starts {
		return fmt.Errorf("diagnose: cross scores: %d log-probs for %d responses and %d start states: %w",
			len(c.LogProb), len(c.Own), c.Starts, ErrLength)
	}
	if c.Tokens != nil && len(c.Tokens) != len(c.Own) {
		return fmt.Errorf("diagnose: cross scores: %d lengths for %d responses: %w", len(c.Tokens), len(c.Own), ErrLength)
	}
	for i, own := range c.Own {
		if own < 0 || own >= c.Starts {
			return fmt.Errorf("diagnose: cross scores: response %d answers start state %d, want 0 to %d: %w", i, own, c.Starts-1,
				ErrSetting)
		}
		if c.Tokens != nil && c.Tokens[i] < 1 {
			return fmt.Errorf("diagnose: cross scores: response %d has %d tokens, want 1 or more: %w", i, c.Tokens[i],
				ErrSetting)
		}
	}
	for i, v := range c.LogProb {
		if !floats.Finite(v) {
			return fmt.Errorf("diagnose: cross scores: response %d, start state %d: %v: %w", i/c.Starts, i%c.Starts, v,
				ErrNotFinite)
		}
	}
	return nil
}
