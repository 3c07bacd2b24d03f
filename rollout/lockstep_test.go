package rollout_test

import (
	"context"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/policy"
	"vagen/rollout"
)

func TestTheSeedDecidesWhatIsSampled(t *testing.T) {
	w := &world{}
	one := play(t, w, player(t, w, &parrot{}), episodes(11))
	other, _, err := player(t, w, &parrot{}).Play(t.Context(), episodes(11), 8)
	require.NoError(t, err)
	require.NotEqual(t, responses(one), responses(other))
	require.NotEqual(t, responses(one[:1]), responses(one[1:2]), "episodes of one group sample differently")
}

func responses(ts []*rollout.Trajectory) []string {
	var out []string
	for _, tr := range ts {
		for _, turn := range tr.Turns {
			out = append(out, turn.Response)
		}
	}
	return out
}

// TestEpisodesAdvanceInLockstep checks the prompts of every round: one for each
// running episode of a wave, in the order of the list.
func TestEpisodesAdvanceInLockstep(t *testing.T) {
	for _, waves := range []int{0, 1, 3, 50} {
		w, q := &world{}, &parrot{}
		p := player(t, w, q)
		p.Waves = waves
		eps := episodes(10)
		ts := play(t, w, p, eps)
		want := [][]uint64{}
		n := min(max(1, waves), len(eps))
		for round := range p.MaxTurns {
			for wave := range n {
				var keys []uint64
				for i := wave; i < len(eps); i += n {
					if round < len(ts[i].Turns) {
						keys = append(keys, uint64(i+1))
					}
				}
				if keys != nil {
					want = append(want, keys)
				}
			}
		}
		require.Equal(t, want, q.batches, "%d waves", waves)
	}
}

// TestWavesOverlapGenerationAndEnvironments checks whether environments step while
// the policy generates: never with one wave, often with two.
func TestWavesOverlapGenerationAndEnvironments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for waves, overlap := range map[int]bool{1: false, 2: true} {
			var seen atomic.Bool
			q := &parrot{}
			w := &world{delay: func(seed int64, method string) time.Duration {
				if method == "step" && q.busy.Load() {
					seen.Store(true)
				}
				return time.Second
			}}
			q.alter = func(_ context.Context, _ policy.Prompt, _ int, _ *policy.Completion) error {
				time.Sleep(time.Second / 2)
				if w.busy.Load() > 0 {
					seen.Store(true)
				}
				return nil
			}
			p := player(t, w, q)
			p.Waves = waves
			ts, took, err := p.Play(t.Context(), episodes(8), 7)
			require.NoError(t, err)
			require.Equal(t, overlap, seen.Load(), "%d waves", waves)
			turns := rollout.Count(ts).Turns
			require.Equal(t, time.Duration(turns)*time.Second/2, took.Generate, "half a second a turn")
			require.Positive(t, took.Env)
		}
	})
}

func TestTheTurnLimitOfAnEpisodeOverridesThePlayers(t *testing.T) {
	w := &world{}
	eps := []rollout.Episode{{Env: "fake"}, {Env: "fake", Index: 1, MaxTurns: 2}, {Env: "fake", Index: 2, MaxTurns: 6},
		{Env: "fake", Index: 3, Config: map[string]any{"turns": 4}}}
	ts := play(t, w, player(t, w, &parrot{}), eps)
	for i, want := range []struct {
		turns int
		end   rollout.End
	}{{4, rollout.EndMaxTurns}, {2, rollout.EndMaxTurns}, {6, rollout.EndMaxTurns}, {4, rollout.EndDone}} {
		require.Len(t, ts[i].Turns, want.turns)
		require.Equal(t, want.end, ts[i].End)
		require.True(t, ts[i].End.Usable())
		require.NoError(t, ts[i].Err)
	}
}

func TestAPlayerPlaysAgain(t *testing.T) {
	w := &world{}
	p := player(t, w, &parrot{})
	first := finished(t, p, episodes(5))
	second := finished(t, p, episodes(5))
	require.Equal(t, first, second)
	require.Empty(t, p.Policy.(*parrot).wrong, "conversations of two plays have different keys")
}

func TestBadSettingsAreRefused(t *testing.T) {
	w := &world{}
	for name, c := range map[string]struct {
		spoil func(*rollout.Player)
		eps   []rollout.Episode
		says  string
	}{
		"policy":  {func(p *rollout.Player) { p.Policy = nil }, nil, "Policy is not set"},
		"envs":    {func(p *rollout.Player) { p.Envs = nil }, nil, "Envs is not set"},
		"turns":   {func(p *rollout.Player) { p.MaxTurns = 0 }, nil, "MaxTurns is 0, must be positive"},
		"workers": {func(p *rollout.Player) { p.Workers = -1 }, nil, "Workers is -1"},
		"waves":   {func(p *rollout.Player) { p.Waves = -2 }, nil, "Waves is -2"},
		"timeout": {func(p *rollout.Player) { p.EnvTimeout = -time.Second }, nil, "EnvTimeout is -1s"},
		"heat":    {func(p *rollout.Player) { p.Sampling.Temperature = math.NaN() }, nil, "Sampling: bad sampling: temperature is NaN"},
		"episode": {func(p *rollout.Player) {}, []rollout.Episode{{}, {MaxTurns: -1}}, "episode 1: MaxTurns is -1"},
	} {
		p := player(t, w, &parrot{})
		c.spoil(p)
		_, _, err := p.Play(t.Context(), c.eps, 0)
		require.ErrorContains(t, err, c.says, name)
	}
	require.Zero(t, w.made.Load(), "nothing was started")
}

func TestAnEmptySystemPromptIsNotSent(t *testing.T) {
	w, q := &world{}, &parrot{}
	play(t, w, player(t, w, q), []rollout.Episode{
		{Env: "fake", MaxTurns: 1}, {Env: "fake", Index: 1, MaxTurns: 2, Config: map[string]any{"silent": true}},
	})
	roles := func(ms []policy.Message) (out []policy.Role) {
		for _, m := range ms {
			out = append(out, m.Role)
		}
		return out
	}
	require.Equal(t, []policy.Role{policy.System, policy.User}, roles(q.prompts[0]))
	require.Equal(t, []policy.Role{policy.User}, roles(q.prompts[1]))
	require.Equal(t, []policy.Message{{Role: policy.User, Text: "level 0 turn 1"}}, q.prompts[2],
		"later prompts bring the new observation alone")
}

var _ env.Env = (*fakeEnv)(nil)

// TestEpisodesMayPayTheMeanOfTheirTurns scales a part of the reward to the turn limit
// of the episode.
func TestEpisodesMayPayTheMeanOfTheirTurns(t *testing.T) {
	w := &world{}
	plain := play(t, w, player(t, w, &parrot{}), episodes(6))
	p := player(t, w, &parrot{})
	p.EpisodeMean = []string{"turn"}
	for i, tr := range play(t, w, p, episodes(6)) {
		require.Equal(t, len(plain[i].Turns), len(tr.Turns))
		scale := float64(tr.MaxTurns) / float64(len(tr.Turns))
		for k, turn := range tr.Turns {
			was := plain[i].Turns[k].Reward
			require.InDelta(t, was.Of("turn")*scale, turn.Reward.Of("turn"), 1e-12)
			require.InDelta(t, was.Sum()-was.Of("turn"), turn.Reward.Sum()-turn.Reward.Of("turn"), 1e-12)
		}
	}
}
