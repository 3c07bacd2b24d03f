package train_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/internal/traintest"
	"vagen/policy"
	"vagen/train"
	"vagen/train/track"
)

// TestCancellingEndsARun at every place where it waits. Earlier events are complete and in
// order, and nothing remains open.
func TestCancellingEndsARun(t *testing.T) {
	places := map[string]func(b *traintest.Bandit, a *traintest.Arena, stop func()){
		"generate": func(b *traintest.Bandit, _ *traintest.Arena, stop func()) {
			n := 0
			b.OnGenerate = func(ctx context.Context) error {
				if n++; n == 6 { // of two a step
					stop()
				}
				return ctx.Err()
			}
		},
		"environment": func(_ *traintest.Bandit, a *traintest.Arena, stop func()) {
			a.Fault = func(seed int64, _ int) error {
				if seed == 1_000_000+2*8 { // the first level of the third step
					stop()
				}
				return nil
			}
		},
		"score": func(b *traintest.Bandit, _ *traintest.Arena, stop func()) {
			n := 0
			b.OnScore = func(ctx context.Context) error {
				if n++; n == 3 {
					stop()
				}
				return ctx.Err()
			}
		},
		"update": func(b *traintest.Bandit, _ *traintest.Arena, stop func()) {
			b.Alter = func(*policy.Batch, *policy.Stats) error {
				if len(b.Updates) == 6 { // of two a step
					stop()
				}
				return nil
			}
		},
	}
	for place, arrange := range places {
		c := traintest.Small()
		c.Trainer.Steps, c.Trainer.OnInterrupt = 4, false
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		b, a := traintest.Guesser(), &traintest.Arena{}
		arrange(b, a, cancel)
		tr, j := traintest.Trainer(t, c, b, a)
		path := filepath.Join(t.TempDir(), "metrics.jsonl")
		lines, err := track.NewJSONLines(path)
		require.NoError(t, err)
		tr.Sinks = append(tr.Sinks, lines)
		tr.Checkpointer = failingSave()
		err = tr.Run(ctx)
		require.ErrorIs(t, err, context.Canceled, place)
		require.NotErrorIs(t, err, traintest.ErrBroken)
		require.Equal(t, []string{"step 1", "step 2"}, j.Kinds(), place)
		require.Empty(t, b.Opened, place)
		raw, err := os.ReadFile(path) // before it is closed
		require.NoError(t, err)
		var last struct {
			Kind string
			Step int
		}
		written := strings.Split(strings.TrimSpace(string(raw)), "\n")
		require.NoError(t, json.Unmarshal([]byte(written[len(written)-1]), &last))
		require.Equal(t, 2, last.Step, place)
		require.NoError(t, lines.Close())
	}
}

func TestARunWithACancelledContextDoesNothing(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(traintest.ErrBroken)
	a := &traintest.Arena{}
	tr, j := traintest.Trainer(t, traintest.Small(), traintest.Guesser(), a)
	require.ErrorIs(t, tr.Run(ctx), context.Canceled)
	require.Empty(t, *j)
}

// TestAFailingEnvironmentAffectsOnlyItsEpisode: of eight environments one fails, one panics and
// one hangs.
func TestAFailingEnvironmentAffectsOnlyItsEpisode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		a := &traintest.Arena{Fault: func(seed int64, turn int) error {
			switch seed - 1_000_000 {
			case 1:
				return traintest.ErrBroken
			case 2:
				panic(traintest.ErrBroken)
			case 3:
				if turn == 1 {
					<-release
				}
			}
			return nil
		}}
		c := traintest.Small()
		c.Run.Workers, c.Trainer.Steps = 3, 2
		b := traintest.Guesser()
		tr, j := traintest.Trainer(t, c, b, a)
		log := traintest.Logged(tr)
		require.NoError(t, tr.Run(t.Context()))
		close(release)
		m := (*j)[0].Metrics
		require.Equal(t, 8.0, m["train/episodes"])
		require.Equal(t, 3.0, m["train/unusable"])
		require.Equal(t, 1.0, m["train/end/env_error"])
		require.Equal(t, 1.0, m["train/end/contract_error"])
		require.Equal(t, 1.0, m["train/end/env_timeout"])
		require.Equal(t, 5.0, m["train/end/done"])
		require.Equal(t, 0.0, (*j)[1].Metrics["train/unusable"])
		require.Contains(t, log.String(), "some episodes cannot be used")
		require.Empty(t, b.Opened)
		rows := 0
		for _, u := range b.Updates[:2] {
			rows += u.Batch.Len()
		}
		require.Equal(t, 5, rows, "the others are trained on")
	})
}

// TestSkippedUpdatesInARowEndTheRun: an update that is not skipped resets the count.
func TestSkippedUpdatesInARowEndTheRun(t *testing.T) {
	for pattern, dies := range map[string]int{"ssgsss": 6, "sss": 3, "gssg": 0, "ssgssgssg": 0} {
		c := traintest.Small()
		c.Trainer.MaxSkipped, c.Agent.Actor.MiniBatch, c.Trainer.Steps = 3, 8, len(pattern)
		b := traintest.Guesser()
		b.Alter = func(_ *policy.Batch, s *policy.Stats) error {
			if s.Skipped = pattern[len(b.Updates)-1] == 's'; s.Skipped {
				s.GradNorm = math.Inf(1)
			}
			return nil
		}
		tr, _ := traintest.Trainer(t, c, b, nil)
		log := traintest.Logged(tr)
		err := tr.Run(t.Context())
		require.Equal(t, strings.Count(pattern, "s"), strings.Count(log.String(), "optimiser step skipped"))
		if dies == 0 {
			require.NoError(t, err, pattern)
			continue
		}
		testkit.Error(t, err, train.ErrDiverged, "3 optimiser steps in a row were skipped")
		require.Len(t, b.Updates, dies, pattern)
	}
}

// TestAMiniBatchWithoutALossIsNoSkippedUpdate: rejected tokens are no sign of divergence.
func TestAMiniBatchWithoutALossIsNoSkippedUpdate(t *testing.T) {
	c := traintest.Small()                // two mini-batches a step, three steps
	reject, bounds := "token_k1", "1.5_2" // equal log-probs are outside of them
	c.Algorithm.Correction.Reject, c.Algorithm.Correction.Thresholds = &reject, &bounds
	c.Algorithm.Estimator, c.Critic.Kind, c.Trainer.MaxSkipped = "reinforce_plus_plus", "none", 2
	b := traintest.Guesser()
	b.Alter = func(_ *policy.Batch, s *policy.Stats) error { s.Skipped = true; return nil }
	tr, j := traintest.Trainer(t, c, b, nil)
	log := traintest.Logged(tr)
	require.NoError(t, tr.Run(t.Context()))
	require.Equal(t, 6, strings.Count(log.String(), "no token of a mini-batch has a loss"))
	require.Empty(t, b.Updates)
	require.Equal(t, 1.0, (*j)[0].Metrics["rollout_corr/rollout_rs_masked_fraction"])
	require.NotContains(t, (*j)[0].Metrics, "train/trained_tokens")
}

func TestEvaluateReportsAShareAndItsError(t *testing.T) {
	b := traintest.Guesser()
	for k := range 3 { // knows two colours of three
		if k == 1 {
			continue
		}
		s := traintest.State(policy.Message{Role: policy.User, Text: fmt.Sprintf("<image> colour %d", k)})
		b.Prefs[s] = make([]float64, 4)
		b.Prefs[s][k] = 9
	}
	c := traintest.Small()
	c.Env.Config = map[string]any{"turns": uint64(1)}
	c.Data.ValBatch = 30
	tr, j := traintest.Trainer(t, c, b, nil)
	s, ts, err := tr.Evaluate(t.Context(), policy.Sampling{MaxTokens: 4})
	require.NoError(t, err)
	require.Len(t, ts, 30)
	require.Empty(t, *j, "no event")
	require.InDelta(t, 20.0/30, s.Rate, 1e-12, "greedy takes the first of equal words, which is wrong for colour 1")
	require.InDelta(t, math.Sqrt(2.0/9/30), s.Error, 1e-12)
	require.Equal(t, 30, s.Episodes)
	require.Equal(t, "0.67 ± 0.09", s.String())
	s.Episodes, s.Unusable = 20, 10
	require.Equal(t, "0.67 ± 0.09 of 20, 10 unusable", s.String(), "it says what it leaves out")
}

// TestValidationRepeatsItself: the same policy has the same result at every step.
func TestValidationRepeatsItself(t *testing.T) {
	b := traintest.Guesser()
	tr, j := traintest.Trainer(t, traintest.Small(), b, nil)
	require.NoError(t, tr.Validate(t.Context(), 1))
	require.NoError(t, tr.Validate(t.Context(), 9))
	m := traintest.Untimed(*j)
	require.Equal(t, m[0], m[1])
	require.Empty(t, b.Updates)
}
