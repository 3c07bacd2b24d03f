package rollout_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/mask"
	"vagen/policy"
	"vagen/rollout"
)

// forcing is a parrot that reports some of its tokens as forced.
func forcing(places ...int) *parrot {
	return &parrot{alter: func(_ context.Context, _ policy.Prompt, turn int, c *policy.Completion) error {
		if turn == 1 {
			c.Tokens, c.LogProbs, c.Text = []int32{'a', 'b', 'c', 'd', endToken}, []float32{-1, -2, -3, -4, -5}, "abcd"
			c.Forced = places
		}
		return nil
	}}
}

func TestForcedTokensAreRecorded(t *testing.T) {
	w := &world{}
	ts := play(t, w, player(t, w, forcing(1, 2, 4)), episodes(4))
	n := 0
	for _, tr := range ts {
		row := &tr.Rows[0]
		start, end, ok := row.TurnAt(1)
		if !ok {
			continue
		}
		n++
		loss, response := row.Loss(nil, mask.Options{}), row.Response(nil)
		require.Equal(t, []bool{true, false, false, true, false}, loss[start:end])
		require.Equal(t, []bool{true, true, true, true, true}, response[start:end])
		copy(loss[start:end], response[start:end])
		require.Equal(t, response, loss, "other turns have none")
		require.Equal(t, "abcd", tr.Turns[1].Response)
	}
	require.Positive(t, n)
	require.Equal(t, 3*n, rollout.Count(ts).Forced)
}

// TestFillCountsAllItsEpisodes: the counts that Fill adds up over its rounds equal
// Count of the same trajectories.
func TestFillCountsAllItsEpisodes(t *testing.T) {
	p := player(t, &world{}, forcing(1, 2, 4))
	got, all, _, err := p.Fill(t.Context(), rollout.FillOptions{Groups: 3, Episodes: func(g int) []rollout.Episode {
		return []rollout.Episode{{Env: "fake", Seed: int64(g)}}
	}}, 7)
	require.NoError(t, err)
	require.Positive(t, all.Forced)
	require.Equal(t, rollout.Count(got), all)
}

func TestInvalidForcedPositionsEndTheEpisode(t *testing.T) {
	for _, places := range [][]int{{5}, {-1}, {2, 2}, {3, 1}} {
		w := &world{}
		ts := play(t, w, player(t, w, forcing(places...)), episodes(2)[1:])
		require.Equal(t, rollout.EndPolicy, ts[0].End)
		require.ErrorContains(t, ts[0].Err, "turn 1: the policy reports a forced token")
	}
}
