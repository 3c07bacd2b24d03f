package vlm

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/policy"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/vlmtest"
	"vagen/rollout"
)

// ponderer is an environment that takes up to 0.8 s for its answer, drawn from its seed.
type ponderer struct{ r *rand.Rand }

func (*ponderer) System(context.Context) (env.Observation, error) { return env.Observation{}, nil }
func (*ponderer) Close() error                                    { return nil }

func (e *ponderer) Reset(_ context.Context, seed int64) (env.Observation, error) {
	e.r = rand.New(rand.NewPCG(1, uint64(seed)))
	return env.Observation{Text: fmt.Sprint("begin ", seed)}, nil
}

func (e *ponderer) Step(context.Context, string) (env.Outcome, error) {
	time.Sleep(time.Duration(e.r.Int64N(int64(800 * time.Millisecond))))
	return env.Outcome{Observation: env.Observation{Text: "go on"}}, nil
}

// BenchmarkAgentsThatThink is 16 episodes of four turns whose responses have 4 to 64 tokens, in rounds that wait 5 ms
// for stragglers, and continuously. VAGEN_BENCH_MODEL is the folder of a model to use in place of a tiny one.
func BenchmarkAgentsThatThink(b *testing.B) {
	dir := cmp.Or(os.Getenv("VAGEN_BENCH_MODEL"), vlmtest.Folder(b, model.Qwen2, nil))
	for name, continuous := range map[string]bool{"rounds": false, "continuous": true} {
		b.Run(name, func(b *testing.B) {
			m, err := Open(b.Context(), dir, Options{CacheTokens: 256, Continuous: continuous})
			require.NoError(b, err)
			b.Cleanup(func() { require.NoError(b, m.Close()) })
			m.cfg.EndOfTurn = nil
			envs := new(env.Registry)
			require.NoError(b, envs.Register("ponderer", func(map[string]any) (env.Env, error) { return &ponderer{}, nil }))
			envs.SetRemote("ponderer")
			p := &rollout.Player{Policy: m, Envs: envs, Sampling: policy.Sampling{Temperature: 1, MaxTokens: 64}, MaxTurns: 4,
				UncountedRemote: true, Continuous: continuous}
			if !continuous {
				p.Patience = 5 * time.Millisecond
			}
			episodes := make([]rollout.Episode, 16)
			for i := range episodes {
				episodes[i] = rollout.Episode{Env: "ponderer", Seed: int64(i), Index: i, MaxTokens: 4 << (i % 5)}
			}
			play := func() {
				ts, _, err := p.Play(b.Context(), episodes, 1)
				require.NoError(b, err)
				require.Equal(b, len(ts), rollout.Count(ts).Usable)
			}
			play() // compiles
			for b.Loop() {
				play()
			}
		})
	}
}
