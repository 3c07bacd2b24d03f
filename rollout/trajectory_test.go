package rollout_test

import (
	"context"
	"image"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/mask"
	"vagen/policy"
	"vagen/reward"
	"vagen/rollout"
)

// TestRowsAreWhatWasReadAndWritten joins the parrot's completions and compares
// tokens, kinds, log-probs and images.
func TestRowsAreWhatWasReadAndWritten(t *testing.T) {
	w := &world{}
	q := &parrot{}
	var context_, written [][]int32
	var logProbs [][]float32
	q.alter = func(_ context.Context, p policy.Prompt, _ int, c *policy.Completion) error {
		if p.Conversation == 1 {
			context_, written, logProbs = append(context_, c.Context), append(written, c.Tokens), append(logProbs, c.LogProbs)
		}
		return nil
	}
	ts := play(t, w, player(t, w, q), []rollout.Episode{
		{Env: "fake", Seed: 5, Config: map[string]any{"turns": 3, "pictures": true}},
		{Env: "fake", Seed: 6, Index: 1},
	})
	tr := ts[0]
	require.Len(t, tr.Rows, 1)
	require.Len(t, written, 3)
	row := &tr.Rows[0]
	var tokens []int32
	var kinds []mask.Kind
	var probs []float32
	for i := range written {
		kind := mask.Observation
		if i == 0 {
			kind = mask.Prompt
		}
		for range context_[i] {
			kinds, probs = append(kinds, kind), append(probs, 0)
		}
		for k := range written[i] {
			kinds, probs = append(kinds, mask.Response), append(probs, logProbs[i][k])
		}
		tokens = append(append(tokens, context_[i]...), written[i]...)
	}
	require.Equal(t, tokens, row.Tokens())
	require.Equal(t, kinds, row.Kinds(nil))
	require.Equal(t, probs, row.LogProbs)
	require.Equal(t, 3, row.Turns())

	prompt, _ := read([]policy.Message{{Role: policy.System, Text: "Guess."},
		{Role: policy.User, Text: "level 5 turn 0 <image>", Images: []image.Image{nil}[:0]}})
	require.Equal(t, append(prompt, imageToken), context_[0], "the prompt is the system prompt and the first observation")
	require.Len(t, row.Images, 3, "one picture a turn, in order")
	for i, im := range row.Images {
		require.Equal(t, picture(5, i), im.Image)
	}
	for i, turn := range tr.Turns {
		var said strings.Builder
		for _, id := range written[i][:len(written[i])-1] {
			said.WriteRune(rune(id))
		}
		require.Equal(t, said.String(), turn.Response)
		require.Equal(t, policy.StopEnd, turn.Stop)
		require.Zero(t, turn.Row)
		require.Equal(t, []image.Image{picture(5, i)}, turn.Observation.Images, "what the agent was shown before turn %d", i)
		require.Equal(t, turn.Response, turn.Parsed.Raw)
		require.Equal(t, turn.Reward.Of("guess"), turn.Metrics["odd"])
	}
	require.Equal(t, 3.0, tr.Metrics["turns"], "metrics of the trajectory are those of the last turn")
}

// anyTrajectory draws a trajectory of a few rows, with several turns each.
func anyTrajectory(t *testing.T, r *rand.Rand) *rollout.Trajectory {
	t.Helper()
	tr := &rollout.Trajectory{Rows: make([]rollout.Row, 1+r.IntN(3))}
	for i := range tr.Rows {
		row := &tr.Rows[i]
		for range 1 + r.IntN(4) {
			kind := mask.Observation
			if row.Turns() == 0 {
				kind = mask.Prompt
			}
			require.NoError(t, row.AppendContext(kind, make([]int32, r.IntN(5))...))
			require.NoError(t, row.AppendResponse(make([]int32, 1+r.IntN(4))...))
			turn := rollout.Turn{Row: i}
			for range r.IntN(3) {
				turn.Reward = append(turn.Reward, reward.Part{Name: "x", Value: r.NormFloat64()})
			}
			tr.Turns = append(tr.Turns, turn)
		}
		if r.IntN(2) == 0 {
			require.NoError(t, row.AppendContext(mask.Observation, 1, 2))
		}
	}
	return tr
}

// TestRewardsArePlacedOnTurnEnds: per turn they agree with mask.PlaceTurnRewards;
// otherwise they are one number on the row's last response token, the sum up to
// float32 (rows here have at most 4 turns: 1e-5 covers their rounding).
func TestRewardsArePlacedOnTurnEnds(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		tr := anyTrajectory(t, r)
		var all float64
		for i := range tr.Rows {
			var turns []float64
			for _, turn := range tr.Turns {
				if turn.Row == i {
					turns = append(turns, turn.Reward.Sum())
				}
			}
			before := []float32{8, 9}
			want, err := tr.Rows[i].PlaceTurnRewards(before, turns, 0)
			require.NoError(t, err)
			got, err := tr.Rewards(before, i, reward.PerTurn)
			require.NoError(t, err)
			require.Equal(t, want, got)

			once, err := tr.Rewards(before, i, reward.AtLast)
			require.NoError(t, err)
			require.Equal(t, before, once[:2], "numbers are appended")
			require.Len(t, once, 2+tr.Rows[i].Len())
			last := tr.Rows[i].LastResponse()
			require.InDelta(t, sum(want[2:]), float64(once[2+last]), 1e-5)
			once[2+last] = 0
			require.Zero(t, sum(once[2:]), "nothing elsewhere")
			all += sum(want[2:])
		}
		require.InDelta(t, tr.Return(), all, 1e-5, "rows share the return")
	}
}

func sum(xs []float32) float64 {
	var s float64
	for _, x := range xs {
		s += float64(x)
	}
	return s
}

func TestRewardsWithoutATokenAreErrors(t *testing.T) {
	tr := &rollout.Trajectory{Rows: []rollout.Row{{}},
		Turns: []rollout.Turn{{Reward: reward.Parts{{Name: "x", Value: 0.5}}}}}
	for _, row := range []int{-1, 1} {
		_, err := tr.Rewards(nil, row, reward.PerTurn)
		require.ErrorContains(t, err, "the trajectory has 1 rows")
	}
	_, err := tr.Rewards(nil, 0, reward.PerTurn)
	require.ErrorIs(t, err, mask.ErrTurns)
	got, err := tr.Rewards([]float32{7}, 0, reward.AtLast)
	require.ErrorContains(t, err, "rewards of row 0: reward: place: mask: turn rewards: 0 rewards, final 0.5, 0 turns")
	require.Equal(t, []float32{7}, got)
	tr.Turns = nil
	got, err = tr.Rewards([]float32{7}, 0, reward.AtLast)
	require.NoError(t, err, "nothing to put is nothing to complain about")
	require.Equal(t, []float32{7}, got)
}

// TestCountsLeaveFailedEpisodesOut counts by hand.
func TestCountsLeaveFailedEpisodesOut(t *testing.T) {
	row := func(turns int) (r rollout.Row) {
		for i := range turns {
			kind := mask.Observation
			if i == 0 {
				kind = mask.Prompt
			}
			require.NoError(t, r.AppendContext(kind, 1, 2, 3))
			require.NoError(t, r.AppendResponse(4, 5))
		}
		return r
	}
	ts := []*rollout.Trajectory{
		{End: rollout.EndDone, Success: true, Turns: make([]rollout.Turn, 2), Rows: []rollout.Row{row(2)}},
		{End: rollout.EndMaxTurns, Turns: make([]rollout.Turn, 3), Rows: []rollout.Row{row(2), row(1)}},
		{End: rollout.EndNoRoom, Success: true, Turns: make([]rollout.Turn, 1), Rows: []rollout.Row{row(1)}},
		{End: rollout.EndEnv, Success: true, Turns: make([]rollout.Turn, 1), Rows: []rollout.Row{row(1)}},
		{End: rollout.EndEnv},
	}
	require.Equal(t, rollout.Counts{
		Episodes: 5, Usable: 3, Success: 2, Turns: 6, Rows: 4, Tokens: 12, Context: 18,
		ByEnd: map[rollout.End]int{rollout.EndDone: 1, rollout.EndMaxTurns: 1, rollout.EndNoRoom: 1, rollout.EndEnv: 2},
	}, rollout.Count(ts))
	require.Equal(t, rollout.Counts{ByEnd: map[rollout.End]int{}}, rollout.Count(nil))
}

// TestOnlyTheLastTurnsOfARowAreDiscarded, whichever turns of other rows are between them.
func TestOnlyTheLastTurnsOfARowAreDiscarded(t *testing.T) {
	episode := func() *rollout.Trajectory {
		tr := &rollout.Trajectory{Rows: make([]rollout.Row, 2)}
		for _, r := range []int{0, 1, 0} {
			row := &tr.Rows[r]
			require.NoError(t, row.AppendContext(mask.Observation, 1))
			require.NoError(t, row.AppendResponse(2))
			row.LogProbs = append(row.LogProbs, 0, -1)
			tr.Turns = append(tr.Turns, rollout.Turn{Row: r})
		}
		return tr
	}
	require.ErrorContains(t, episode().Discard(0), "turn 2 follows a discarded turn in its row")
	require.ErrorContains(t, episode().Discard(0, 1), "turn 2 follows")
	for _, c := range []struct{ drop, rows []int }{
		{[]int{1}, []int{2}}, {[]int{2}, []int{1, 1}}, {[]int{0, 2}, []int{1}},
	} {
		tr := episode()
		require.NoError(t, tr.Discard(c.drop...))
		var rows []int
		for i := range tr.Rows {
			rows = append(rows, tr.Rows[i].Turns())
		}
		require.Equal(t, c.rows, rows, c.drop)
	}
}
