package train_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/floats"
	"vagen/internal/traintest"
	"vagen/policy"
	"vagen/rollout"
	"vagen/train"
	"vagen/train/config"
	"vagen/train/track"
)

func TestARunReportsInOrder(t *testing.T) {
	c := traintest.Small()
	c.Trainer.ValBefore, c.Trainer.TestFreq, c.Trainer.SaveFreq, c.Trainer.Steps = true, 2, 2, 5
	b := traintest.Guesser()
	tr, j := traintest.Trainer(t, c, b, nil)
	var saved []int
	var watched []string
	h := traintest.Hooks{
		OnBegin: func(_ context.Context, s train.State) (*train.Pending, error) {
			saved = append(saved, s.Step)
			return nil, nil
		},
		OnValidated: func(step int, ts []*rollout.Trajectory) error {
			watched = append(watched, fmt.Sprint(step, " ", len(ts)))
			return nil
		},
	}
	tr.Checkpointer, tr.Observer = h, h
	require.NoError(t, tr.Run(t.Context()))
	require.Equal(t, []string{
		"validate 0", "step 1", "step 2", "validate 2", "save 2", "step 3", "step 4", "validate 4", "save 4", "step 5",
		"validate 5", "save 5",
	}, j.Kinds())
	require.Equal(t, []int{2, 4, 5}, saved)
	require.Equal(t, []string{"0 6", "2 6", "4 6", "5 6"}, watched)
	for _, e := range *j {
		require.Equal(t, 5, e.Total, "%s", e.Kind)
	}
	require.Empty(t, b.Opened)
}

// TestValidationsAndCheckpointsAreOnSchedule, also if the last step is not a multiple of the
// frequencies.
func TestValidationsAndCheckpointsAreOnSchedule(t *testing.T) {
	for _, c := range []struct {
		test, save, steps int
		before            bool
		want              string
	}{
		{0, 0, 2, false, "step 1,step 2,save 2"},
		{-1, -1, 1, true, "validate 0,step 1"},
		{1, 1, 2, false, "step 1,validate 1,save 1,step 2,validate 2,save 2"},
		{5, 5, 2, false, "step 1,step 2,validate 2,save 2"},
		{5, 5, 0, true, "validate 0"},
	} {
		cfg := traintest.Small()
		cfg.Trainer.TestFreq, cfg.Trainer.SaveFreq, cfg.Trainer.Steps, cfg.Trainer.ValBefore = c.test, c.save, c.steps,
			c.before
		tr, j := traintest.Trainer(t, cfg, traintest.Guesser(), nil)
		tr.Checkpointer = traintest.Hooks{}
		require.NoError(t, tr.Run(t.Context()))
		require.Equal(t, c.want, strings.Join(j.Kinds(), ","), "%+v", c)
	}
}

func TestFailuresOfTheCallersPartsEndTheRun(t *testing.T) {
	for name, spoil := range map[string]func(*train.Trainer, *traintest.Bandit){
		"sink": func(tr *train.Trainer, _ *traintest.Bandit) {
			tr.Sinks = append(tr.Sinks, track.SinkFunc(func(track.Event) error { return traintest.ErrBroken }))
		},
		"save": func(tr *train.Trainer, _ *traintest.Bandit) {
			tr.Checkpointer = failingSave()
		},
		"watch": func(tr *train.Trainer, _ *traintest.Bandit) {
			tr.Observer = traintest.Hooks{OnValidated: func(int, []*rollout.Trajectory) error { return traintest.ErrBroken }}
		},
		"generate": func(_ *train.Trainer, b *traintest.Bandit) {
			b.OnGenerate = func(context.Context) error { return traintest.ErrBroken }
		},
		"score": func(_ *train.Trainer, b *traintest.Bandit) {
			b.OnScore = func(context.Context) error { return traintest.ErrBroken }
		},
		"update": func(_ *train.Trainer, b *traintest.Bandit) {
			b.Alter = func(*policy.Batch, *policy.Stats) error { return traintest.ErrBroken }
		},
	} {
		c := traintest.Small()
		c.Trainer.TestFreq = 1
		b := traintest.Guesser()
		tr, _ := traintest.Trainer(t, c, b, nil)
		spoil(tr, b)
		require.ErrorIs(t, tr.Run(t.Context()), traintest.ErrBroken, name)
		require.Empty(t, b.Opened, name)
	}
}

func TestMissingPartsOfATrainerAreReported(t *testing.T) {
	for _, spoil := range []func(*train.Trainer){
		func(tr *train.Trainer) { tr.Learner = nil },
		func(tr *train.Trainer) { tr.Envs = nil },
		func(tr *train.Trainer) { tr.Config.Env.Name = "" },
	} {
		tr, j := traintest.Trainer(t, traintest.Small(), traintest.Guesser(), nil)
		spoil(tr)
		require.ErrorIs(t, tr.Run(t.Context()), config.ErrConfig)
		require.ErrorIs(t, tr.Validate(t.Context(), 0), config.ErrConfig)
		_, _, err := tr.Evaluate(t.Context(), policy.Sampling{MaxTokens: 4})
		require.ErrorIs(t, err, config.ErrConfig)
		require.Empty(t, *j)
	}
}

// TestMetricsOfAStep: metrics have VAGEN's names, and the parts of a step's time add up to the
// whole.
func TestMetricsOfAStep(t *testing.T) {
	c := traintest.Small()
	c.Trainer.TestFreq = 1
	c.Agent.Actor.ClipDual, c.Agent.Actor.UseKLLoss = 3, true
	for _, e := range traintest.Run(t, c, traintest.Guesser()) {
		want := []string{
			"val/episodes", "val/unusable", "val/end/done", "val/success", "val/turns", "val/response_tokens",
			"val/context_tokens",
			"val/reward/guess", "val/score", "val/format_correct", "val/truncated", "time/validate",
		}
		if e.Kind == "step" {
			want = []string{
				"train/episodes", "train/unusable", "train/end/done", "train/success", "train/turns", "train/response_tokens",
				"train/context_tokens", "train/reward/guess", "train/score", "train/format_correct", "train/truncated",
				"train/trained_tokens",
				"actor/pg_loss", "actor/entropy", "actor/ppo_kl", "actor/pg_clipfrac", "actor/pg_clipfrac_lower", "actor/grad_norm",
				"actor/ratio_max",
				"actor/kl_loss", "actor/lr", "critic/vf_loss", "critic/vf_clipfrac", "explained_variance",
				"time/rollout", "time/env", "time/logprobs", "time/update",
			}
		}
		parts := 0.0
		for name, x := range e.Metrics {
			require.False(t, !floats.Finite(x), "%s is %v", name, x)
			if strings.HasPrefix(name, "time/") && name != "time/step" {
				parts += x
			}
		}
		for _, name := range append(want, "time/rest", "time/step") {
			require.Contains(t, e.Metrics, name, e.Kind)
		}
		require.Equal(t, e.Kind == "step", e.Metrics["perf/host_memory_peak_mb"] > 0, e.Kind)
		require.InDelta(t, e.Metrics["time/step"], parts, 1e-9)
	}
}

// TestForcedTokensAreNotLearned: the bandit's end token, on which the turn's reward is placed, is
// marked as forced. The word before it is still learned, and the critic learns both.
func TestForcedTokensAreNotLearned(t *testing.T) {
	for _, estimator := range []string{"masked_gae", "bi_level_gae"} {
		c := traintest.Small()
		c.Algorithm.Estimator, c.Agent.Rollout.Thinking, c.Agent.Rollout.ThinkOpen = estimator, 1, ""
		b := traintest.Guesser()
		forced := 0.0
		for _, e := range traintest.Run(t, c, b).Steps() {
			forced += e.Metrics["train/forced_tokens"]
		}
		require.Positive(t, forced)
		require.NotEmpty(t, b.Updates)
		words := 0
		for _, u := range b.Updates {
			for i, id := range u.Batch.Tokens {
				switch {
				case b.IsWord(id):
					words++
					require.Positive(t, u.Batch.Weight[i])
					require.Positive(t, u.Batch.ValueWeight[i])
					require.NotZero(t, u.Batch.Advantages[i])
				case id == b.End():
					require.Zero(t, u.Batch.Weight[i], "%s: a forced token", estimator)
					require.Positive(t, u.Batch.ValueWeight[i])
				}
			}
		}
		require.Positive(t, words)
	}
}

// TestMetricsCountWhatWasPlayed compares the metrics of a step with its episodes: the system
// prompt, and two turns of two context and two response tokens.
func TestMetricsCountWhatWasPlayed(t *testing.T) {
	c := traintest.Small()
	c.Trainer.Steps = 1
	m := traintest.Run(t, c, traintest.Guesser())[0].Metrics
	require.Equal(t, 8.0, m["train/episodes"])
	require.Equal(t, 8.0, m["train/end/done"])
	require.Equal(t, 0.0, m["train/unusable"])
	require.Equal(t, 2.0, m["train/turns"])
	require.Equal(t, 8*2*2.0, m["train/response_tokens"])
	require.Equal(t, 8*3*2.0, m["train/context_tokens"])
	require.Equal(t, 8*(2*2+3*2)*1.0, m["train/trained_tokens"])
	require.Equal(t, m["train/reward/guess"], m["train/score"])
	wrong := (2 - m["train/score"]) / 1.5 // turns that were wrong, per episode
	require.InDelta(t, math.Round(8*wrong), 8*wrong, 1e-9)
}

// TestTheBanditLearns: from chance, 1/16, to knowing every colour.
func TestTheBanditLearns(t *testing.T) {
	for _, estimator := range []string{"bi_level_gae", "masked_gae", "turn_wise_gae", "grpo", "reinforce_plus_plus"} {
		c := traintest.Small()
		c.Algorithm.Estimator, c.Rollout.Trajectories = estimator, 4
		c.Critic.OnTurnEnds = estimator == "turn_wise_gae"
		c.Data.TrainBatch, c.Data.ValBatch, c.Agent.Actor.MiniBatch = 16, 128, 32
		c.Agent.Rollout.Val.Temperature = 1
		c.Trainer.Steps, c.Trainer.TestFreq, c.Trainer.ValBefore = 30, 30, true
		j := traintest.Run(t, c, traintest.Guesser())
		require.Less(t, j[0].Metrics["val/success"], 0.2, estimator)
		require.Greater(t, j[len(j)-1].Metrics["val/success"], 0.9, estimator)
		require.Equal(t, 30, j[len(j)-1].Step)
	}
}

// TestFrozenLakeIsLearned trains on a real environment, a small map with one hole.
func TestFrozenLakeIsLearned(t *testing.T) {
	c := traintest.Small()
	c.Env.Name = "frozenlake"
	c.Env.Config = map[string]any{"rules": "lite", "render_mode": "text", "desc": []any{"SFF", "HFF", "HFG"},
		"hole_penalty": 0.5, "turn_cost": 0.1}
	c.Rollout.MaxTurns = 6
	c.Data.TrainBatch, c.Data.ValBatch, c.Agent.Actor.MiniBatch = 128, 64, 32
	c.Trainer.Steps, c.Trainer.TestFreq, c.Trainer.ValBefore = 40, 40, true
	j := traintest.Run(t, c, traintest.Walker())
	require.Less(t, j[0].Metrics["val/success"], 0.5)
	require.Greater(t, j[len(j)-1].Metrics["val/success"], 0.9)
}

// TestTrainingNeverSeesValidationLevels follows every reset of a run.
func TestTrainingNeverSeesValidationLevels(t *testing.T) {
	c := traintest.Small()
	c.Rollout.Trajectories = 2
	c.Env.Seed, c.Env.ValSeed = 100, 94
	c.Trainer.ValBefore, c.Trainer.TestFreq = true, 1
	a := &traintest.Arena{}
	tr, _ := traintest.Trainer(t, c, traintest.Guesser(), a)
	require.NoError(t, tr.Run(t.Context()))
	count := map[int64]int{}
	for _, seed := range a.Seeds {
		count[seed]++
	}
	want := map[int64]int{}
	for seed := int64(94); seed < 100; seed++ {
		want[seed] = 4 // before, and after each of three steps
	}
	for seed := int64(100); seed < 124; seed++ {
		want[seed] = 2 // n_trajectory, in one step alone
	}
	require.Equal(t, want, count)
}

func TestEpisodesOfAGroupDiffer(t *testing.T) {
	c := traintest.Small()
	c.Rollout.Trajectories = 4
	b := traintest.Guesser()
	traintest.Run(t, c, b)
	seen := map[uint64]bool{}
	for _, s := range b.Seeds {
		require.False(t, seen[s], "no two responses draw from the same seed")
		seen[s] = true
	}
	require.Len(t, seen, 3*8*4*2)
}

// TestSameSeedSameMetrics: the number of workers, of waves and of processors
// changes no bit of a run; the seed does.
func TestSameSeedSameMetrics(t *testing.T) {
	play := func(spoil func(*config.Config)) ([]map[string]uint64, []traintest.Update) {
		c := traintest.Small()
		c.Trainer.TestFreq, c.Trainer.ValBefore = 1, true
		c.Algorithm.KLInReward = true
		spoil(&c)
		b := traintest.Guesser()
		j := traintest.Run(t, c, b)
		return traintest.Untimed(j), b.Updates
	}
	metrics, updates := play(func(c *config.Config) { c.Run.Workers = 1 })
	for _, procs := range []int{1, 2} {
		before := runtime.GOMAXPROCS(procs)
		for _, workers := range []int{1, 2, 8} {
			for _, waves := range []int{1, 3} {
				m, u := play(func(c *config.Config) { c.Run.Workers, c.Run.Waves = workers, waves })
				require.Equal(t, metrics, m, "%d processors, %d workers, %d waves", procs, workers, waves)
				require.Equal(t, updates, u)
			}
		}
		runtime.GOMAXPROCS(before)
	}
	other, _ := play(func(c *config.Config) { c.Run.Seed++ })
	require.NotEqual(t, metrics, other)
}

// TestScoresThatWereNotRequestedAreNotRead: learners may return anything there.
func TestScoresThatWereNotRequestedAreNotRead(t *testing.T) {
	for _, estimator := range []string{"bi_level_gae", "masked_gae", "turn_wise_gae", "gae", "lite_gae", "token_level_gae",
		"grpo"} {
		c := traintest.Small()
		c.Algorithm.Estimator, c.Algorithm.KLInReward, c.Rollout.Trajectories = estimator, true, 2
		c.Critic.OnTurnEnds = estimator == "turn_wise_gae"
		clean, poisoned := traintest.Guesser(), traintest.Guesser()
		poisoned.Poison = true
		require.Equal(t, traintest.Untimed(traintest.Run(t, c, clean)), traintest.Untimed(traintest.Run(t, c, poisoned)),
			estimator)
	}
}

// TestPlainGAEAsksForValuesOfObservations: its recursion includes them, whatever the loss mask.
func TestPlainGAEAsksForValuesOfObservations(t *testing.T) {
	for estimator, all := range map[string]bool{"gae": true, "masked_gae": false, "bi_level_gae": false} {
		c := traintest.Small()
		c.Algorithm.Estimator = estimator
		b := traintest.Guesser()
		traintest.Run(t, c, b)
		for _, a := range b.Asked {
			for row := range a.Rows.Len() {
				for i := a.Rows.Offsets[row]; i < a.Rows.Offsets[row+1]; i++ {
					response := a.Rows.Tokens[i] <= b.End()
					require.Equal(t, i > a.Rows.Offsets[row] && (all || response), a.Want[i], "%s: token %d of row %d", estimator, i,
						row)
				}
			}
		}
	}
}

// TestACheckpointWithoutAChannelIsComplete: waiting for it does not hang.
func TestACheckpointWithoutAChannelIsComplete(t *testing.T) {
	full := errors.New("disk full")
	require.NoError(t, new(train.Pending).Wait())
	require.ErrorIs(t, (&train.Pending{Err: full}).Wait(), full)
}

// failingSave is a Checkpointer whose checkpoints fail.
func failingSave() traintest.Hooks {
	return traintest.Hooks{OnBegin: func(context.Context, train.State) (*train.Pending, error) {
		return nil, traintest.ErrBroken
	}}
}
