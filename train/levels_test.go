package train_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env/dataset"
	"vagen/internal/testkit"
	"vagen/internal/traintest"
	"vagen/train"
	"vagen/train/config"
)

// listed writes a list of environments: two variants of the guessing game.
func listed(t testing.TB, n int) string {
	t.Helper()
	return traintest.WriteFile(t, fmt.Sprintf(`
envs:
  - {name: guess, n_envs: %d, seed: [1, 100, 1], data_source: short, max_turns: 1, config: {turns: 2}}
  - {name: Guess, n_envs: 2, seed: [500], data_source: long, config: {turns: 3}}
`, n))
}

// fromFiles is a configuration of a small run with files.
func fromFiles(t testing.TB, tn string, overrides ...string) (config.Config, error) {
	val := traintest.WriteFile(t, "envs: [{name: guess, n_envs: 5, seed: [900, 990, 1], config: {turns: 2}}]")
	return config.Load("", append([]string{
		"data.train_files=" + tn, "data.val_files=[" + val + "]", "data.train_batch_size=3", "data.val_batch_size=2",
		"data.max_response_length=4", "run.workers=1",
		"actor_rollout_ref.actor.ppo_mini_batch_size=3", "actor_rollout_ref.actor.optim.lr=0.5",
	}, overrides...)...)
}

func TestEpisodesComeFromFiles(t *testing.T) {
	c, err := fromFiles(t, listed(t, 6), "trainer.total_epochs=3", "trainer.test_freq=-1")
	require.NoError(t, err)
	a, b := &traintest.Arena{}, traintest.Guesser()
	tr, j := traintest.Trainer(t, c, b, a)
	require.NoError(t, tr.Run(t.Context()))
	require.Equal(t, []string{"validate 0", "step 1", "step 2", "step 3", "step 4", "step 5", "step 6"}, j.Kinds(),
		"3 epochs of 8 episodes in steps of 3")
	val, tn := a.Seeds[:5], a.Seeds[5:]
	for _, s := range val {
		require.True(t, s >= 900 && s <= 990)
	}
	require.Len(t, tn, 18)
	for epoch := range slices.Chunk(tn, 6) {
		slices.Sort(epoch)
		require.Len(t, slices.Compact(epoch), 6, "no episode comes twice in an epoch")
	}
	require.NotEqual(t, tn[:6], tn[6:12])

	in, err := fromFiles(t, listed(t, 6), "trainer.total_epochs=1", "trainer.test_freq=-1", "data.shuffle=false",
		"trainer.val_before_train=false")
	require.NoError(t, err)
	a = &traintest.Arena{}
	tr, _ = traintest.Trainer(t, in, traintest.Guesser(), a)
	require.NoError(t, tr.Run(t.Context()))
	l, err := dataset.Load(t.Context(), in.Data.TrainFiles[0], 0, dataset.Options{})
	require.NoError(t, err)
	for i, seed := range a.Seeds {
		require.Equal(t, l[i].Seed, seed, "unshuffled, the file's order")
	}
}

func TestParquetAndListsAreTheSame(t *testing.T) {
	list := listed(t, 6)
	episodes, err := dataset.Load(t.Context(), list, 0, dataset.Options{Known: []string{"guess"}})
	require.NoError(t, err)
	table := filepath.Join(t.TempDir(), "train.parquet")
	require.NoError(t, dataset.SaveParquet(table, episodes, dataset.ParquetOptions{JSON: true}))
	played := func(path string) []int64 {
		c, err := fromFiles(t, path, "trainer.total_training_steps=2", "trainer.val_before_train=false",
			"trainer.test_freq=-1")
		require.NoError(t, err)
		a := &traintest.Arena{}
		tr, _ := traintest.Trainer(t, c, traintest.Guesser(), a)
		require.NoError(t, tr.Run(t.Context()))
		return a.Seeds
	}
	require.Equal(t, played(list), played(table))
}

func TestFilesCompleteTheConfiguration(t *testing.T) {
	path := traintest.WriteFile(t, `
envs:
  - {name: guess, n_envs: 7, seed: [1, 100, 1], response_length_per_turn: 3, config: {turns: 2, state_reward: {state_estimation: {enable: true, reward: 0.25}, scorer: exact, credit_site: turn_end, aggregation: episode_mean, score_base: 0.5}}}
`)
	c, err := fromFiles(t, path, "data.max_response_length=9", "data.max_prompt_length=5", "env.config.extra=1")
	require.NoError(t, err)
	require.Equal(t, -1, c.Trainer.Steps)
	l, err := train.OpenLevels(t.Context(), &c, []string{"guess"})
	require.NoError(t, err)
	require.Equal(t, 60, c.Trainer.Steps, "30 epochs of two steps")
	require.Equal(t, 3, c.Data.PerTurn)
	require.Equal(t, "episode_mean", c.Reward.Aggregate)
	require.Equal(t, 0.5, l.State.Base)
	first := l.First()
	require.Equal(t, 3, first.MaxTokens)
	require.Equal(t, map[string]any{"turns": int64(2), "extra": uint64(1), "use_state_reward": true,
		"grounding_reward_weight": 0.25, "worldmodeling_reward_weight": 0.0, "rules": "next"}, first.Config)
	require.Equal(t, "guess", l.String())
	require.Len(t, l.Validation(), 5)
}

// TestEntriesAddToTheDefaultsOfTheirEnvironment: options of env.defaults, then env.config,
// then the entry's; a block state_reward of the defaults acts as one of the entry.
func TestEntriesAddToTheDefaultsOfTheirEnvironment(t *testing.T) {
	const block = "{state_estimation: {enable: true, reward: 0.25}, scorer: exact, credit_site: turn_end, aggregation: episode_mean}"
	open := func(entry string, overrides ...string) (*train.Levels, config.Config) {
		t.Helper()
		path := traintest.WriteFile(t, "envs: [{name: guess, n_envs: 5, config: "+entry+"}]")
		c, err := fromFiles(t, path, append(overrides, "data.val_files=["+path+"]")...)
		require.NoError(t, err)
		l, err := train.OpenLevels(t.Context(), &c, []string{"guess", "other"})
		require.NoError(t, err)
		return l, c
	}
	l, _ := open("{turns: 2}", "env.defaults={guess: {turns: 3, extra: 1}, other: {turns: 4}}", "env.config.more=5")
	require.Equal(t, map[string]any{"turns": int64(2), "extra": uint64(1), "more": uint64(5)}, l.First().Config)
	l, c := open("{turns: 2}", "env.defaults={guess: {state_reward: "+block+"}}")
	require.Equal(t, map[string]any{"turns": int64(2), "use_state_reward": true, "grounding_reward_weight": 0.25,
		"worldmodeling_reward_weight": 0.0, "rules": "next"}, l.First().Config)
	require.Equal(t, "exact", l.State.Scorer)
	require.Equal(t, "episode_mean", c.Reward.Aggregate)
	l, c = open("{turns: 2}", "env.defaults={guess: {use_state_reward: true}}", "env.config.state_reward.scorer=exact",
		"env.config.state_reward.credit_site=section_end")
	require.Equal(t, 0.5, l.First().Config["grounding_reward_weight"], "the block changes what the defaults pay for")
	require.Equal(t, []string{"exact", "section_end"}, []string{l.State.Scorer, c.Reward.Site})
	l, _ = open("{turns: 2, use_state_reward: false}", "env.defaults={guess: {state_reward: "+block+"}}")
	require.Equal(t, map[string]any{"turns": int64(2), "use_state_reward": false}, l.First().Config,
		"the entry replaces the block")
	require.Nil(t, l.State)

	path := traintest.WriteFile(t, "envs: [{name: guess, n_envs: 5, config: {turns: 2}}]")
	c, err := fromFiles(t, path, "env.defaults={gues: {turns: 3}}")
	require.NoError(t, err)
	_, err = train.OpenLevels(t.Context(), &c, []string{"guess", "other"})
	require.ErrorContains(t, err, `env.defaults: environment "gues" is unknown, did you mean "guess"?`)
}

func TestFilesLimitThinking(t *testing.T) {
	path := traintest.WriteFile(t, "envs: [{name: guess, n_envs: 4, thinking_token_budget: 2, config: {turns: 2}}]")
	open := func(overrides ...string) (config.Config, error) {
		c, err := fromFiles(t, path, append(overrides, "data.val_files=["+path+"]")...)
		require.NoError(t, err)
		_, err = train.OpenLevels(t.Context(), &c, []string{"guess"})
		return c, err
	}
	c, err := open()
	require.NoError(t, err)
	require.Equal(t, 2, c.Agent.Rollout.Thinking)
	_, err = open("actor_rollout_ref.rollout.thinking_token_budget=2")
	require.NoError(t, err, "equal values do not contradict each other")
	_, err = open("actor_rollout_ref.rollout.thinking_token_budget=3")
	require.ErrorContains(t, err, "thinking_token_budget of guess is 2, but actor_rollout_ref.rollout.thinking_token_budget is 3")
}

func TestBadFilesAreReportedTogether(t *testing.T) {
	for want, tn := range map[string]string{
		"data.train_files: ": filepath.Join(t.TempDir(), "none.yaml"),
		`environment "gues" is unknown, did you mean "guess"?`: traintest.WriteFile(t,
			"envs: [{name: gues, n_envs: 5}]"),
		"data.train_files have 2 episodes, data.train_batch_size is 3": traintest.WriteFile(t,
			"envs: [{name: guess, n_envs: 2, config: {turns: 2}}]"),
		"thinking_token_budget is set for only one of guess and guess": traintest.WriteFile(t,
			"envs: [{name: guess, n_envs: 3, thinking_token_budget: 5, config: {turns: 2}}]"),
		"thinking_token_budget of guess and guess is 5 and 6": traintest.WriteFile(t,
			"envs: [{name: guess, n_envs: 3, thinking_token_budget: 5, config: {turns: 2}}, {name: guess, n_envs: 3, thinking_token_budget: 6, config: {turns: 2}}]"),
		"thinking_token_budget of guess is 0": traintest.WriteFile(t,
			"envs: [{name: guess, n_envs: 3, thinking_token_budget: 0, config: {turns: 2}}]"),
		"episode 0 (guess): stop_strings is set, but is supported only for models behind an API": traintest.WriteFile(t,
			"envs: [{name: guess, n_envs: 3, stop_strings: [x], config: {turns: 2}}]"),
		"episode 3 (guess): state_reward differs": traintest.WriteFile(t,
			"envs: [{name: guess, n_envs: 3, config: {state_reward: {state_estimation: {enable: true}, scorer: exact}}}, {name: guess, n_envs: 3, config: {state_reward: {state_estimation: {enable: true}, scorer: exact, score_base: 0.1}}}]"),
	} {
		c, err := fromFiles(t, tn)
		require.NoError(t, err)
		_, err = train.OpenLevels(context.Background(), &c, []string{"guess"})
		testkit.Error(t, err, config.ErrConfig, want)
	}
	c, err := fromFiles(t, listed(t, 6), "actor_rollout_ref.rollout.val_kwargs.n=1000000")
	require.NoError(t, err)
	_, err = train.OpenLevels(context.Background(), &c, []string{"guess"})
	require.ErrorContains(t, err, "data.val_files have 5 episodes, and actor_rollout_ref.rollout.val_kwargs.n is 1000000: a validation may have at most 4194304")
}

// TestStartStatesDoNotDependOnWhatElseIsCollected: the steps of several epochs, read at the same
// time and in any order, have the start states that each has alone.
func TestStartStatesDoNotDependOnWhatElseIsCollected(t *testing.T) {
	c, err := fromFiles(t, listed(t, 6), "trainer.total_epochs=9", "trainer.test_freq=-1")
	require.NoError(t, err)
	open := func() *train.Levels {
		l, err := train.OpenLevels(t.Context(), &c, nil)
		require.NoError(t, err)
		return l
	}
	const steps = 24 // more epochs than orders are kept
	var want [steps + 1][3]int64
	for step := 1; step <= steps; step++ {
		l := open()
		for g := range 3 {
			want[step][g] = l.At(step, g).Seed
		}
	}
	shared := open()
	var got [steps + 1][3]int64
	var wg sync.WaitGroup
	for g := range 3 {
		wg.Go(func() {
			for i := range steps {
				step := 1 + (i*7+g*5)%steps
				got[step][g] = shared.At(step, g).Seed
			}
		})
	}
	wg.Wait()
	require.Equal(t, want, got)
}

func TestTheZeroValueHasNoStartStates(t *testing.T) {
	var l train.Levels
	require.Zero(t, l.First())
	require.Empty(t, l.Validation())
	require.Empty(t, l.Samples(3))
	require.Zero(t, l.ValidatedAtOnce())
	require.Empty(t, l.String())
}
