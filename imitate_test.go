package vagen_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen"
	"vagen/env"
	"vagen/policy"
	"vagen/rollout"
)

// transcripts records episodes in which the right number is said.
func transcripts(t testing.TB, b *bandit, n int) []*rollout.Trajectory {
	t.Helper()
	episodes := make([]rollout.Episode, n)
	for i := range episodes {
		episodes[i] = rollout.Episode{Env: "guess", Config: map[string]any{"turns": uint64(2)}, Seed: int64(i), Group: i, MaxTurns: 2}
	}
	ts, err := rollout.Demonstrate(t.Context(), b, (&arena{}).registry(t), episodes, func(e env.Env, _ rollout.Episode, _ int) (string, error) {
		return fmt.Sprint(e.(*guess).colour()), nil
	})
	require.NoError(t, err)
	return ts
}

func lesson() vagen.Imitation {
	o := policy.DefaultOptimizer()
	o.Rate = 4
	return vagen.Imitation{Batch: 8, Epochs: 5, Optimizer: o, Every: 3, Seed: 1}
}

func TestImitationLearnsWhatIsShown(t *testing.T) {
	b := guesser()
	ts := transcripts(t, b, 30)
	var j journal
	require.NoError(t, vagen.Imitate(t.Context(), b, ts, lesson(), &j))
	require.Len(t, b.updates, 20, "five epochs of four batches")
	require.Equal(t, []string{"imitate 3", "imitate 6", "imitate 9", "imitate 12", "imitate 15", "imitate 18", "imitate 20"}, j.kinds(), "the last step reports, too")
	first, last := j[0].Metrics["imitate/loss"], j[len(j)-1].Metrics["imitate/loss"]
	require.Less(t, last, first/2)
	for _, e := range j {
		require.Equal(t, 20, e.Total)
		for _, name := range []string{"imitate/loss", "imitate/grad_norm", "imitate/lr", "time/step"} {
			require.Contains(t, e.Metrics, name)
		}
	}
	tr, _ := trainer(t, small(), b, &arena{})
	s, _, err := tr.Evaluate(t.Context(), policy.Sampling{MaxTokens: 4})
	require.NoError(t, err)
	require.Equal(t, 1.0, s.Rate)
}

// TestImitationWeighsResponsesAlone: every response token of a batch the same, and
// nothing else.
func TestImitationWeighsResponsesAlone(t *testing.T) {
	b := guesser()
	require.NoError(t, vagen.Imitate(t.Context(), b, transcripts(t, b, 20), lesson()))
	sizes := map[int]int{}
	for _, u := range b.updates {
		sizes[u.batch.Len()]++
		require.Equal(t, policy.Objective{Imitate: true, Temperature: 1}, u.objective)
		share := float32(1. / float64(4*u.batch.Len()))
		for i, token := range u.batch.Tokens {
			if token <= b.end() {
				require.Equal(t, share, u.batch.Weight[i])
			} else {
				require.Zero(t, u.batch.Weight[i])
			}
		}
		require.Len(t, u.batch.Images, u.batch.Len())
		require.Len(t, u.batch.Images[0], 2)
	}
	require.Equal(t, map[int]int{8: 10, 4: 5}, sizes)
}

func TestTheRateOfImitationRisesAndFalls(t *testing.T) {
	b := guesser()
	o := lesson()
	o.Warmup, o.Batch, o.Epochs = 4, 2, 1
	require.NoError(t, vagen.Imitate(t.Context(), b, transcripts(t, b, 20), o))
	want := []float64{1, 2, 3, 4, 4, 4, 4, 4, 4, 2.2} // tenth of ten steps: halfway down to 0.4
	for i, u := range b.updates {
		require.InDelta(t, want[i], u.optimizer.Rate, 1e-9, "step %d", i+1)
	}
}

// TestImitationIsKeyedByItsSeed: the same seed takes the transcripts in the same
// order, another one does not, and epochs differ.
func TestImitationIsKeyedByItsSeed(t *testing.T) {
	order := func(seed uint64) (out []string) {
		b := guesser()
		o := lesson()
		o.Seed, o.Batch, o.Epochs = seed, 1, 2
		require.NoError(t, vagen.Imitate(t.Context(), b, transcripts(t, b, 12), o))
		for _, u := range b.updates {
			out = append(out, fmt.Sprint(u.batch.Tokens))
		}
		return out
	}
	one := order(1)
	require.Equal(t, one, order(1))
	require.NotEqual(t, one, order(2))
	require.ElementsMatch(t, one[:12], one[12:])
	require.NotEqual(t, one[:12], one[12:])
}

func TestImitationReportsEveryTenthStepUnlessTold(t *testing.T) {
	b := guesser()
	o := lesson()
	o.Every, o.Batch, o.Epochs = 0, 1, 1
	var j journal
	require.NoError(t, vagen.Imitate(t.Context(), b, transcripts(t, b, 25), o, &j))
	require.Equal(t, []string{"imitate 10", "imitate 20", "imitate 25"}, j.kinds())
}

func TestImitationRefusesAndPassesOnErrors(t *testing.T) {
	b := guesser()
	ts := transcripts(t, b, 4)
	o := lesson()
	o.Batch = 0
	require.ErrorContains(t, vagen.Imitate(t.Context(), b, ts, o), "Batch 0 and Epochs 5 must be positive")
	o = lesson()
	o.Epochs = -1
	require.ErrorContains(t, vagen.Imitate(t.Context(), b, ts, o), "Batch 8 and Epochs -1 must be positive")
	require.ErrorContains(t, vagen.Imitate(t.Context(), b, nil, lesson()), "there are no transcripts")
	require.Empty(t, b.updates)
	broken := vagen.SinkFunc(func(vagen.Event) error { return errBroken })
	require.ErrorIs(t, vagen.Imitate(t.Context(), b, ts, lesson(), broken), errBroken)
	b.alter = func(*policy.Batch, *policy.Stats) error { return errBroken }
	require.ErrorIs(t, vagen.Imitate(t.Context(), b, ts, lesson()), errBroken)
	b.alter = nil
	ctx, cancel := context.WithCancel(t.Context())
	stop := vagen.SinkFunc(func(vagen.Event) error { cancel(); return nil })
	o = lesson()
	o.Every = 1
	before := len(b.updates)
	require.ErrorIs(t, vagen.Imitate(ctx, b, ts, o, stop), context.Canceled)
	require.Len(t, b.updates, before+2, "the learner sees the context")
}
