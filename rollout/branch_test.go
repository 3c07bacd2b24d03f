package rollout_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/builtin"
	"vagen/mask"
	"vagen/policy"
	"vagen/rollout"
	"vagen/rollout/store"
)

// recorders are players of different harnesses and budgets, with the environments of this
// package's tests or the library's.
func recorders(t testing.TB, greedy bool) map[string]*rollout.Player {
	t.Helper()
	out := map[string]*rollout.Player{}
	for name, set := range map[string]func(*rollout.Player){
		"concat":    func(*rollout.Player) {},
		"budget":    func(p *rollout.Player) { p.Budget = rollout.Budget{Response: 70, Observation: 12} },
		"no_concat": func(p *rollout.Player) { p.Harness = rollout.NoConcat{} },
		"window":    func(p *rollout.Player) { p.Harness = rollout.Window{Size: 2} },
		"compact": func(p *rollout.Player) {
			p.Harness = rollout.Compact{Summary: 5, Request: "sum up", Heading: "so far: "}
			p.Budget = rollout.Budget{Response: 90}
		},
	} {
		p := &rollout.Player{Policy: &reader{greedy: greedy}, Envs: (&world{}).registry(t),
			Sampling: policy.Sampling{Temperature: 1, MaxTokens: 6}, MaxTurns: 7, Workers: 2}
		set(p)
		out[name] = p
	}
	return out
}

// record plays episodes of the fake environment, which has no snapshots.
func record(t testing.TB, p *rollout.Player) []*rollout.Trajectory {
	t.Helper()
	ts := finished(t, p, episodes(6))
	for _, tr := range ts {
		require.True(t, tr.End.Usable(), "%s: %v", tr.End, tr.Err)
	}
	return ts
}

// everyTurn lists a branch for each turn of the episodes.
func everyTurn(
	t testing.TB, ts []*rollout.Trajectory, given bool,
) (branches []rollout.Branch, want []*rollout.Trajectory) {
	t.Helper()
	for _, tr := range ts {
		for k := range tr.Turns {
			b := rollout.Branch{From: tr, Turn: k, Group: tr.Group, Index: tr.Index}
			if given {
				var err error
				b.Response, err = tr.Recorded(k)
				require.NoError(t, err)
			}
			branches, want = append(branches, b), append(want, tr)
		}
	}
	return branches, want
}

// TestContinuingWithTheRecordedKeysRepeatsTheEpisode: with the seed, Group and Index of the
// recorded episode every turn on is drawn as it was, whatever the turn and the harness.
func TestContinuingWithTheRecordedKeysRepeatsTheEpisode(t *testing.T) {
	for name, p := range recorders(t, false) {
		ts := record(t, p)
		for _, given := range []bool{false, true} {
			branches, want := everyTurn(t, ts, given)
			got := continued(t, p, 7, branches)
			requireSame(t, want, got, fmt.Sprint(name, " ", given))
		}
	}
}

// continued continues branches with a seed.
func continued(t testing.TB, p *rollout.Player, seed uint64, branches []rollout.Branch) []*rollout.Trajectory {
	t.Helper()
	ts, _, err := p.Continue(t.Context(), branches, seed)
	require.NoError(t, err)
	return ts
}

func requireSame(t testing.TB, want, got []*rollout.Trajectory, what string) {
	t.Helper()
	for _, tr := range got {
		require.NoError(t, tr.Err, what)
	}
	d, err := store.FirstDifference(want, got)
	require.NoError(t, err, what)
	require.Nil(t, d, what)
}

// TestAnotherResponseLeadsElsewhere: the given response is recorded as forced and is what
// the environment and the policy get.
func TestAnotherResponseLeadsElsewhere(t *testing.T) {
	p := recorders(t, true)["concat"]
	tr := record(t, p)[1]
	require.Greater(t, len(tr.Turns), 2)
	got := continued(t, p, 7, []rollout.Branch{
		{From: tr, Turn: 1, Response: &policy.Completion{Tokens: []int32{'n', 'o', endToken}, Text: "no",
			Stop: policy.StopEnd}, Group: 40, Index: 2},
	})
	require.Equal(t, 40, got[0].Group)
	require.Equal(t, tr.Turns[0], got[0].Turns[0])
	require.Equal(t, "no", got[0].Turns[1].Response)
	require.Equal(t, tr.Turns[1].Observation, got[0].Turns[1].Observation)
	require.NotEqual(t, tr.Turns[2].Response, got[0].Turns[2].Response, "the policy has read it")
	row := &got[0].Rows[0]
	start, end, _ := row.TurnAt(1)
	require.Equal(t, []int32{'n', 'o', endToken}, row.Tokens()[start:end])
	require.Equal(t, []bool{false, false, false}, row.Loss(nil, mask.Options{})[start:end])
}

// TestContinuationsDependOnTheirKeysAlone: neither workers, waves, the order of the batch
// nor the other branches change a continuation. Others keys do, and equal keys share what
// is drawn after the branch point.
func TestContinuationsDependOnTheirKeysAlone(t *testing.T) {
	p := recorders(t, false)["concat"]
	var branches []rollout.Branch
	for i, tr := range record(t, p) {
		for k := range tr.Turns {
			for n := range 3 {
				branches = append(branches, rollout.Branch{From: tr, Turn: k, Group: 100*i + k, Index: n})
			}
		}
	}
	want := continued(t, p, 5, branches)
	for _, q := range []struct{ workers, waves int }{{1, 1}, {8, 3}, {3, 5}} {
		p.Workers, p.Waves = q.workers, q.waves
		got := continued(t, p, 5, branches)
		requireSame(t, want, got, fmt.Sprint(q))
	}
	for i := len(branches) - 1; i > 0; i -= 7 {
		got := continued(t, p, 5, branches[i:i+1])
		requireSame(t, want[i:i+1], got, "alone")
	}
	differ := 0
	for i := range branches {
		if k := branches[i].Turn; want[i].Turns[k].Response != want[i-i%3].Turns[k].Response {
			differ++
		}
	}
	require.Greater(t, differ, len(branches)/2, "indices draw apart")
}

// TestPairsShareTheirDrawsAfterTheTurn: of two branches with equal Group and Index one is
// given its turn, and one draws it. As the response of the parrot depends on the seed
// alone, all responses after the turn are equal.
func TestPairsShareTheirDrawsAfterTheTurn(t *testing.T) {
	p := recorders(t, false)["concat"]
	tr := record(t, p)[1]
	p.Policy = &seeded{}
	pair := []rollout.Branch{
		{From: tr, Turn: 1, Group: 3, Index: 4},
		{From: tr, Turn: 1, Group: 3, Index: 4, Response: &policy.Completion{Tokens: []int32{'n', 'o', endToken}, Text: "no",
			Stop: policy.StopEnd}},
	}
	got := continued(t, p, 5, pair)
	require.Equal(t, len(got[0].Turns), len(got[1].Turns))
	require.Greater(t, len(got[0].Turns), 2)
	require.NotEqual(t, got[0].Turns[1].Response, got[1].Turns[1].Response)
	for k := 2; k < len(got[0].Turns); k++ {
		require.Equal(t, got[0].Turns[k].Response, got[1].Turns[k].Response)
	}
}

// seeded is a parrot that can resume conversations: it does not look at them.
type seeded struct{ parrot }

func (*seeded) Resume(...policy.Recorded) error { return nil }

// TestSnapshotsContinueAsReplaysDo in worlds that draw random numbers, with the library's
// environments.
func TestSnapshotsContinueAsReplaysDo(t *testing.T) {
	p := &rollout.Player{Policy: &reader{}, Envs: builtin.Registry(),
		Sampling: policy.Sampling{Temperature: 1, MaxTokens: 6}, MaxTurns: 4, Workers: 2}
	ts := finished(t, p, []rollout.Episode{
		{Env: "frozenlake", Config: map[string]any{"is_slippery": true}, Seed: 3},
		{Env: "frozenlake", Config: map[string]any{"rules": "next", "is_slippery": true, "render_mode": "vision"}, Seed: 4,
			Group: 1},
	})
	var branches []rollout.Branch
	var want []*rollout.Trajectory
	for _, tr := range ts {
		states, err := p.Snapshots(t.Context(), tr)
		require.NoError(t, err)
		require.Len(t, states, len(tr.Turns))
		for k := range tr.Turns {
			branches, want = append(branches, rollout.Branch{From: tr, Turn: k, State: states[k], Group: tr.Group,
				Index: tr.Index}), append(want, tr)
		}
	}
	got := continued(t, p, 7, branches)
	requireSame(t, want, got, "with snapshots")
}

// TestTheTestedHarnessesSplitEpisodes: the episodes of these tests have what makes
// continuing hard.
func TestTheTestedHarnessesSplitEpisodes(t *testing.T) {
	for name, p := range recorders(t, false) {
		c := rollout.Count(record(t, p))
		switch name {
		case "compact":
			require.Positive(t, c.Summaries)
		case "budget":
			require.Positive(t, c.Cut)
			require.Positive(t, c.ByEnd[rollout.EndNoRoom])
		case "no_concat", "window":
			require.Greater(t, c.Rows, c.Episodes)
		}
	}
}

// TestAFailedContinuationIsPlayedAgainFromItsBranchPoint.
func TestAFailedContinuationIsPlayedAgainFromItsBranchPoint(t *testing.T) {
	p := recorders(t, false)["concat"]
	tr := record(t, p)[1]
	var failed atomic.Bool
	p.Envs = (&world{fault: func(_ context.Context, _ int64, method string, turn int, _ *env.Outcome) error {
		if method == "step" && turn == 3 && failed.CompareAndSwap(false, true) {
			return errBroken
		}
		return nil
	}}).registry(t)
	p.Retry = rollout.Retry{Times: map[rollout.End]int{rollout.EndEnv: 1}}
	got := continued(t, p, 7, []rollout.Branch{{From: tr, Turn: 2, Group: tr.Group, Index: tr.Index}})
	require.NoError(t, got[0].Err)
	require.Equal(t, 1, got[0].Attempt)
	require.Equal(t, tr.Turns[:2], got[0].Turns[:2])
	require.NotEqual(t, tr.Turns[2].Response, got[0].Turns[2].Response, "another attempt draws anew")
	require.Len(t, got[0].Turns, len(tr.Turns))
}

// TestEpisodeMeansAreThoseOfTheContinuation: the recorded rewards are averages, so the
// replay's are averaged anew.
func TestEpisodeMeansAreThoseOfTheContinuation(t *testing.T) {
	p := recorders(t, false)["concat"]
	p.EpisodeMean = []string{"guess"}
	branches, want := everyTurn(t, record(t, p), true)
	got := continued(t, p, 7, branches)
	requireSame(t, want, got, "means")
}

// TestReseededContinuationsDifferInStochasticWorldsOnly: with the same responses, keys
// decide what the ice does, and pairs of keys share it.
func TestReseededContinuationsDifferInStochasticWorldsOnly(t *testing.T) {
	for _, slippery := range []bool{true, false} {
		say := saying("<think>t</think><answer>Left,Down</answer>")
		p := &rollout.Player{Policy: say, Envs: builtin.Registry(), Sampling: policy.Sampling{Temperature: 1, MaxTokens: 60},
			MaxTurns: 5, Workers: 2}
		ts := finished(t, p, []rollout.Episode{{Env: "frozenlake", Config: map[string]any{
			"is_slippery": slippery, "size": 8, "p": 0.97}, Seed: 3}})
		states, err := p.Snapshots(t.Context(), ts[0])
		require.NoError(t, err)
		var branches []rollout.Branch
		for n := range 10 {
			branches = append(branches, rollout.Branch{From: ts[0], Turn: 1, State: states[1], Index: n, Reseed: true})
		}
		// a pair of number 3, by replay
		branches = append(branches, rollout.Branch{From: ts[0], Turn: 1, Index: 3, Reseed: true})
		branches = append(branches, rollout.Branch{From: ts[0], Turn: 1, State: states[1], Index: 3})
		got := continued(t, p, 5, branches)
		seen := map[string]bool{}
		path := func(tr *rollout.Trajectory) (text string) {
			require.NoError(t, tr.Err)
			for _, turn := range tr.Turns {
				text += turn.Observation.Text
			}
			return text
		}
		for _, tr := range got {
			seen[path(tr)] = true
		}
		require.Equal(t, path(got[3]), path(got[10]))
		require.Equal(t, path(ts[0]), path(got[11]), "without Reseed the draws are the recorded ones")
		if slippery {
			require.Greater(t, len(seen), 4)
		} else {
			require.Len(t, seen, 1)
		}
	}
}

// saying is a policy that always writes the same text.
type saying string

func (s saying) Generate(ctx context.Context, prompts []policy.Prompt, _ policy.Sampling) ([]policy.Completion, error) {
	out := make([]policy.Completion, len(prompts))
	for i, p := range prompts {
		c := policy.Completion{Text: string(s), Stop: policy.StopEnd}
		c.Context, c.Images = read(p.Messages)
		for _, r := range string(s) {
			c.Tokens, c.LogProbs = append(c.Tokens, r), append(c.LogProbs, -1)
		}
		out[i] = c
	}
	return out, ctx.Err()
}

func (saying) Resume(...policy.Recorded) error { return nil }
func (saying) Forget(...uint64)                {}
