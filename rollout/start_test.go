package rollout_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/internal/testkit"
	"vagen/policy"
	"vagen/rollout"
)

func distinct(ts []*rollout.Trajectory) map[string]bool {
	out := map[string]bool{}
	for _, t := range ts {
		text := ""
		for _, turn := range t.Turns {
			text += turn.Response + " "
		}
		out[text] = true
	}
	return out
}

func TestRepeatedEpisodesGetTheirPositionsAsIndices(t *testing.T) {
	same := func(n int) []rollout.Episode {
		out := make([]rollout.Episode, n)
		for i := range out {
			out[i] = rollout.Episode{Env: "fake", Seed: 3, Config: map[string]any{"turns": 2}}
		}
		return out
	}
	w := &world{}
	given := same(20)
	ts := play(t, w, player(t, w, &parrot{}), given)
	require.Greater(t, len(distinct(ts)), 15, "they are sampled independently")
	for i := range ts {
		require.Equal(t, i, ts[i].Index)
		require.Zero(t, given[i].Index, "the caller's are not changed")
	}
	kept, _, _, err := player(t, w, &parrot{}).Fill(t.Context(), rollout.FillOptions{
		Groups: 2, Episodes: func(int) []rollout.Episode { return same(3) },
	}, 7)
	require.NoError(t, err)
	require.Len(t, distinct(kept), 6)

	for want, eps := range map[string][]rollout.Episode{
		"rollout: episodes 0 and 2 have the same Group 1 and Index 0": {{Group: 1}, {}, {Group: 1}},
		"rollout: episodes 0 and 1 have the same Group 0 and Index 0": {{}, {}, {Index: 1}},
	} {
		_, _, err := player(t, w, &parrot{}).Play(t.Context(), eps, 7)
		require.ErrorContains(t, err, want)
	}
}

func TestABatchWithoutAnyEnvironmentIsAnError(t *testing.T) {
	w := &world{}
	p := player(t, w, &parrot{})
	p.Retry = retry(rollout.EndSetup, 5)
	typo := rollout.Episode{Env: "fike"}
	ts, _, err := p.Play(t.Context(), []rollout.Episode{typo, typo}, 7)
	require.ErrorIs(t, err, rollout.ErrNotStarted)
	testkit.Error(t, err, env.ErrUnknown,
		"rollout: no episode could be started: setup_error 2; the first: rollout: reset of fike")
	require.Len(t, ts, 2)
	ts, _, err = p.Play(t.Context(), []rollout.Episode{typo, {Env: "fake"}}, 7)
	require.NoError(t, err, "an episode was played")
	require.Equal(t, rollout.EndSetup, ts[0].End)
	require.ErrorContains(t, ts[0].Err, `did you mean "fake"`)
	require.Zero(t, ts[0].Attempt, "another attempt would not find it")
	require.Equal(t, rollout.EndMaxTurns, ts[1].End)
	f := rollout.FillOptions{Groups: 1, Episodes: func(g int) []rollout.Episode { return []rollout.Episode{typo} }}
	_, all, _, err := p.Fill(t.Context(), f, 7)
	require.ErrorIs(t, err, rollout.ErrNotStarted)
	require.Equal(t, 4, all.Episodes)
	f.Episodes = func(g int) []rollout.Episode { return []rollout.Episode{{Env: []string{"fike", "fake"}[g%2]}} }
	kept, _, _, err := p.Fill(t.Context(), f, 7)
	require.NoError(t, err, "the second group could be started")
	require.Len(t, kept, 1)
	ts = finished(t, p, nil)
	require.Empty(t, ts)
}

func TestTryGetsOneResponseAndPlaysNoTurn(t *testing.T) {
	w := &world{}
	w.fault = func(_ context.Context, _ int64, method string, _ int, _ *env.Outcome) error {
		require.NotEqual(t, "step", method)
		return nil
	}
	q := &parrot{}
	require.NoError(t, player(t, w, q).Try(t.Context(), rollout.Episode{Env: "fake"}, 7))
	require.Len(t, q.batches, 1)
	require.Len(t, q.gone, 1)
	require.Equal(t, []int64{1, 1}, []int64{w.made.Load(), w.closed.Load()})
	require.ErrorIs(t, player(t, w, q).Try(t.Context(), rollout.Episode{Env: "fike"}, 7), env.ErrUnknown)
	p := player(t, w, q)
	p.Policy = nothing{}
	err := p.Try(t.Context(), rollout.Episode{Env: "fake"}, 7)
	require.ErrorContains(t, err, "the policy returned 0 completions for 1 prompts")
}

// nothing is a policy that returns nothing.
type nothing struct{}

func (nothing) Generate(context.Context, []policy.Prompt, policy.Sampling) ([]policy.Completion, error) {
	return nil, nil
}
func (nothing) Forget(...uint64) {}

// TestEpisodesFollowEachOther until Next has none left, each like the same episode in a batch of its own.
func TestEpisodesFollowEachOther(t *testing.T) {
	w := &world{}
	episode := func(i int) rollout.Episode {
		return rollout.Episode{Env: "fake", Seed: int64(i), Index: i, Config: map[string]any{"turns": 1 + i%3}}
	}
	p := player(t, w, &parrot{})
	var got []*rollout.Trajectory
	next := 2
	p.Next = func(tr *rollout.Trajectory) (rollout.Episode, bool) {
		got = append(got, tr)
		next++
		return episode(next), next <= 9
	}
	last := finished(t, p, []rollout.Episode{episode(1), episode(2)})
	require.Len(t, got, 9)
	require.ElementsMatch(t, last, got[7:])
	for _, tr := range got {
		alone := finished(t, player(t, w, &parrot{}), []rollout.Episode{tr.Episode})
		require.Equal(t, rollout.EndDone, tr.End)
		require.Equal(t, alone[0], tr)
	}
}
