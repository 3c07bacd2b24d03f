package env

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"vagen/internal/floats"
	"vagen/reward"
)

// Judge scores the truth of claims about the state.
type Judge interface {
	// Score returns one score per claim of a turn, in order: 1 for a claim that is
	// perfectly true, and NaN for a claim that it cannot score. An error means that
	// it can score none of them. It is safe for concurrent use.
	Score(ctx context.Context, claims []reward.Claim) ([]float64, error)
}

// MetricUnjudged is the turn metric that counts claims without a score, on turns
// that have some.
const MetricUnjudged = "unjudged_claims"

// Judged is an environment whose claims are scored by a judge and paid, see
// Outcome.PayClaims. Claims with weight 0 are dropped. If the judge fails, the claims of
// the turn are not paid and MetricUnjudged counts them; the turn is otherwise valid.
type Judged struct {
	Env
	Judge Judge
}

var _ Env = Judged{}

// errNoEnv is the error of a Judged that judges no environment.
var errNoEnv = errors.New("env: Judged.Env is nil, must be an environment")

// System implements Env.
func (j Judged) System(ctx context.Context) (Observation, error) {
	if j.Env == nil {
		return Observation{}, errNoEnv
	}
	return j.Env.System(ctx)
}

// Reset implements Env.
func (j Judged) Reset(ctx context.Context, seed int64) (Observation, error) {
	if j.Env == nil {
		return Observation{}, errNoEnv
	}
	return j.Env.Reset(ctx, seed)
}

// Close implements Env.
func (j Judged) Close() error {
	if j.Env == nil {
		return nil
	}
	return j.Env.Close()
}

// Step implements Env.
func (j Judged) Step(ctx context.Context, response string) (Outcome, error) {
	if j.Env == nil {
		return Outcome{}, errNoEnv
	}
	out, err := j.Env.Step(ctx, response)
	if err != nil {
		return out, err
	}
	out.Claims = slices.DeleteFunc(out.Claims, func(c reward.Claim) bool { return c.Weight == 0 })
	if len(out.Claims) == 0 {
		return out, nil
	}
	if j.Judge == nil {
		return Outcome{}, errors.New("env: Judged.Judge is nil, must be a judge: the turn has claims")
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
		if !floats.Finite(s) {
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
