package engines

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"sync"

	"vagen/policy"
	"vagen/policy/engine"
	"vagen/policy/loss"
	"vagen/train/config"
)

// taught is a learner with the log-probs of a reference policy from servers.
type taught struct {
	policy.Learner
	fleet *engine.Fleet
}

var (
	_ policy.Unwrapper       = (*taught)(nil)
	_ policy.MetricsReporter = (*taught)(nil)
	_ policy.ScoreChecker    = (*taught)(nil)
)

// Unwrap implements policy.Unwrapper.
func (t *taught) Unwrap() policy.Policy { return t.Learner }

// Score implements policy.Learner: the servers and the model score at the same time.
func (t *taught) Score(
	ctx context.Context, rows *policy.Rows, want []bool, what policy.ScoreRequest, temperature float64,
) (*policy.Scores, error) {
	own := what
	own.Reference, own.Choice = false, loss.Choice{}
	switch by := what.Choice.By; {
	case own == what:
		return t.Learner.Score(ctx, rows, want, what, temperature)
	case by != "" && by != loss.ByTeacher:
		return nil, fmt.Errorf("%s: the compared tokens are chosen by %q, must be the teacher's likeliest ones",
			config.RefEngineKey, by)
	case temperature != 1:
		return nil, fmt.Errorf("%s: the temperature is %v, but servers score at temperature 1", config.RefEngineKey,
			temperature)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out, theirs := &policy.Scores{}, &policy.Scores{}
	var servers sync.WaitGroup
	servers.Go(func() {
		var err error
		if theirs, err = t.fleet.Score(ctx, rows, want, what.Choice.K); err != nil {
			cancel(fmt.Errorf("%s: %w", config.RefEngineKey, err))
		}
	})
	if own != (policy.ScoreRequest{}) {
		var err error
		if out, err = t.Learner.Score(ctx, rows, want, own, temperature); err != nil {
			cancel(err)
		}
	}
	servers.Wait()
	if err := context.Cause(ctx); err != nil { // the first one, which ends the other call
		return nil, err
	}
	if what.Reference {
		out.Reference = theirs.Reference
	}
	out.Chosen, out.Teacher = theirs.Chosen, theirs.Teacher
	return out, nil
}

// CheckScore implements policy.ScoreChecker: the servers' model has the policy's tokens.
func (t *taught) CheckScore(what policy.ScoreRequest) error {
	l, ok := policy.As[policy.ScoreChecker](t.Learner)
	if !ok {
		return nil
	}
	if what.Reference = false; what.Choice.By == loss.ByTeacher {
		what.Choice.By = loss.ByItself
	}
	return l.CheckScore(what)
}

// Gauges implements policy.MetricsReporter: those of the learner, and of the servers under names with teacher.
func (t *taught) Gauges() map[string]float64 {
	out := map[string]float64{}
	if r, ok := policy.As[policy.MetricsReporter](t.Learner); ok {
		maps.Copy(out, r.Gauges())
	}
	for name, x := range t.fleet.Gauges() {
		switch own := strings.TrimPrefix(name, "engine_"); own {
		case "servers", "requests", "failures", "retries", "ejections":
			out["teacher_"+own] = x
		}
	}
	return out
}

// Close closes the connections and the learner.
func (t *taught) Close() error {
	errs := []error{t.fleet.Close()}
	if c, ok := policy.As[io.Closer](t.Learner); ok {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}
