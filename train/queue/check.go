package queue

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"vagen/env"
	"vagen/internal/floats"
	"vagen/policy"
	"vagen/rollout"
)

// RowCheck checks tokens and images of a training row, of a result that a worker sent.
type RowCheck func(tokens []int32, images []policy.Image) error

// ends are the reasons why an episode of a worker may have ended.
var ends = []rollout.End{
	rollout.EndDone, rollout.EndMaxTurns, rollout.EndNoRoom, rollout.EndSetup, rollout.EndEnv, rollout.EndLost,
	rollout.EndHang, rollout.EndContract, rollout.EndReward,
	rollout.EndEmpty, rollout.EndVision, rollout.EndPolicy, rollout.EndSlow, rollout.EndBudget, rollout.EndNoProgress,
	rollout.EndHarness,
}

// checkResult returns an error unless a trajectory can be the result of an episode.
func checkResult(t *rollout.Trajectory, e *rollout.Episode, check RowCheck) error {
	switch {
	case t.Env != e.Env || t.Seed != e.Seed || t.Group != e.Group || t.Index != e.Index || t.MaxTurns != e.MaxTurns:
		return fmt.Errorf("it is of %s, seed %d, group %d, index %d, at most %d turns, the task of %s, %d, %d, %d, %d",
			t.Env, t.Seed, t.Group, t.Index, t.MaxTurns, e.Env, e.Seed, e.Group, e.Index, e.MaxTurns)
	case !slices.Contains(ends, t.End):
		return fmt.Errorf("its end is %q, must be one of %q", t.End, ends)
	case t.Attempt < 0 || t.Attempt > maxAttempts:
		return fmt.Errorf("its attempt is %d, must be in [0, %d]", t.Attempt, maxAttempts)
	case len(t.Turns) > e.MaxTurns:
		return fmt.Errorf("it has %d turns, at most %d are allowed", len(t.Turns), e.MaxTurns)
	case t.End.Usable() && len(t.Turns) == 0:
		return fmt.Errorf("it ended with %s but has no turns", t.End)
	case t.End.Usable() != (t.Err == nil):
		return fmt.Errorf("it ended with %s and the error %v: unusable episodes have one, others none", t.End, t.Err)
	}
	if err := finite(t.Metrics); err != nil {
		return err
	}
	turns := make([]int, len(t.Rows))
	for k := range t.Turns {
		turn := &t.Turns[k]
		if turn.Row >= len(t.Rows) && !(turn.Row == 0 && len(t.Rows) == 0) || turn.Row < 0 {
			return fmt.Errorf("turn %d is of row %d, it has %d rows", k, turn.Row, len(t.Rows))
		}
		if len(t.Rows) > 0 {
			turns[turn.Row]++
		}
		for _, p := range turn.Reward {
			if !floats.Finite(p.Value) {
				return fmt.Errorf("turn %d: reward %q is %v, must be finite", k, p.Name, p.Value)
			}
		}
		if sum := turn.Reward.Sum(); !floats.Finite(float64(float32(sum))) {
			return fmt.Errorf("turn %d: its reward is %v, must fit a float32", k, sum)
		}
		if err := finite(turn.Metrics); err != nil {
			return fmt.Errorf("turn %d: %w", k, err)
		}
	}
	for i := range t.Rows {
		if err := checkRow(&t.Rows[i], turns[i], t.End.Usable(), check); err != nil {
			return fmt.Errorf("row %d: %w", i, err)
		}
	}
	return nil
}

// checkRow checks a row with a number of turns.
func checkRow(r *rollout.Row, turns int, usable bool, check RowCheck) error {
	responses := r.Turns()
	if r.EndsWithSummary() {
		responses--
	}
	if usable && r.Len() > 0 && responses != turns {
		return fmt.Errorf("it has %d responses for %d turns", responses, turns)
	}
	if len(r.LogProbs) != r.Len() {
		return fmt.Errorf("it has %d log-probs for %d tokens", len(r.LogProbs), r.Len())
	}
	for i, x := range r.LogProbs {
		if !floats.Finite(float64(x)) {
			return fmt.Errorf("log-prob %d is %v, must be finite", i, x)
		}
	}
	for i, id := range r.Tokens() {
		if id < 0 {
			return fmt.Errorf("token %d is %d, must not be negative", i, id)
		}
	}
	for i, im := range r.Images {
		// The colours of transparent pixels may be rounded on the way.
		opaque, ok := im.Image.(interface{ Opaque() bool })
		if ok && opaque.Opaque() && im.Hash != ([32]byte{}) && policy.HashImage(im.Image) != im.Hash {
			return fmt.Errorf("image %d has another hash than its pixels", i)
		}
	}
	if check == nil || !usable {
		return nil
	}
	return safely(func() error { return check(r.Tokens(), r.Images) })
}

// safely converts a panic to an error.
func safely(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errors.Join(err, fmt.Errorf("panic: %v", r))
		}
	}()
	return f()
}

func finite(m env.Metrics) error {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if !floats.Finite(m[name]) {
			return fmt.Errorf("metric %q is %v, must be finite", name, m[name])
		}
	}
	return nil
}
