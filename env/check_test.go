package env_test

import (
	"context"
	"errors"
	"fmt"
	"image"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/reward"
)

// counter is a small environment that keeps the contract: three turns, then it
// is done. Its fields break the contract in one way each.
type counter struct {
	turn, resets int
	seed         int64
	ready        bool

	noImage, nan, random, echo, refuse, hang, panics, lenient, deaf, sticky bool
}

var pixel = image.NewRGBA(image.Rect(0, 0, 1, 1))

func (c *counter) System(context.Context) (env.Observation, error) {
	return env.Observation{Text: "Count."}, nil
}

func (c *counter) look() env.Observation {
	o := env.Observation{Text: fmt.Sprintf("%s turn %d of %d", env.ImageMark, c.turn, c.seed),
		Images: []image.Image{pixel}}
	if c.noImage {
		o.Images = nil
	}
	if c.sticky {
		o.Text += strings.Repeat("!", c.resets)
	}
	return o
}

func (c *counter) Reset(ctx context.Context, seed int64) (env.Observation, error) {
	if ctx.Err() != nil {
		return env.Observation{}, context.Cause(ctx)
	}
	c.turn, c.seed, c.ready = 0, seed, true
	c.resets++
	return c.look(), nil
}

func (c *counter) Step(ctx context.Context, response string) (env.Outcome, error) {
	switch {
	case c.deaf && ctx.Err() != nil:
		return env.Outcome{}, errors.New("interrupted")
	case ctx.Err() != nil:
		return env.Outcome{}, context.Cause(ctx)
	case !c.ready && !c.lenient:
		return env.Outcome{}, errors.New("no episode")
	case c.hang && c.turn == 1:
		select {}
	case c.panics && c.turn == 2:
		panic("lost count")
	case c.refuse && !strings.HasPrefix(response, "go"):
		return env.Outcome{}, errors.New("what?")
	}
	c.turn++
	out := env.Outcome{Observation: c.look(), Done: c.turn >= 3, Reward: reward.Parts{{Name: "turn", Value: 1}}}
	if c.echo {
		out.Observation.Text += response
	}
	if c.nan {
		out.Reward[0].Value = math.NaN()
	}
	if c.random {
		out.Reward[0].Value = float64(time.Now().UnixNano())
	}
	return out, nil
}

func (c *counter) Close() error { return nil }

func check(t *testing.T, c counter) env.Report {
	t.Helper()
	report, err := env.Check(t.Context(), func(map[string]any) (env.Env, error) {
		made := c
		return &made, nil
	}, env.CheckOptions{Responses: []string{"go", "go on"}, Timeout: time.Second})
	require.NoError(t, err)
	return report
}

func TestCheckPassesAnEnvironmentThatKeepsTheContract(t *testing.T) {
	report := check(t, counter{})
	require.NoError(t, report.Err())
	require.Greater(t, report.Turns, 30)
	require.Greater(t, report.Calls, report.Turns)
}

func TestCheckNamesTheRuleThatIsBroken(t *testing.T) {
	for rule, cases := range map[string][]counter{
		"marks":        {{noImage: true}, {echo: true}},
		"finite":       {{nan: true}},
		"determinism":  {{random: true}, {sticky: true}},
		"response":     {{refuse: true}},
		"hang":         {{hang: true}},
		"panic":        {{panics: true}},
		"order":        {{lenient: true}},
		"cancellation": {{deaf: true}},
	} {
		for _, c := range cases {
			report := check(t, c)
			require.NotEmpty(t, report.Problems, "%s: %+v", rule, c)
			for _, p := range report.Problems {
				require.Equal(t, rule, p.Rule, "%+v: %v", c, p)
			}
			require.ErrorContains(t, report.Err(), rule)
		}
	}
}

func TestCheckReportsAFactoryThatFails(t *testing.T) {
	broken := errors.New("no display")
	_, err := env.Check(t.Context(), func(map[string]any) (env.Env, error) { return nil, broken }, env.CheckOptions{})
	require.ErrorIs(t, err, broken)
	_, err = env.Check(t.Context(), func(map[string]any) (env.Env, error) { return nil, nil }, env.CheckOptions{})
	require.Error(t, err)
	_, err = env.Check(t.Context(), func(map[string]any) (env.Env, error) { panic("no display") }, env.CheckOptions{})
	require.ErrorContains(t, err, "the factory panicked: no display")
}

// stuck is a counter whose first call of Step does not return.
type stuck struct {
	counter
	calls *atomic.Int64
}

func (s *stuck) Step(context.Context, string) (env.Outcome, error) {
	s.calls.Add(1)
	select {}
}

func (s *stuck) Close() error { s.calls.Add(1); return nil }

// TestCheckCallsNothingBehindACallThatHangs: an environment's methods are called one at a
// time, also if a call does not return.
func TestCheckCallsNothingBehindACallThatHangs(t *testing.T) {
	var calls atomic.Int64
	report, err := env.Check(t.Context(), func(map[string]any) (env.Env, error) { return &stuck{calls: &calls}, nil },
		env.CheckOptions{Timeout: time.Millisecond})
	require.NoError(t, err)
	require.Len(t, report.Problems, 1)
	require.Equal(t, "hang", report.Problems[0].Rule)
	require.LessOrEqual(t, calls.Load(), int64(1))
}

// full is an environment whose service has no room.
type full struct{ counter }

func (*full) Reset(ctx context.Context, _ int64) (env.Observation, error) {
	<-ctx.Done()
	return env.Observation{}, errors.New("no room")
}

func TestCheckSaysWhyACallTookTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		report, err := env.Check(t.Context(), func(map[string]any) (env.Env, error) { return new(full), nil },
			env.CheckOptions{})
		require.NoError(t, err)
		require.ErrorContains(t, report.Err(), "Reset took 1m0s, allowed are 1m0s: no room")
	})
}

func TestCheckTakesNoSeedsForTheUsualOnes(t *testing.T) {
	report, err := env.Check(t.Context(), func(map[string]any) (env.Env, error) {
		return &counter{}, nil
	}, env.CheckOptions{Seeds: []int64{}})
	require.NoError(t, err)
	require.Positive(t, report.Turns)
}

func TestCheckEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := env.Check(ctx, func(map[string]any) (env.Env, error) { return &counter{}, nil }, env.CheckOptions{})
	require.ErrorIs(t, err, context.Canceled)
}
