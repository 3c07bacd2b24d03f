package env_test

import (
	"context"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
)

// played is done after as many turns as its seed says, with success if the seed
// is even. It fails at seed 9.
type played struct {
	env.Env
	seed, turns int64
	seen        []string
}

func (c *played) Reset(_ context.Context, seed int64) (env.Observation, error) {
	c.seed, c.turns = seed, 0
	if seed == 9 {
		return env.Observation{}, env.ErrSeed
	}
	return env.Observation{}, nil
}

func (c *played) Step(_ context.Context, response string) (env.Outcome, error) {
	if c.seed == 8 {
		return env.Outcome{}, env.ErrClosed
	}
	c.turns++
	c.seen = append(c.seen, response)
	done := c.turns == c.seed
	return env.Outcome{Done: done, Success: done && c.seed%2 == 0}, nil
}

func draw(r *rand.Rand) string { return strconv.FormatUint(r.Uint64(), 16) }

func TestSuccessRateCountsEpisodesThatSucceedInTime(t *testing.T) {
	for _, c := range []struct {
		episodes, turns int
		want            float64
	}{
		{4, math.MaxInt, 0.5}, // seeds 1, 2, 3, 4
		{4, 3, 0.25},
		{4, 0, 0},
		{0, 3, 0},
	} {
		rate, err := env.SuccessRate(t.Context(), new(played), 1, c.episodes, c.turns, 7, draw)
		require.NoError(t, err)
		require.Equal(t, c.want, rate, "%+v", c)
	}
	_, err := env.SuccessRate(t.Context(), new(played), 8, 1, 3, 7, draw)
	require.ErrorIs(t, err, env.ErrClosed)
	_, err = env.SuccessRate(t.Context(), new(played), 9, 1, 3, 7, draw)
	require.ErrorIs(t, err, env.ErrSeed)
	for _, e := range []env.Env{nil, new(played)} {
		_, err = env.SuccessRate(t.Context(), e, 1, 1, 1, 7, nil)
		require.ErrorContains(t, err, "is nil")
	}
}

// greedy takes more actions than a turn has.
type greedy struct{ *played }

func (g greedy) Step(ctx context.Context, response string) (env.Outcome, error) {
	out, err := g.played.Step(ctx, response)
	out.Response.Actions, out.Response.Dropped = []string{"a", "b"}, 1
	return out, err
}

func TestRatesAreOfTurnsThatTheEnvironmentPlays(t *testing.T) {
	_, err := env.SuccessRate(t.Context(), greedy{new(played)}, 1, 4, 3, 7, draw)
	require.EqualError(t, err, "env: success rate: turns of 3 actions, at most 2 are allowed")
}

func TestAnEpisodesRandomnessDependsOnKeyAndSeedAlone(t *testing.T) {
	seen := func(first int64, key uint64) []string {
		c := new(played)
		_, err := env.SuccessRate(t.Context(), c, first, 1, 2, key, draw)
		require.NoError(t, err)
		return c.seen
	}
	long := new(played)
	_, err := env.SuccessRate(t.Context(), long, 3, 2, 2, 7, draw)
	require.NoError(t, err)
	require.Equal(t, long.seen, append(seen(3, 7), seen(4, 7)...))
	require.NotEqual(t, seen(3, 7), seen(3, 8))
}
