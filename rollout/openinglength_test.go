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

func TestOpeningsCountTheFirstPrompt(t *testing.T) {
	for _, h := range []rollout.Harness{nil, rollout.NoConcat{}} {
		eps := episodes(6)
		w := &world{}
		p := player(t, w, &parrot{})
		p.Harness = h
		lengths, err := p.OpeningLengths(t.Context(), eps)
		require.NoError(t, err)
		require.Equal(t, w.made.Load(), w.closed.Load())
		require.EqualValues(t, 6, w.made.Load())
		ts := finished(t, p, eps)
		for i, tr := range ts {
			start, _, ok := tr.Rows[0].TurnAt(0)
			require.True(t, ok)
			require.Equal(t, start, lengths[i], "episode %d", i)
		}
	}
}

func TestOpeningsOfEpisodesThatFailAreErrors(t *testing.T) {
	eps := episodes(4)
	w := &world{fault: func(_ context.Context, seed int64, method string, _ int, _ *env.Outcome) error {
		if seed == 101 && method == "reset" {
			return errBroken
		}
		return nil
	}}
	p := player(t, w, &parrot{})
	_, err := p.OpeningLengths(t.Context(), eps)
	testkit.Error(t, err, errBroken, "fake, seed 101")
	require.Equal(t, w.made.Load(), w.closed.Load())

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = p.OpeningLengths(ctx, eps)
	require.ErrorIs(t, err, context.Canceled)
	p.Policy = struct{ policy.Policy }{&parrot{}}
	_, err = p.OpeningLengths(t.Context(), eps)
	require.ErrorIs(t, err, rollout.ErrNoCounter)
}
