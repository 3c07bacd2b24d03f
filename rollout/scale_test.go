package rollout_test

import (
	"bytes"
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/internal/testkit"
	"vagen/policy"
	"vagen/rollout"
)

// six episodes of three turns, each with its own level.
func six() (eps []rollout.Episode) {
	for i := range 6 {
		eps = append(eps, rollout.Episode{Env: "fake", Seed: int64(i), Group: i / 2, Index: i % 2,
			Config: map[string]any{"turns": 3, "level": i}})
	}
	return eps
}

// retry is a Retry without delays.
func retry(end rollout.End, times int) rollout.Retry {
	return rollout.Retry{Times: map[rollout.End]int{end: times}}
}

// TestFailedEpisodesArePlayedAgain: an environment fails in its first attempts. The
// episode is played again from its start, as often as Retry.Times allows for its End.
// If it still fails, it says how. The other episodes are not affected.
func TestFailedEpisodesArePlayedAgain(t *testing.T) {
	const bad = 3
	for name, f := range faults {
		for _, c := range []struct{ fail, allow int }{{0, 2}, {1, 2}, {2, 2}, {3, 2}, {1, 0}} {
			synctest.Test(t, func(t *testing.T) {
				w := &world{}
				want := play(t, w, player(t, w, &parrot{}), six())
				var failed atomic.Int64
				w = &world{fault: func(ctx context.Context, seed int64, method string, turn int, o *env.Outcome) error {
					if seed == bad && method == f.method && turn == f.turn && failed.Add(1) <= int64(c.fail) {
						return f.fault(ctx, o)
					}
					return nil
				}}
				q := &parrot{}
				p := player(t, w, q)
				p.EnvTimeout, p.Waves, p.Retry = 3*time.Second, 2, retry(f.end, c.allow)
				got := finished(t, p, six())
				require.Empty(t, q.wrong)
				synctest.Wait() // an environment that was left behind is closed when it comes back
				require.Equal(t, w.made.Load(), w.closed.Load())
				require.Zero(t, w.overlaps.Load())
				for key := range q.wrote {
					require.True(t, q.gone[key])
				}
				for i := range want {
					if i != bad {
						require.Equal(t, want[i], got[i], "%s: episode %d", name, i)
					}
				}
				tr := got[bad]
				require.Equal(t, min(c.fail, c.allow), tr.Attempt, name)
				require.Equal(t, c.fail <= c.allow, tr.End.Usable(), "%s: %v", name, tr.Err)
				require.Equal(t, min(c.fail, c.allow), rollout.Count(got).Retried)
				if tr.End.Usable() {
					require.Len(t, tr.Turns, 3)
					require.Len(t, tr.Rows, 1)
				} else {
					require.Equal(t, f.end, tr.End, "%s: %v", name, tr.Err)
					testkit.Error(t, tr.Err, f.wraps, f.says)
					turns := 0
					if f.method == "step" {
						turns = f.turn + 1
					}
					require.Len(t, tr.Turns, turns, name)
				}
			})
		}
	}
}

// TestAttemptsSampleAnew: the second attempt samples independently of the first, and
// its samples are the same in every run.
func TestAttemptsSampleAnew(t *testing.T) {
	run := func(workers int) *rollout.Trajectory {
		var failed atomic.Bool
		w := &world{fault: func(_ context.Context, seed int64, method string, turn int, _ *env.Outcome) error {
			if seed == 2 && method == "step" && turn == 2 && failed.CompareAndSwap(false, true) {
				return errBroken
			}
			return nil
		}}
		p := player(t, w, &parrot{})
		p.Workers, p.Retry = workers, retry(rollout.EndEnv, 1)
		ts := finished(t, p, six())
		return ts[2]
	}
	w := &world{}
	plain := play(t, w, player(t, w, &parrot{}), six())[2]
	again := run(1)
	require.Equal(t, 1, again.Attempt)
	require.NotEqual(t, responses([]*rollout.Trajectory{plain}), responses([]*rollout.Trajectory{again}))
	require.Equal(t, again, run(5))
}

// TestRetriesWait adds up the delays of two retries: 1 s and 2 s, without jitter.
func TestRetriesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{fault: func(_ context.Context, seed int64, method string, _ int, _ *env.Outcome) error {
			if seed == 1 && method == "reset" {
				return errBroken
			}
			return nil
		}}
		p := player(t, w, &parrot{})
		p.Retry = retry(rollout.EndSetup, 2)
		p.Retry.Backoff = rollout.Backoff{Min: time.Second, Max: time.Minute, Multiplier: 2}
		begin := time.Now()
		ts := finished(t, p, six())
		require.Equal(t, 3*time.Second, time.Since(begin))
		require.Equal(t, 2, ts[1].Attempt)

		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		begin = time.Now()
		_, _, err := p.Play(ctx, six(), 7)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 1500*time.Millisecond, time.Since(begin), "a cancelled run does not wait")
	})
}

func TestBadRetriesAreRefused(t *testing.T) {
	for says, r := range map[string]rollout.Retry{
		`Times of "env_error" is -1`:     retry(rollout.EndEnv, -1),
		`Times has "done", only`:         retry(rollout.EndDone, 1),
		"Min 1s, Max 0s":                 {Backoff: rollout.Backoff{Min: time.Second}},
		"Multiplier 0.5":                 {Backoff: rollout.Backoff{Min: 1, Max: 2, Multiplier: 0.5}},
		"want 0 ≤ Min ≤ Max, Multiplier": {Backoff: rollout.Backoff{Jitter: -1}},
	} {
		w := &world{}
		p := player(t, w, &parrot{})
		p.Retry = r
		_, _, err := p.Play(t.Context(), six(), 7)
		require.ErrorContains(t, err, says)
	}
	w := &world{}
	p := player(t, w, &parrot{})
	p.Retry = rollout.DefaultRetry()
	play(t, w, p, six())
}

// TestSlowEnvironmentsDoNotDelayTheBatch: one environment needs an hour for a step.
// With Patience the others end long before, and all responses are the same.
func TestSlowEnvironmentsDoNotDelayTheBatch(t *testing.T) {
	for _, waves := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			w := &world{}
			want := play(t, w, player(t, w, &parrot{}), six())
			begin := time.Now()
			var late atomic.Int64 // steps of others than the straggler after ten seconds
			w = &world{
				delay: func(seed int64, method string) time.Duration {
					if seed == 4 && method == "step" {
						return time.Hour
					}
					return 0
				},
				fault: func(_ context.Context, seed int64, method string, turn int, _ *env.Outcome) error {
					if seed != 4 && method == "step" && time.Since(begin) > 10*time.Second {
						late.Add(1)
					}
					return nil
				},
			}
			p := player(t, w, &parrot{})
			p.Patience, p.EnvTimeout, p.Waves = time.Second, 2*time.Hour, waves
			got := play(t, w, p, six())
			require.Equal(t, want, got)
			require.Zero(t, late.Load())
			require.Equal(t, 3*time.Hour, time.Since(begin).Round(time.Minute), "its three steps")
		})
	}
}

// TestTheTimeOfAnEpisodeIsLimited: an environment that needs two seconds for a call
// has time for the reset and one step in five seconds.
func TestTheTimeOfAnEpisodeIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{delay: func(seed int64, method string) time.Duration {
			if seed == 1 && (method == "reset" || method == "step") {
				return 2 * time.Second
			}
			return 0
		}}
		p := player(t, w, &parrot{})
		p.EpisodeTimeout = 5 * time.Second
		begin := time.Now()
		ts := settled(t, w, p, six())
		require.Equal(t, 5*time.Second, time.Since(begin))
		for i, tr := range ts {
			if i != 1 {
				require.True(t, tr.End.Usable())
				continue
			}
			require.Equal(t, rollout.EndSlow, tr.End)
			require.ErrorIs(t, tr.Err, rollout.ErrEpisodeTimeout)
			require.Len(t, tr.Turns, 2)
		}
		p = player(t, w, &parrot{})
		p.EpisodeTimeout = 4 * time.Second // is over when the second step begins
		ts = settled(t, w, p, six())
		require.Equal(t, rollout.EndSlow, ts[1].End)
	})
}

// TestBatchesAreFilled plays groups of two, of which every third fails, until four
// groups are usable.
func TestBatchesAreFilled(t *testing.T) {
	for _, c := range []struct{ extra, most, limit, groups, played int }{
		{0, 0, 99, 4, 5}, // four of which one fails, and one more
		{2, 0, 99, 4, 6}, // six at once
		{0, 4, 99, 3, 4}, // no more than 4
		{0, 0, 5, 4, 5},  // five groups are all there are
		{0, 0, 3, 2, 3},  // too few
	} {
		var want []*rollout.Trajectory
		for _, workers := range []int{1, 4} {
			w := &world{fault: func(_ context.Context, seed int64, method string, turn int, _ *env.Outcome) error {
				if seed%3 == 2 && method == "step" && turn == 1 {
					return errBroken
				}
				return nil
			}}
			var log bytes.Buffer
			p := player(t, w, &parrot{})
			p.Workers, p.Log = workers, slog.New(slog.NewTextHandler(&log, nil))
			f := rollout.FillOptions{Groups: 4, Extra: c.extra, Most: c.most, Episodes: func(g int) []rollout.Episode {
				if g >= c.limit {
					return nil
				}
				return []rollout.Episode{{Env: "fake", Seed: int64(g)}, {Env: "fake", Seed: int64(g), Index: 1}}
			}}
			got, all, _, err := p.Fill(t.Context(), f, 7)
			require.NoError(t, err)
			require.Len(t, got, 2*c.groups, "%+v", c)
			var groups []int
			for i, tr := range got {
				require.True(t, tr.End.Usable())
				require.Equal(t, i%2, tr.Index)
				require.NotEqual(t, int64(2), tr.Seed%3)
				if i%2 == 0 {
					groups = append(groups, tr.Group)
				}
			}
			require.Equal(t, []int{0, 1, 3, 4}[:c.groups], groups, "the first that can be used, in order")
			require.Equal(t, 2*c.played, all.Episodes, "%+v", c)
			if want == nil {
				want = got
			}
			require.Equal(t, want, got)
		}
	}
}

// TestGroupsAreKeptByTheCaller keeps groups whose episodes do not all end the same way.
func TestGroupsAreKeptByTheCaller(t *testing.T) {
	w := &world{}
	p := player(t, w, &parrot{})
	f := rollout.FillOptions{
		Groups: 3, Most: 40,
		Episodes: func(g int) []rollout.Episode {
			return []rollout.Episode{{Env: "fake", Seed: int64(g)}, {Env: "fake", Seed: int64(g), Index: 1}}
		},
		Keep: func(group []*rollout.Trajectory) bool { return group[0].Return() != group[1].Return() },
	}
	got, _, _, err := p.Fill(t.Context(), f, 7)
	require.NoError(t, err)
	require.Len(t, got, 6)
	for i := 0; i < len(got); i += 2 {
		require.Equal(t, got[i].Group, got[i+1].Group)
		require.NotEqual(t, got[i].Return(), got[i+1].Return())
	}
	for _, bad := range []rollout.FillOptions{{}, {Groups: 1}, {Groups: 1, Extra: -1, Episodes: f.Episodes},
		{Groups: 1, Most: -1, Episodes: f.Episodes}} {
		_, _, _, err := p.Fill(t.Context(), bad, 7)
		require.ErrorContains(t, err, "FillOptions")
	}
	p.Policy = &parrot{alter: func(context.Context, policy.Prompt, int, *policy.Completion) error { return errBroken }}
	_, _, _, err = p.Fill(t.Context(), f, 7)
	require.ErrorIs(t, err, errBroken)
}
