package config_test

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/advantage"
	"vagen/internal/golden"
	"vagen/internal/traintest"
	"vagen/policy/loss"
	"vagen/train/config"
)

// reads is which settings each estimator and each loss reads, and values of the settings.
type reads struct{ Estimators, Hyperparameters, Losses, Settings map[string]string }

// TestHyperparametersThatTheEstimatorDoesNotReadAreRefused, for every estimator and every
// hyperparameter: accepted ones are read.
func TestHyperparametersThatTheEstimatorDoesNotReadAreRefused(t *testing.T) {
	table := golden.Table[reads](t, "reads.yaml")
	for _, name := range advantage.Names() {
		want, known := table.Estimators[name]
		require.True(t, known, "%s is new", name)
		turnGamma := strings.Contains(want, "high_level_gamma")
		if strings.Contains(" gae masked_gae grpo masked_grpo ", " "+name+" ") {
			want += " high_level_gamma" // which scripts give to these
		}
		base := []string{
			"env=x", "system=null", "algorithm.adv_estimator=" + name, "rollout_manager.n_trajectory=2",
			"critic.use_reward_mask=" + strconv.FormatBool(name == "turn_wise_gae"),
		}
		accepted, refused := slices.Clone(base), slices.Clone(base)
		var unread []string
		for key, value := range table.Hyperparameters {
			switch {
			case key == "gamma_turn": // another name of high_level_gamma
				_, err := config.Load("", append(slices.Clone(base), "algorithm.gamma_turn=0.9")...)
				require.Equal(t, turnGamma, err == nil, name)
			case strings.Contains(" "+want+" ", " "+key+" "):
				accepted = append(accepted, "algorithm."+key+"="+value)
			case key == "gamma" && strings.Contains(" trajectory_bi_level_gae bi_level_gae_varlam ", " "+name+" "):
				_, err := config.Load("", append(slices.Clone(base), "algorithm.gamma=0.9")...)
				require.ErrorContains(t, err, "has no discount per token")
			default:
				refused = append(refused, "algorithm."+key+"="+value)
				unread = append(unread, key)
			}
		}
		_, err := config.Load("", accepted...)
		require.NoError(t, err, name)
		_, err = config.Load("", refused...)
		for at, key := range unread {
			require.ErrorContains(t, err, "algorithm."+key+" is ", "%s %s", name, key)
			require.ErrorContains(t, err, fmt.Sprintf("(override %d, override 3", len(base)+at+1), "where both were given")
		}
		require.ErrorContains(t, err, "but algorithm.adv_estimator "+name+" does not read it; these do: ")
	}
}

// TestKeysOfNextsBiLevelGAEDoNotRunAnotherOne: with the published name they get
// the algorithm of their generation, or an error that names it.
func TestKeysOfNextsBiLevelGAEDoNotRunAnotherOne(t *testing.T) {
	keys := []string{"env=x", "algorithm.adv_estimator=bi_level_gae", "algorithm.bi_level_mix=0.75",
		"algorithm.lambda_turn=0.95"}
	_, err := config.Load("", keys...)
	require.ErrorContains(t, err, "algorithm.bi_level_mix is 0.75, but algorithm.adv_estimator bi_level_gae does not read it; these do: trajectory_bi_level_gae (bi_level_gae of system: next)")
	require.ErrorContains(t, err, "algorithm.lambda_turn is 0.95")
	c, err := config.Load("", append(keys, "system=next", "actor_rollout_ref.actor.ppo_mini_batch_size=32")...)
	require.NoError(t, err)
	require.Equal(t, "trajectory_bi_level_gae", c.Algorithm.Estimator)
}

// TestSettingsThatTheLossDoesNotReadAreRefused, for every loss and every setting.
func TestSettingsThatTheLossDoesNotReadAreRefused(t *testing.T) {
	const actor = "actor_rollout_ref.actor."
	table := golden.Table[reads](t, "reads.yaml")
	alias := map[string]string{"ppo": "vanilla", "geo_mean": "gmpo", "gpg": "reinforce"}
	for _, mode := range loss.Builtin().Names() {
		name := cmp.Or(alias[mode], mode)
		want, known := table.Losses[name]
		require.True(t, known, mode)
		base := []string{"env=x", "algorithm.adv_estimator=token_level_gae", actor + "policy_loss.loss_mode=" + mode}
		if p, err := loss.Builtin().New(mode, loss.DefaultOptions()); err == nil && loss.Teacher(p) {
			base = append(base, "algorithm.adv_estimator=reinforce_plus_plus", "critic.kind=none",
				"actor_rollout_ref.ref.model.path=T")
		}
		accepted, refused := slices.Clone(base), slices.Clone(base)
		var unread []string
		for key, value := range table.Settings {
			if key == "policy_loss.use_policy_gradient" && mode == "opd" {
				continue // it switches others off, see below
			}
			if strings.Contains(" "+want+" ", " "+strings.TrimPrefix(key, "policy_loss.")+" ") {
				accepted = append(accepted, actor+key+"="+value)
			} else {
				refused = append(refused, actor+key+"="+value)
				unread = append(unread, key)
			}
		}
		_, err := config.Load("", accepted...)
		require.NoError(t, err, mode)
		_, err = config.Load("", refused...)
		for _, key := range unread {
			require.ErrorContains(t, err, actor+key+" is ", mode)
		}
		require.ErrorContains(t, err, "loss_mode "+mode+" does not read it; these do: ")
	}
}

// TestSettingsThatOthersSwitchOffAreRefused, all at once.
func TestSettingsThatOthersSwitchOffAreRefused(t *testing.T) {
	_, err := config.Load("", "env=x", "reward.center=true", "algorithm.kl_penalty=mse", "algorithm.lambda_turn=0.5",
		"trainer.critic_warmup=101")
	require.Equal(t, 4, strings.Count(err.Error(), "\n")+1, err.Error())
	c, err := config.Load("", "env=x", "reward.center=false", "algorithm.lam=1", "actor_rollout_ref.model.lora_alpha=8")
	require.NoError(t, err, "values that ask for nothing")
	require.Contains(t, c.Notes[0].String(), "actor_rollout_ref.model.lora_rank is 0")
}

// TestSettingsThatOthersSwitchOffAreNotSilent: the first one gets an error, or a note if files of VAGEN have it anyway.
func TestSettingsThatOthersSwitchOffAreNotSilent(t *testing.T) {
	for _, set := range golden.Table[[]string](t, "noted.yaml") {
		args := strings.Fields(set)
		key, _, _ := strings.Cut(args[0], "=")
		c, err := config.Load("", append([]string{"env=x"}, args...)...)
		require.NoError(t, err, set)
		require.True(t, slices.ContainsFunc(c.Notes, func(n config.Note) bool {
			return slices.ContainsFunc(n.Keys, func(k string) bool { return strings.HasPrefix(key, k) })
		}), set)
	}
	c, err := config.Source{Preset: "vagen_full", Overrides: []string{"env=sokoban",
		"env.config.state_reward.judge_base_url=http://h/v1"}}.Load()
	require.NoError(t, err)
	require.Contains(t, warnings(c), "it is rules, so that judge_base_url", "the preset's scorer does not ask a model")
	c, err = config.Load("", "trainer.stage=sft", "sft.train_files=[a.jsonl]", "algorithm.adv_estimator=grpo")
	require.NoError(t, err)
	require.Empty(t, c.Notes, "supervised training reads neither estimator nor critic")
	_, err = config.Load("", "env=x", "stability.alarms.max_equal_groups=null", "trainer.metrics=[none]")
	require.NoError(t, err, "an alarm that is off needs no metric")
}

// TestPresetsGiveWayToAnotherEstimatorAndLoss: a preset's settings for its own estimator
// and loss do not contradict those that a run uses, and the run's file loads again.
func TestPresetSettingsReturnToDefaultsWithAnotherEstimatorOrLoss(t *testing.T) {
	c, err := config.Source{Preset: "next_bi_level", Overrides: []string{"env=x", "algorithm.adv_estimator=default_gae",
		"actor_rollout_ref.actor.policy_loss.loss_mode=gspo"}}.Load()
	require.NoError(t, err)
	require.Equal(t, 0.99, c.Algorithm.TurnGamma, "the default")
	require.Zero(t, c.Agent.Actor.ClipDual)
	raw, err := c.YAML()
	require.NoError(t, err)
	again, err := config.Load(traintest.WriteFile(t, string(raw)))
	require.NoError(t, err)
	require.Equal(t, c.Algorithm, again.Algorithm)
	_, err = config.Load(traintest.WriteFile(t, string(raw)), "algorithm.lambda_turn=0.5")
	require.ErrorContains(t, err, "algorithm.lambda_turn is 0.5, but")
	c, err = config.Load(traintest.WriteFile(t, strings.Replace(string(raw), "lambda_turn: 0.95", "lambda_turn: 0.5", 1)))
	require.NoError(t, err, "a file with every key does not tell what was chosen")
	require.Contains(t, warnings(c), "algorithm.lambda_turn")
}

// TestAnotherEngineIsWarnedOf: files of VAGEN name an engine, which generation does not use.
func TestAnotherEngineGetsAWarning(t *testing.T) {
	for _, name := range []string{"vllm", "sglang", "hf"} {
		c, err := config.Load("", "env=x", "actor_rollout_ref.rollout.name="+name)
		require.NoError(t, err)
		require.Contains(t, warnings(c), "responses are generated by the trained model in this process (xla): "+name+
			" is not started")
	}
	c, err := config.Load("", "env=x", "actor_rollout_ref.rollout.name=xla")
	require.NoError(t, err)
	require.Empty(t, warnings(c))
	_, err = config.Load("", "env=x", "actor_rollout_ref.rollout.name=tgi")
	require.Error(t, err)
}
