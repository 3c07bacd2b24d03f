package baseline

import (
	"context"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
)

// counter is done after as many turns as its seed says, with success if the seed
// is even. It fails at seed 9.
type counter struct {
	env.Env
	seed, turns int64
	seen        []string
}

func (c *counter) Reset(_ context.Context, seed int64) (env.Observation, error) {
	c.seed, c.turns = seed, 0
	if seed == 9 {
		return env.Observation{}, env.ErrSeed
	}
	return env.Observation{}, nil
}

func (c *counter) Step(_ context.Context, response string) (env.Outcome, error) {
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
		rate, err := SuccessRate(new(counter), 1, c.episodes, c.turns, 7, draw)
		require.NoError(t, err)
		require.Equal(t, c.want, rate, "%+v", c)
	}
	_, err := SuccessRate(new(counter), 8, 1, 3, 7, draw)
	require.ErrorIs(t, err, env.ErrClosed)
	_, err = SuccessRate(new(counter), 9, 1, 3, 7, draw)
	require.ErrorIs(t, err, env.ErrSeed)
}

// scripted lets a player draw its responses.
type scripted struct{ *counter }

func (scripted) Script(r *rand.Rand, _ struct{}, _ int) string { return draw(r) }

func TestRatesAreOfTurnsThatTheEnvironmentPlays(t *testing.T) {
	rate := func(actions int, err error) (float64, error) {
		return Rate("pond", scripted{new(counter)}, err, struct{}{}, 1, 4, 3, actions, 5, 7)
	}
	got, err := rate(5, nil)
	require.NoError(t, err)
	require.Equal(t, 0.25, got)
	for _, actions := range []int{0, 6} {
		_, err = rate(actions, nil)
		require.ErrorContains(t, err, "must be 1 to max_actions_per_step, 5")
	}
	_, err = rate(5, env.ErrOption)
	require.ErrorIs(t, err, env.ErrOption)
}

func TestAnEpisodesRandomnessDependsOnKeyAndSeedAlone(t *testing.T) {
	seen := func(first int64, key uint64) []string {
		c := new(counter)
		_, err := SuccessRate(c, first, 1, 2, key, draw)
		require.NoError(t, err)
		return c.seen
	}
	long := new(counter)
	_, err := SuccessRate(long, 3, 2, 2, 7, draw)
	require.NoError(t, err)
	require.Equal(t, long.seen, append(seen(3, 7), seen(4, 7)...))
	require.NotEqual(t, seen(3, 7), seen(3, 8))
}
