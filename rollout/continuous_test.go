package rollout_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/rollout"
)

// TestContinuousEpisodesAreThoseOfRounds: with the same draws, each call of the policy has one prompt. Episodes may
// follow each other.
func TestContinuousEpisodesAreThoseOfRounds(t *testing.T) {
	rounds := finished(t, player(t, &world{}, &parrot{}), episodes(12))
	birds := &parrot{}
	p := player(t, &world{}, birds)
	p.Continuous = true
	got, took, err := p.Play(t.Context(), episodes(12), 7)
	require.NoError(t, err)
	require.Positive(t, took.Env)
	for i, want := range rounds {
		require.Equal(t, want.Turns, got[i].Turns)
		require.Equal(t, want.Rows, got[i].Rows)
		require.Equal(t, want.End, got[i].End)
	}
	require.Empty(t, birds.wrong)
	require.False(t, slices.ContainsFunc(birds.batches, func(keys []uint64) bool { return len(keys) != 1 }))

	next := 12
	p.Next = func(*rollout.Trajectory) (rollout.Episode, bool) {
		next++
		return rollout.Episode{Env: "fake", Seed: int64(next), Index: next}, next <= 20
	}
	finished(t, p, episodes(12))
	require.Equal(t, 32, next)
}

// unequal is a policy whose answer to the first call comes after three answers to other calls.
type unequal struct {
	*parrot
	mu    sync.Mutex
	calls int
	late  chan struct{}
}

func (u *unequal) Generate(
	ctx context.Context, prompts []policy.Prompt, s policy.Sampling,
) ([]policy.Completion, error) {
	u.mu.Lock()
	u.calls++
	first := u.calls == 1
	if u.calls == 4 {
		close(u.late)
	}
	u.mu.Unlock()
	if first {
		select {
		case <-u.late:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return u.parrot.Generate(ctx, prompts, s)
}

// TestContinuousEpisodesWaitForNoOther: one of two episodes plays three turns while the policy answers the other's
// first, which rounds would wait for.
func TestContinuousEpisodesWaitForNoOther(t *testing.T) {
	p := player(t, &world{}, &parrot{})
	p.Policy, p.Continuous = &unequal{parrot: &parrot{}, late: make(chan struct{})}, true
	two := []rollout.Episode{{Env: "fake", Config: map[string]any{"turns": 3}},
		{Env: "fake", Index: 1, Config: map[string]any{"turns": 3}}}
	ts := finished(t, p, two)
	require.Len(t, ts[0].Turns, 3)
	require.Len(t, ts[1].Turns, 3)
}

// TestAFailingPolicyEndsContinuousEpisodes with its error; and what would have no effect is refused.
func TestAFailingPolicyEndsContinuousEpisodes(t *testing.T) {
	broken := errors.New("broken")
	p := player(t, &world{}, &parrot{alter: func(_ context.Context, p policy.Prompt, turn int, _ *policy.Completion) error {
		if turn == 1 {
			return broken
		}
		return nil
	}})
	p.Continuous = true
	_, _, err := p.Play(t.Context(), episodes(12), 7)
	require.ErrorIs(t, err, broken)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err = p.Play(ended, episodes(2), 7)
	require.ErrorIs(t, err, context.Canceled)
	for _, change := range []func(){func() { p.Waves = 2 }, func() { p.Waves, p.Patience = 1, time.Second }} {
		change()
		_, _, err = p.Play(t.Context(), episodes(2), 7)
		require.ErrorContains(t, err, "Continuous: Waves is")
	}
}
