package rollout_test

import (
	"context"
	"image"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/internal/testkit"
	"vagen/policy"
	"vagen/rollout"
)

// TestAReplayThatDiffersEndsItsBranchAlone: its End is counted, and it is not usable.
func TestAReplayThatDiffersEndsItsBranchAlone(t *testing.T) {
	p := recorders(t, false)["concat"]
	p.Retry = rollout.DefaultRetry()
	ts := record(t, p)
	tr := ts[1]
	require.Greater(t, len(tr.Turns), 2)
	other := func(change func(tr *rollout.Trajectory)) *rollout.Trajectory {
		c := *tr
		c.Turns = slices.Clone(tr.Turns)
		change(&c)
		return &c
	}
	withPicture := ts[2]
	require.NotEmpty(t, withPicture.Turns[0].Observation.Images)
	repainted := *withPicture
	repainted.Turns = slices.Clone(withPicture.Turns)
	repainted.Turns[0].Observation.Images = []image.Image{picture(9, 9)}
	wrong := []*rollout.Trajectory{
		other(func(c *rollout.Trajectory) { c.Turns[1].Observation.Text += "!" }),
		other(func(c *rollout.Trajectory) { c.Seed++ }),
		other(func(c *rollout.Trajectory) { c.Config = map[string]any{"turns": 1} }),
		other(func(c *rollout.Trajectory) { c.Config = map[string]any{"turns": 7, "pictures": true} }),
		other(func(c *rollout.Trajectory) { c.Turns[1].Cut, c.Turns[1].Observation.Text = true, "level X" }),
		&repainted,
	}
	want := []string{"turn 1: the observation was", "turn 0: the observation was",
		"it ends with turn 0 (done), the recorded one has", "turn 0: the observation was",
		"turn 1: the recorded observation is not a part", "turn 0: image 0 of the observation has other pixels"}
	branches := []rollout.Branch{{From: tr, Turn: 2, Group: tr.Group, Index: tr.Index}}
	for _, w := range wrong {
		branches = append(branches, rollout.Branch{From: w, Turn: min(2, len(w.Turns)-1)})
	}
	got := continued(t, p, 7, branches)
	requireSame(t, ts[1:2], got[:1], "the others")
	for i, g := range got[1:] {
		require.Equal(t, rollout.EndReplay, g.End)
		testkit.Error(t, g.Err, rollout.ErrReplay, want[i])
		require.Zero(t, g.Attempt, "it is final")
	}
	c := rollout.Count(got)
	require.Equal(t, 1, c.Usable)
	require.Equal(t, len(wrong), c.ByEnd[rollout.EndReplay])
	for i, w := range wrong {
		_, err := p.Snapshots(t.Context(), w)
		require.ErrorIs(t, err, map[bool]error{true: env.ErrNoSnapshot,
			false: rollout.ErrReplay}[strings.Contains(want[i], "turn 1") || i == 2], want[i])
	}
}

// TestOtherSettingsThanTheRecordedOnesAreRefused: nothing is continued under a harness or a
// limit that the recorded conversation does not have.
func TestOtherSettingsThanTheRecordedOnesAreRefused(t *testing.T) {
	p := recorders(t, false)["concat"]
	tr := record(t, p)[1]
	long := &policy.Completion{Tokens: []int32{'a', 'a', 'a', 'a', 'a', 'a', 'a'}, Text: "aaaaaaa"}
	for what, c := range map[string]struct {
		harness  rollout.Harness
		budget   rollout.Budget
		response *policy.Completion
	}{
		"the harness opens a conversation: true, the recorded one: false": {harness: rollout.NoConcat{}},
		"no room for another response":                                    {budget: rollout.Budget{Response: 8}},
		"the given response has 7 tokens, at most 6 are allowed":          {response: long},
	} {
		p.Harness, p.Budget = c.harness, c.budget
		got := continued(t, p, 7, []rollout.Branch{{From: tr, Turn: 2, Response: c.response}})
		require.Equal(t, rollout.EndReplay, got[0].End, what)
		require.ErrorContains(t, got[0].Err, what)
	}
}

func TestBranchesThatCannotBeContinuedAreErrors(t *testing.T) {
	p := recorders(t, false)["concat"]
	ts := record(t, p)
	tr, pictures := ts[1], ts[2]
	textOnly := *tr
	textOnly.Rows = []rollout.Row{{}}
	lost := *pictures
	lost.Rows = []rollout.Row{{Sequence: *pictures.Rows[0].Clone(), LogProbs: pictures.Rows[0].LogProbs,
		Images: slices.Clone(pictures.Rows[0].Images)}}
	lost.Rows[0].Images[0].Image = nil
	short := *tr
	short.MaxTurns = 2
	for what, b := range map[string]rollout.Branch{
		"From is nil":                   {},
		"Turn is -1, the episode has":   {From: tr, Turn: -1},
		"the episode has 6 turns":       {From: tr, Turn: len(tr.Turns)},
		"Response has no tokens":        {From: tr, Response: &policy.Completion{Text: "no"}},
		"turn 1 has no recorded tokens": {From: &textOnly, Turn: 1},
		"image 0 of conversation 0":     {From: &lost, Turn: 0},
		"MaxTurns of the episode is 2":  {From: &short, Turn: 2},
	} {
		_, _, err := p.Continue(t.Context(), []rollout.Branch{b}, 7)
		testkit.Error(t, err, rollout.ErrBranch, what)
	}
	_, err := tr.Recorded(len(tr.Turns))
	require.ErrorIs(t, err, rollout.ErrBranch)
	_, err = p.Snapshots(t.Context(), &rollout.Trajectory{})
	require.ErrorIs(t, err, rollout.ErrBranch)
	p.EpisodeMean = []string{"guess"}
	_, _, err = p.Continue(t.Context(), []rollout.Branch{{From: tr, State: []byte("x")}}, 7)
	testkit.Error(t, err, rollout.ErrBranch, `averages the reward parts ["guess"]`)
	p.Policy = &parrot{}
	_, _, err = p.Continue(t.Context(), []rollout.Branch{{From: tr}}, 7)
	require.ErrorContains(t, err, "the policy is a *rollout_test.parrot, which cannot resume")
}

// TestABadSnapshotEndsItsBranchOnce: it is not tried again.
func TestABadSnapshotEndsItsBranchOnce(t *testing.T) {
	p := recorders(t, false)["concat"]
	p.Retry = rollout.DefaultRetry()
	tr := record(t, p)[1]
	got := continued(t, p, 7, []rollout.Branch{{From: tr, State: []byte("x")}})
	require.Equal(t, rollout.EndSetup, got[0].End)
	require.ErrorIs(t, got[0].Err, env.ErrNoSnapshot)
	require.Zero(t, got[0].Attempt)
}

// TestNoRoomAtTheBranchPointIsNotUsable: the recorded episode had room for the turn.
func TestNoRoomAtTheBranchPointIsNotUsable(t *testing.T) {
	p := recorders(t, false)["concat"]
	tr := record(t, p)[1]
	p.Policy = &seeded{parrot{alter: func(_ context.Context, _ policy.Prompt, turn int, c *policy.Completion) error {
		c.Err = policy.ErrNoRoom
		return nil
	}}}
	given, err := tr.Recorded(2)
	require.NoError(t, err)
	got := continued(t, p, 7, []rollout.Branch{{From: tr, Turn: 2}, {From: tr, Turn: 2, Response: given}})
	require.Equal(t, rollout.EndPolicy, got[0].End)
	require.ErrorIs(t, got[0].Err, policy.ErrNoRoom)
	require.Equal(t, rollout.EndNoRoom, got[1].End, "the turn after it has none")
	require.Len(t, got[1].Turns, 3)
}
