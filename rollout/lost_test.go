package rollout_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/rollout"
)

// TestScaledRewardsMustFit: a reward that is too large only after scaling costs its episode, too.
func TestScaledRewardsMustFit(t *testing.T) {
	w := &world{fault: func(ctx context.Context, _ int64, method string, _ int, o *env.Outcome) error {
		if method != "step" {
			return nil
		}
		return pay(1e34)(ctx, o)
	}}
	ts := finished(t, player(t, w, &parrot{}), []rollout.Episode{{Env: "fake",
		Config: map[string]any{"turns": 3}, RewardScale: 1e6}})
	require.Equal(t, rollout.EndContract, ts[0].End)
	require.ErrorContains(t, ts[0].Err, "turn 0 with the reward scale 1e+06")
	require.Empty(t, ts[0].Turns[0].Reward)
}

// An environment that ended with its host is a cause of its own, and is played again more often
// than one that failed.
func TestLostEnvironmentsAreCountedAndPlayedAgain(t *testing.T) {
	for _, c := range []struct {
		losses int
		err    error
		retry  rollout.Retry
		end    rollout.End
		played int
	}{
		{3, env.ErrLost, rollout.DefaultRetry(), rollout.EndDone, 4},
		{4, env.ErrLost, rollout.DefaultRetry(), rollout.EndLost, 4},
		{1, env.ErrLost, rollout.Retry{}, rollout.EndLost, 1},
		{2, errBroken, rollout.DefaultRetry(), rollout.EndEnv, 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			lost := 0
			w := &world{fault: func(_ context.Context, _ int64, method string, turn int, _ *env.Outcome) error {
				if method == "step" && turn == 1 && lost < c.losses {
					lost++
					return fmt.Errorf("on purpose: %w", c.err)
				}
				return nil
			}}
			p := player(t, w, &parrot{})
			p.Retry = c.retry
			eps := []rollout.Episode{{Env: "fake", Config: map[string]any{"turns": 3}, Seed: 5}}
			ts := finished(t, p, eps)
			require.Equal(t, c.end, ts[0].End)
			require.Equal(t, c.played-1, ts[0].Attempt)
			require.Equal(t, 1, rollout.Count(ts).ByEnd[c.end])
			require.EqualValues(t, c.played, w.made.Load())
		})
	}
}
