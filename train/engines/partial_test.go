package engines_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/builtin"
	"vagen/env/frozenlake"
	"vagen/internal/enginestub"
	"vagen/policy"
	"vagen/rollout/store"
	"vagen/train/config"
	"vagen/train/replay"
	"vagen/train/run"
)

// partial is a configuration whose episodes continue with new weights.
func partial(t *testing.T) config.Config {
	t.Helper()
	c := lake(t, "vllm")
	c.Run.Async, c.Run.MaxStaleness, c.Run.Partial, c.Run.Workers = true, 2, true, 8
	c.Trainer.Steps, c.Trainer.SaveFreq = 4, -1 // a checkpoint would wait for the episodes that belong to it
	dir := filepath.Join(c.Trainer.Dir, "rollouts")
	c.Trainer.RolloutDir, c.Trainer.LogImage.Enable = &dir, true
	return c
}

// TestWeightsAreReplacedUnderACollectionThatMayContinue: a conversation that one version began is
// continued by the next, and each response says which wrote it.
func TestWeightsAreReplacedUnderACollectionThatMayContinue(t *testing.T) {
	for _, rank := range []int{0, 2} {
		c := partial(t)
		c.Agent.Model.LoRARank = rank
		serve(t, &c, 2, nil)
		l := opened(t, &c)
		p, err := l.SnapshotPolicy(t.Context())
		require.NoError(t, err)
		turn := func(text string) policy.Completion {
			prompts := []policy.Prompt{{Conversation: 1, Messages: []policy.Message{{Role: policy.User, Text: text}}}}
			out, err := p.Generate(t.Context(), prompts, policy.Sampling{Temperature: 1, MaxTokens: 4})
			require.NoError(t, err)
			require.NoError(t, out[0].Err)
			return out[0]
		}
		require.Zero(t, turn("Turn 1").Version)
		for step := 1; step <= 2; step++ {
			_, err = l.Update(t.Context(), &policy.Batch{}, policy.Objective{Imitate: true, Temperature: 1},
				policy.DefaultOptimizer())
			require.Error(t, err, "weights of an update that failed may have changed, too")
			l.Trained(step)
			require.Equal(t, step-1, turn("Turn 2").Version, "the servers have the weights from before the update")
			next, err := l.SnapshotPolicy(t.Context())
			require.NoError(t, err)
			require.Equal(t, step, turn("Turn 3").Version)
			require.NoError(t, next.Close())
		}
		require.NoError(t, p.Close())
	}
}

// slowLake is FrozenLake whose first move of an episode waits.
type slowLake struct {
	env.Env
	wait  func(ctx context.Context, seed int64) error
	seed  int64
	moves int
}

func (w *slowLake) Reset(ctx context.Context, seed int64) (env.Observation, error) {
	w.seed, w.moves = seed, 0
	return w.Env.Reset(ctx, seed)
}

func (w *slowLake) Step(ctx context.Context, response string) (env.Outcome, error) {
	if w.moves++; w.moves == 1 {
		if err := w.wait(ctx, w.seed); err != nil {
			return env.Outcome{}, err
		}
	}
	return w.Env.Step(ctx, response)
}

// meeting makes the episodes of step 3 answer once before the weights of step 1 are published, and
// again after it.
type meeting struct {
	of        func(seed int64) (step int)
	episodes  int // of a step
	published func() bool

	mu      sync.Mutex
	answers int // of step 3
}

func (m *meeting) wait(ctx context.Context, seed int64) error {
	switch m.of(seed) {
	case 2: // step 1 ends, and its weights are published, when these episodes have ended
		return until(ctx, func() bool {
			m.mu.Lock()
			defer m.mu.Unlock()
			return m.answers == m.episodes
		})
	case 3:
		m.mu.Lock()
		m.answers++
		m.mu.Unlock()
		return until(ctx, m.published)
	}
	return nil
}

func until(ctx context.Context, f func() bool) error {
	for !f() {
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// versionOf is the number in the name of the weights of a stub.
func versionOf(s *enginestub.Stub) int {
	_, number, _ := strings.Cut(s.Version(), "-v")
	n, _ := strconv.Atoi(number) // 0 before the first version
	return n
}

// TestEpisodesContinueWithNewWeights, and what was learned from them is computed again from what was
// recorded of them, with the same bits.
func TestEpisodesContinueWithNewWeights(t *testing.T) {
	c := partial(t)
	stubs := serve(t, &c, 2, nil)
	m := &meeting{
		of:       func(seed int64) int { return 1 + int(seed-c.Env.Seed)/c.Data.TrainBatch },
		episodes: c.Data.TrainBatch * c.Rollout.Trajectories,
		published: func() bool {
			return !slices.ContainsFunc(stubs, func(s *enginestub.Stub) bool { return versionOf(s) < 2 })
		},
	}
	envs := builtin.Registry()
	require.NoError(t, envs.Register("slow_lake", func(options map[string]any) (env.Env, error) {
		e, err := frozenlake.FromConfig(options)
		return &slowLake{Env: e, wait: m.wait}, err
	}))
	c.Env.Name = "slow_lake"
	r, err := run.Open(t.Context(), c, run.Options{Envs: envs})
	require.NoError(t, err)
	require.NoError(t, r.Train(t.Context()))
	require.NoError(t, r.Close())

	spanning := 0
	for step := 1; step <= c.Trainer.Steps; step++ {
		f, err := store.Open(filepath.Join(*c.Trainer.RolloutDir, fmt.Sprintf("step_%d.parquet", step)))
		require.NoError(t, err)
		for s, err := range f.All() {
			require.NoError(t, err)
			last := 0
			for k, turn := range s.Turns {
				require.GreaterOrEqual(t, turn.Version, last)
				require.GreaterOrEqual(t, turn.Version, step-1-c.Run.MaxStaleness, "staleness is bounded")
				require.Less(t, turn.Version, step)
				if last = turn.Version; step == 3 && k == 0 {
					require.Zero(t, turn.Version, "the servers had the first weights")
				}
				if step == 3 && k > 0 {
					require.Equal(t, 1, turn.Version)
					spanning++
				}
			}
		}
		require.NoError(t, f.Close())
	}
	require.Positive(t, spanning, "no episode of step 3 has a second turn: choose other levels")

	metrics := stepMetrics(t, c.Trainer.Dir)
	require.Equal(t, 2.0, metrics[2]["rollout/staleness_max"])
	require.InDelta(t, float64(spanning)/float64(m.episodes), metrics[2]["rollout/partial_share"], 1e-12)
	require.Equal(t, 0.0, metrics[0]["rollout/staleness_max"])

	for step := 1; step <= c.Trainer.Steps; step++ {
		again, err := replay.Step(t.Context(), c.Trainer.Dir, nil, step, envs, nil)
		require.NoError(t, err)
		require.True(t, again.Same(), "step %d: %v %v", step, again.First, again.Metrics)
		require.Zero(t, again.From)
	}
}
