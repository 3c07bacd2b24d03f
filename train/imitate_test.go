package train_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/internal/traintest"
	"vagen/policy"
	"vagen/rollout"
	"vagen/train"
	"vagen/train/track"
)

// transcripts records episodes with correct answers.
func transcripts(t testing.TB, b *traintest.Bandit, n int) train.Transcripts {
	t.Helper()
	episodes := make([]rollout.Episode, n)
	for i := range episodes {
		episodes[i] = rollout.Episode{Env: "guess", Config: map[string]any{"turns": uint64(2)}, Seed: int64(i), Group: i,
			MaxTurns: 2}
	}
	ts, err := rollout.Demonstrate(t.Context(), b, (&traintest.Arena{}).Registry(t), episodes,
		func(e env.Env, _ rollout.Episode, _ int) (string, error) {
			return fmt.Sprint(e.(*traintest.Guess).Colour()), nil
		})
	require.NoError(t, err)
	return func(_ context.Context, members []int) (out []*rollout.Trajectory, _ error) {
		for _, i := range members {
			out = append(out, ts[i])
		}
		return out, nil
	}
}

func lesson() train.Imitation {
	o := policy.DefaultOptimizer()
	o.Rate = 4
	return train.Imitation{Batch: 8, Epochs: 5, Optimizer: o, Every: 3, Seed: 1}
}

func TestImitationLearnsWhatIsShown(t *testing.T) {
	b := traintest.Guesser()
	ts := transcripts(t, b, 30)
	var j traintest.Journal
	require.NoError(t, train.Imitate(t.Context(), b, 30, ts, lesson(), &j))
	require.Len(t, b.Updates, 20, "five epochs of four batches")
	require.Equal(t, []string{"imitate 3", "imitate 6", "imitate 9", "imitate 12", "imitate 15", "imitate 18",
		"imitate 20"}, j.Kinds(), "the last step reports, too")
	first, last := j[0].Metrics["imitate/loss"], j[len(j)-1].Metrics["imitate/loss"]
	require.Less(t, last, first/2)
	for _, e := range j {
		require.Equal(t, 20, e.Total)
		for _, name := range []string{"imitate/loss", "imitate/grad_norm", "imitate/lr", "time/step"} {
			require.Contains(t, e.Metrics, name)
		}
	}
	tr, _ := traintest.Trainer(t, traintest.Small(), b, nil)
	s, _, err := tr.Evaluate(t.Context(), policy.Sampling{MaxTokens: 4})
	require.NoError(t, err)
	require.Equal(t, 1.0, s.Rate)
}

// TestImitationWeighsOnlyResponses: every response token of a batch has the same weight, and
// other tokens have none.
func TestImitationWeighsOnlyResponses(t *testing.T) {
	b := traintest.Guesser()
	require.NoError(t, train.Imitate(t.Context(), b, 20, transcripts(t, b, 20), lesson()))
	sizes := map[int]int{}
	for _, u := range b.Updates {
		sizes[u.Batch.Len()]++
		require.Equal(t, policy.Objective{Imitate: true, Temperature: 1}, u.Objective)
		share := float32(1. / float64(4*u.Batch.Len()))
		for i, token := range u.Batch.Tokens {
			if token <= b.End() {
				require.Equal(t, share, u.Batch.Weight[i])
			} else {
				require.Zero(t, u.Batch.Weight[i])
			}
		}
		require.Len(t, u.Batch.Images, u.Batch.Len())
		require.Len(t, u.Batch.Images[0], 2)
	}
	require.Equal(t, map[int]int{8: 10, 4: 5}, sizes)
}

func TestTheRateOfImitationRisesAndFalls(t *testing.T) {
	b := traintest.Guesser()
	o := lesson()
	o.Warmup, o.Batch, o.Epochs = 4, 2, 1
	require.NoError(t, train.Imitate(t.Context(), b, 20, transcripts(t, b, 20), o))
	want := []float64{1, 2, 3, 4, 4, 4, 4, 4, 4, 2.2} // tenth of ten steps: halfway down to 0.4
	for i, u := range b.Updates {
		require.InDelta(t, want[i], u.Optimizer.Rate, 1e-9, "step %d", i+1)
	}
}

// TestImitationIsKeyedByItsSeed: the order of transcripts is the same for equal seeds, differs
// for others, and differs between epochs.
func TestImitationIsKeyedByItsSeed(t *testing.T) {
	order := func(seed uint64) (out []string) {
		b := traintest.Guesser()
		o := lesson()
		o.Seed, o.Batch, o.Epochs = seed, 1, 2
		require.NoError(t, train.Imitate(t.Context(), b, 12, transcripts(t, b, 12), o))
		for _, u := range b.Updates {
			out = append(out, fmt.Sprint(u.Batch.Tokens))
		}
		return out
	}
	one := order(1)
	require.Equal(t, one, order(1))
	require.NotEqual(t, one, order(2))
	require.ElementsMatch(t, one[:12], one[12:])
	require.NotEqual(t, one[:12], one[12:])
}

func TestImitationReportsEveryTenthStepByDefault(t *testing.T) {
	b := traintest.Guesser()
	o := lesson()
	o.Every, o.Batch, o.Epochs = 0, 1, 1
	var j traintest.Journal
	require.NoError(t, train.Imitate(t.Context(), b, 25, transcripts(t, b, 25), o, &j))
	require.Equal(t, []string{"imitate 10", "imitate 20", "imitate 25"}, j.Kinds())
}

func TestImitationRefusesAndPassesOnErrors(t *testing.T) {
	b := traintest.Guesser()
	ts := transcripts(t, b, 4)
	o := lesson()
	o.Batch = 0
	require.ErrorContains(t, train.Imitate(t.Context(), b, 4, ts, o), "Batch 0 and Epochs 5 must be positive")
	o = lesson()
	o.Epochs = -1
	require.ErrorContains(t, train.Imitate(t.Context(), b, 4, ts, o), "Batch 8 and Epochs -1 must be positive")
	require.ErrorContains(t, train.Imitate(t.Context(), b, 0, ts, lesson()), "no transcripts, at least one is needed")
	lost := func(context.Context, []int) ([]*rollout.Trajectory, error) { return nil, traintest.ErrBroken }
	require.ErrorIs(t, train.Imitate(t.Context(), b, 4, lost, lesson()), traintest.ErrBroken)
	fewer := func(ctx context.Context, members []int) ([]*rollout.Trajectory, error) { return ts(ctx, members[1:]) }
	require.ErrorContains(t, train.Imitate(t.Context(), b, 4, fewer, lesson()),
		"3 transcripts were returned, 4 were asked for")
	require.Empty(t, b.Updates)
	broken := track.SinkFunc(func(track.Event) error { return traintest.ErrBroken })
	require.ErrorIs(t, train.Imitate(t.Context(), b, 4, ts, lesson(), broken), traintest.ErrBroken)
	b.Alter = func(*policy.Batch, *policy.Stats) error { return traintest.ErrBroken }
	require.ErrorIs(t, train.Imitate(t.Context(), b, 4, ts, lesson()), traintest.ErrBroken)
	b.Alter = nil
	ctx, cancel := context.WithCancel(t.Context())
	stop := track.SinkFunc(func(track.Event) error { cancel(); return nil })
	o = lesson()
	o.Every = 1
	before := len(b.Updates)
	require.ErrorIs(t, train.Imitate(ctx, b, 4, ts, o, stop), context.Canceled)
	require.Len(t, b.Updates, before+2, "the learner sees the context")
}
