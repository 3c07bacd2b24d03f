package env

import (
	"context"
	"fmt"
	"math"
	"slices"

	"vagen/reward"
)

// Judge says how true claims about the state are.
type Judge interface {
	// Score returns one score per claim of a turn, in order: 1 for a claim that is
	// perfectly true, and NaN where it cannot tell. Its error means that it can
	// tell nothing at the moment. It is safe for concurrent use.
	Score(ctx context.Context, claims []reward.Claim) ([]float64, error)
}

// MetricUnjudged is the turn metric that counts claims without a score, on turns
// that have some.
const MetricUnjudged = "unjudged_claims"

// Judged is an environment whose claims a judge prices and pays, see
// Outcome.PayClaims. Claims that earn nothing, of the weight 0, are dropped. A
// judge that fails costs the reward of the claims and nothing else: the turn
// stands, and MetricUnjudged counts them.
type Judged struct {
	Env
	Judge Judge
}

// Step implements Env.
func (j Judged) Step(ctx context.Context, response string) (Outcome, error) {
	out, err := j.Env.Step(ctx, response)
	if err != nil {
		return out, err
	}
	out.Claims = slices.DeleteFunc(out.Claims, func(c reward.Claim) bool { return c.Weight == 0 })
	if len(out.Claims) == 0 {
		return out, nil
	}
	scores, err := j.Judge.Score(ctx, out.Claims)
	if ctx.Err() != nil {
		return Outcome{}, fmt.Errorf("env: judge: %w", context.Cause(ctx))
	}
	if err != nil || len(scores) != len(out.Claims) {
		scores = make([]float64, len(out.Claims))
		for i := range scores {
			scores[i] = math.NaN()
		}
	}
	unjudged := 0
	for i, s := range scores {
		if math.IsNaN(s) || math.IsInf(s, 0) {
			scores[i] = math.NaN()
			unjudged++
		}
	}
	if err := out.PayClaims(scores); err != nil {
		return Outcome{}, err
	}
	if unjudged > 0 {
		if out.Turn == nil {
			out.Turn = make(Metrics)
		}
		out.Turn[MetricUnjudged] = float64(unjudged)
	}
	return out, nil
}

// Unwrap returns the environment without its judge.
func (j Judged) Unwrap() Env { return j.Env }

// Claimant is implemented by environments that may attach claims to outcomes.
type Claimant interface {
	// Claiming reports whether this one does.
	Claiming() bool
}
