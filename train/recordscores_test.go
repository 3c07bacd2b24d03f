package train_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/traintest"
	"vagen/rollout"
	"vagen/rollout/store"
)

// TestScoresAreThoseOfTheUpdate compares what is recorded with what the learner got, and
// with a run that records nothing.
func TestScoresAreThoseOfTheUpdate(t *testing.T) {
	learn := func(record bool) (*traintest.Bandit, traintest.Journal, []store.Scores, []*rollout.Trajectory) {
		c := traintest.Split("no_concat")
		dir := "episodes" // the observer writes nothing
		c.Trainer.RolloutScores, c.Trainer.RolloutDir, c.Trainer.Steps = record, &dir, 1
		c.Agent.Actor.UseKLLoss, c.Agent.Actor.MiniBatch, c.Agent.Actor.Epochs = true, c.Data.TrainBatch, 1
		b := traintest.Guesser()
		tr, j := traintest.Trainer(t, c, b, nil)
		tr.Handled = append(tr.Handled, "trainer.")
		var scores []store.Scores
		var played []*rollout.Trajectory
		tr.Observer = traintest.Hooks{
			OnPlayed:    func(_ int, ts []*rollout.Trajectory) error { played = append(played, ts...); return nil },
			OnEstimated: func(_ int, s []store.Scores) error { scores = append(scores, s...); return nil },
		}
		require.NoError(t, tr.Run(t.Context()))
		return b, *j, scores, played
	}
	plain, metrics, none, _ := learn(false)
	require.Empty(t, none)
	b, same, scores, played := learn(true)
	require.Equal(t, metrics[0].Metrics["critic/score/mean"], same[0].Metrics["critic/score/mean"])
	require.Equal(t, plain.Updates, b.Updates, "recording changes no update")

	rows := map[[3]int]*rollout.Row{}
	for _, p := range played {
		for r := range p.Rows {
			rows[[3]int{p.Group, p.Index, r}] = &p.Rows[r]
		}
	}
	require.Len(t, scores, len(rows))
	got := map[string]int{}
	for _, s := range scores {
		row := rows[[3]int{s.Group, s.Index, s.Row}]
		require.NotNil(t, row)
		require.Equal(t, row.Len(), s.Len())
		for i, scored := range s.Scored {
			if !scored {
				require.Zero(t, s.OldLogProbs[i]+s.Reference[i]+s.Entropy[i])
			}
			require.True(t, scored || !s.Loss[i], "a token with a loss is scored")
		}
		got[fmt.Sprint(s.OldLogProbs, s.Advantages, s.Returns)]++
		require.Positive(t, slices.Max(s.Entropy))
	}
	want := map[string]int{}
	for _, u := range b.Updates {
		for i := range u.Batch.Len() {
			from, to := u.Batch.Offsets[i], u.Batch.Offsets[i+1]
			want[fmt.Sprint(u.Batch.OldLogProbs[from:to], u.Batch.Advantages[from:to], u.Batch.Returns[from:to])]++
		}
	}
	require.Equal(t, want, got)
}
