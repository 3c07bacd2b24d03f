package train_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/traintest"
	"vagen/policy"
	"vagen/rollout"
	"vagen/train/config"
)

// TestHarnessesTrain: with every harness the rows of an episode stay together, keep the order
// of turns, and each turn is rewarded once.
func TestHarnessesTrain(t *testing.T) {
	for harness, rows := range map[string]int{"concat": 1, "no_concat": 3, "window": 2, "compact": 2} {
		for _, estimator := range []string{"default_gae", "token_level_gae", "turn_level_gae", "no_concat_gae",
			"trajectory_bi_level_gae", "trajectory_grpo", "gigpo"} {
			c := traintest.Split(harness)
			c.Algorithm.Estimator = estimator
			b := traintest.Guesser()
			m := traintest.Run(t, c, b)[0].Metrics
			batch := b.Updates[0].Batch
			require.Equal(t, 24*rows, batch.Len(), "%s, %s", harness, estimator)
			require.Equal(t, 24.0, m["train/episodes"])
			require.Equal(t, 3.0, m["train/turns"], "summaries are no turns")
			if rows > 1 {
				require.Equal(t, float64(rows), m["train/rows"])
			}
			require.Equal(t, harness == "compact", m["train/summaries"] == 24, "one for each episode")
			advantages := 0
			for _, a := range batch.Advantages {
				if a != 0 {
					advantages++
				}
			}
			require.Positive(t, advantages)
		}
	}
}

// TestTheDefaultHarnessIsConcat compares all results.
func TestTheDefaultHarnessIsConcat(t *testing.T) {
	compute := func(set string) ([]map[string]uint64, []traintest.Update) {
		c := traintest.Split("concat")
		traintest.Set(t, &c, set)
		b := traintest.Guesser()
		j := traintest.Run(t, c, b)
		return traintest.Untimed(j), b.Updates
	}
	metrics, updates := compute("")
	for name, set := range map[string]string{
		"the older key": "trainer.concat_multi_turn=true",
		"a budget for all": "rollout_manager.max_trajectory_length=9999 data.max_prompt_length=99 " +
			"rollout_manager.max_env_response_per_turn=99",
		"a window over all":     "trainer.harness=window rollout_manager.window_size=3",
		"compaction, never due": "trainer.harness=compact trainer.compact_budget=9999",
		"limits never reached":  "run.retry=true run.env_timeout=100 run.episode_timeout=1000",
	} {
		m, u := compute(set)
		require.Equal(t, metrics, m, name)
		require.Equal(t, updates, u, name)
	}
	a, _ := compute("trainer.concat_multi_turn=false")
	b, _ := compute("trainer.harness=no_concat")
	require.Equal(t, b, a)
	require.NotEqual(t, metrics, a)
}

// TestARegisteredHarnessCanBeUsed: one that opens a conversation for every second turn.
func TestARegisteredHarnessCanBeUsed(t *testing.T) {
	r := rollout.Builtin()
	require.NoError(t, r.Register("pairs", func(rollout.HarnessOptions) (rollout.Harness, error) { return pairs{}, nil }))
	c := traintest.Split("pairs")
	require.ErrorIs(t, c.Validate(), rollout.ErrUnknownHarness)
	b := traintest.Guesser()
	tr, _ := traintest.Trainer(t, c, b, nil)
	tr.Registries = config.Registries{Harnesses: r}
	require.NoError(t, tr.Run(t.Context()))
	require.Equal(t, 2*24, b.Updates[0].Batch.Len())
	c.Algorithm.Estimator = "masked_gae"
	err := tr.Registries.Validate(&c)
	require.ErrorIs(t, err, rollout.ErrIncompatible, "unknown harnesses are checked too")
}

type pairs struct{ rollout.Concat }

func (pairs) Splits() bool { return true }
func (pairs) Next(s *rollout.State) (rollout.Request, error) {
	if len(s.Turns)%2 == 0 {
		return s.Open(s.WithInstructions(s.ObservationMessage())...), nil
	}
	return rollout.Request{Messages: []policy.Message{s.ObservationMessage()}}, nil
}

// TestUnusableStartStatesAreReplaced if more start states may be played than a step has, by
// levels that are not used otherwise.
func TestUnusableStartStatesAreReplaced(t *testing.T) {
	var failed atomic.Int64
	a := &traintest.Arena{Fault: func(seed int64, turn int) error {
		if seed%4 == 1 && turn == 1 {
			failed.Add(1)
			return traintest.ErrBroken
		}
		return nil
	}}
	c := traintest.Split("concat")
	c.Data.GenBatch, c.Trainer.Steps = c.Data.TrainBatch+2, 3
	b := traintest.Guesser()
	tr, j := traintest.Trainer(t, c, b, a)
	require.NoError(t, tr.Run(t.Context()))
	for _, e := range *j {
		require.Equal(t, 24.0, e.Metrics["train/episodes"])
		require.Zero(t, e.Metrics["train/unusable"])
		require.Greater(t, e.Metrics["train/played"], 24.0)
		require.Positive(t, e.Metrics["train/played_unusable"])
	}
	require.Positive(t, failed.Load())
	count := map[int64]int{}
	for _, seed := range a.Seeds {
		count[seed]++
		require.Less(t, seed, c.Env.Seed+int64(c.Trainer.Steps)*int64(4*c.Data.GenBatch))
	}
	for seed, n := range count {
		require.Equal(t, 3, n, "level %d is one start state", seed)
	}

	broken := &traintest.Arena{Fault: func(seed int64, _ int) error {
		if seed%4 != 0 {
			return traintest.ErrBroken
		}
		return nil
	}}
	tr, j = traintest.Trainer(t, c, traintest.Guesser(), broken)
	tr.Config.Data.GenBatch, tr.Config.Trainer.Steps = c.Data.TrainBatch, 1
	tr.Config.Agent.Actor.MiniBatch = 3
	require.NoError(t, tr.Run(t.Context()))
	require.LessOrEqual(t, (*j)[0].Metrics["train/episodes"], 24.0)
}

// TestFaultsAreRetriedOnRequest with environments that each fail once.
func TestFaultsAreRetriedOnRequest(t *testing.T) {
	for _, retry := range []bool{false, true} {
		var seen sync.Map
		a := &traintest.Arena{Fault: func(seed int64, turn int) error {
			if turn > 0 || seed%2 != 0 {
				return nil
			}
			if _, again := seen.LoadOrStore(seed, true); again {
				return nil
			}
			return traintest.ErrBroken
		}}
		c := traintest.Whole()
		c.Run.Workers, c.Run.Retry = 1, retry
		tr, j := traintest.Trainer(t, c, traintest.Guesser(), a)
		require.NoError(t, tr.Run(t.Context()))
		m := (*j)[0].Metrics
		require.Equal(t, retry, m["train/unusable"] == 0)
		require.Equal(t, retry, m["train/retried"] > 0)
	}
}

// uncounted hides the method Count of the bandit.
type uncounted struct{ policy.Learner }

func TestBudgetsAreCheckedAgainstTheModel(t *testing.T) {
	c := traintest.Split("concat")
	c.Data.MaxPrompt, c.Rollout.MaxTrajectory = 50, 150
	tr, _ := traintest.Trainer(t, c, traintest.Guesser(), nil)
	tr.Learner = uncounted{tr.Learner}
	require.ErrorIs(t, tr.Run(t.Context()), rollout.ErrNoCounter)

	c = traintest.Split("compact")
	c.Data.MaxPrompt, c.Rollout.MaxTrajectory = 50, 50+c.Data.MaxResponse+3 // the request takes two tokens
	tr, _ = traintest.Trainer(t, c, traintest.Guesser(), nil)
	require.ErrorIs(t, tr.Run(t.Context()), rollout.ErrCompactRegion)

	c = traintest.Split("concat")
	c.Data.MaxPrompt, c.Rollout.MaxTrajectory = 50, 50+2*c.Data.MaxResponse
	tr, _ = traintest.Trainer(t, c, traintest.Guesser(), nil)
	log := traintest.Logged(tr)
	require.NoError(t, tr.Run(t.Context()))
	require.Contains(t, log.String(), "does not fit the response region")
}
