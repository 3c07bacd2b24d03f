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
	"vagen/internal/traintest"
	"vagen/policy/loss"
	"vagen/train/config"
)

// TestHyperparametersThatTheEstimatorDoesNotReadAreRefused, for every estimator and every
// hyperparameter: accepted ones are read.
func TestHyperparametersThatTheEstimatorDoesNotReadAreRefused(t *testing.T) {
	read := map[string]string{ // by estimators, without whiten and epsilon
		"gae": "gamma lam", "masked_gae": "gamma lam", "lite_gae": "gamma lam",
		"bi_level_gae":  "gamma lam high_level_gamma gamma_turn",
		"turn_wise_gae": "lam high_level_gamma gamma_turn", "grpo": "norm_adv_by_std_in_grpo",
		"masked_grpo": "norm_adv_by_std_in_grpo", "lite_grpo": "norm_adv_by_std_in_grpo",
		"grpo_passk": "pass_k norm_adv_by_std_in_grpo", "rloo": "", "opo": "", "gpg": "", "reinforce_plus_plus": "gamma",
		"reinforce_plus_plus_baseline": "", "remax": "",
		"gigpo": "gamma step_advantage_w norm_adv_by_std_in_grpo", "no_concat_gae": "gamma lam",
		"no_concat_gae_last": "gamma lam", "no_concat_gae_first": "gamma lam", "default_gae": "gamma lam",
		"token_level_gae": "gamma lam", "turn_level_gae": "gamma lam",
		"trajectory_bi_level_gae": "gamma_turn high_level_gamma lambda_turn lambda_token bi_level_mix",
		"grpo_ragen":              "norm_adv_by_std_in_grpo", "gdpo": "norm_adv_by_std_in_grpo", "gdpo_trl": "", "maxrl_skyrl": "",
		"max_rl_prime": "", "reinforce_plus_plus_slime": "gamma",
		"optimal_token_baseline": "handle_zero_tail", "tir_optimal_token_baseline": "handle_zero_tail", "rae": "decay",
		"grpo_prime":          "num_output_tokens_weight num_input_tokens_weight num_turns_weight",
		"hgpo":                "gamma history_length length_weight_alpha base_group norm_adv_by_std_in_grpo",
		"graphgpo":            "gamma step_advantage_w episode_advantage_w normalize_distance norm_adv_by_std_in_grpo",
		"bi_level_gae_varlam": "lambda_turn lambda_token", "bi_level_gae_published": "gamma lam high_level_gamma gamma_turn",
		"trajectory_grpo": "norm_adv_by_std_in_grpo",
	}
	values := map[string]string{
		"gamma": "0.9", "lam": "0.9", "high_level_gamma": "0.9", "gamma_turn": "0.9", "lambda_turn": "0.9",
		"lambda_token": "0.9",
		"bi_level_mix": "0.9", "step_advantage_w": "0.5", "pass_k": "2", "norm_adv_by_std_in_grpo": "false",
		"episode_advantage_w": "0.5", "normalize_distance": "true", "history_length": "3", "length_weight_alpha": "2",
		"base_group": "true", "num_output_tokens_weight": "0.5", "num_input_tokens_weight": "0.5", "num_turns_weight": "0.5",
		"handle_zero_tail": "false", "decay": "0.5",
	}
	for _, name := range advantage.Names() {
		want, known := read[name]
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
		for key, value := range values {
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
	read := map[string]string{
		"vanilla": "clip_ratio_low clip_ratio_c clamp_log_ratio", "gspo": "clip_ratio_low", "turn_gspo": "clip_ratio_low",
		"turn_ppo": "clip_ratio_low", "cispo": "clip_ratio_low",
		"sapo": "tau_pos tau_neg", "gmpo": "clip_ratio_low",
		"clip_cov": "clip_ratio_low clip_cov_ratio clip_cov_lb clip_cov_ub", "kl_cov": "kl_cov_ratio ppo_kl_coef",
		"reinforce": "",
		"dppo_tv":   "clip_ratio_low clip_ratio_c", "dppo_kl": "clip_ratio_low clip_ratio_c", "luspo": "clip_ratio_low delta",
		"dppo_prime": "dppo_mask_low dppo_mask_high adv_tau kl_tau", "ipo": "ipo_threshold adv_tau kl_tau", "dro": "dro_beta",
		"vespo": "vespo_k_pos vespo_lambda_pos vespo_k_neg vespo_lambda_neg", "dppo_skyrl": "delta_low delta_high dppo_type",
		"opd":    "clip_ratio_low clip_ratio_c clamp_log_ratio distillation_loss_mode topk log_prob_min_clamp loss_max_clamp use_policy_gradient",
		"sdft":   "distillation_alpha distillation_topk distillation_add_tail distillation_is_clip num_loss_tokens_to_skip",
		"ref_kl": "dppo_mask_low kl_tau",
		"m2po":   "clip_ratio_low clip_ratio_c clamp_log_ratio m2_threshold",
	}
	values := map[string]string{
		"clip_ratio_low": "0.1", "clip_ratio_c": "4", "tau_pos": "3", "tau_neg": "3", "policy_loss.clamp_log_ratio": "false",
		"policy_loss.clip_cov_ratio": "0.1", "policy_loss.clip_cov_lb": "0.5", "policy_loss.clip_cov_ub": "6",
		"policy_loss.kl_cov_ratio": "0.1", "policy_loss.ppo_kl_coef": "0.2", "policy_loss.dro_beta": "0.7",
		"policy_loss.dppo_mask_low": "0.1", "policy_loss.dppo_mask_high": "0.1", "policy_loss.adv_tau": "2",
		"policy_loss.kl_tau": "0.5", "policy_loss.ipo_threshold": "0.3", "policy_loss.vespo_k_pos": "1",
		"policy_loss.vespo_lambda_pos": "1", "policy_loss.vespo_k_neg": "1", "policy_loss.vespo_lambda_neg": "1",
		"policy_loss.delta": "2", "policy_loss.delta_low": "0.1", "policy_loss.delta_high": "0.1",
		"policy_loss.dppo_type": "binary_kl", "policy_loss.m2_threshold": "0.1",
		"policy_loss.distillation_loss_mode": "forward_kl_topk", "policy_loss.topk": "5",
		"policy_loss.log_prob_min_clamp": "-5",
		"policy_loss.distillation_alpha": "0.7", "policy_loss.distillation_topk": "5",
		"policy_loss.distillation_add_tail": "true", "policy_loss.distillation_is_clip": "1.5",
		"policy_loss.loss_max_clamp": "1", "policy_loss.use_policy_gradient": "false",
		"policy_loss.num_loss_tokens_to_skip": "3",
	}
	alias := map[string]string{"ppo": "vanilla", "geo_mean": "gmpo", "gpg": "reinforce"}
	for _, mode := range loss.Builtin().Names() {
		name := cmp.Or(alias[mode], mode)
		want, known := read[name]
		require.True(t, known, mode)
		base := []string{"env=x", "algorithm.adv_estimator=token_level_gae", actor + "policy_loss.loss_mode=" + mode}
		if p, err := loss.Builtin().New(mode, loss.DefaultOptions()); err == nil && loss.Teacher(p) {
			base = append(base, "algorithm.adv_estimator=reinforce_plus_plus", "critic.kind=none",
				"actor_rollout_ref.ref.model.path=T")
		}
		accepted, refused := slices.Clone(base), slices.Clone(base)
		var unread []string
		for key, value := range values {
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

// TestSettingsThatTheModeOfDistillationDoesNotReadAreRefused, though the loss has a mode that does.
func TestSettingsThatTheModeOfDistillationDoesNotReadAreRefused(t *testing.T) {
	const lossKeys = "actor_rollout_ref.actor.policy_loss."
	for set, want := range map[string]string{
		"opd topk=5":                "distillation_loss_mode k3 does not read it",
		"opd log_prob_min_clamp=-5": "distillation_loss_mode k3 does not read it",
		"sdft distillation_mode=full_logits distillation_topk=5":                        "distillation_mode full_logits does not read it",
		"sdft distillation_mode=forward_cross_entropy distillation_alpha=0.1":           "distillation_mode forward_cross_entropy does not read it",
		"sdft distillation_mode=sampled_token distillation_alpha=1 distillation_topk=5": "distillation_mode sampled_token does not read it",
		"opd distillation_loss_mode=forward_kl_topk topk=5":                             "", "sdft distillation_topk=5": "",
		"gspo distillation_loss_coef=1 topk=5":                                             "distillation_loss_mode k3 does not read it",
		"gspo distillation_loss_coef=1 dro_beta=5":                                         "loss_mode gspo does not read it",
		"gspo distillation_loss_coef=1 distillation_loss_mode=forward_kl_topk topk=5":      "",
		"opd use_policy_gradient=false clamp_log_ratio=false":                              "clamp_log_ratio is false, but actor_rollout_ref.actor.policy_loss.use_policy_gradient is false",
		"gspo distillation_loss_coef=1 use_policy_gradient=false clamp_log_ratio=false":    "policy_loss.use_policy_gradient is false",
		"opd use_policy_gradient=false distillation_clip_ratio_low=0.05":                   "distillation_clip_ratio_low is 0.05, but actor_rollout_ref.actor.policy_loss.use_policy_gradient is false",
		"vanilla distillation_clip_ratio_low=0.1":                                          "loss_mode vanilla does not read it",
		"vanilla distillation_loss_coef=1 distillation_clip_ratio_low=0.05":                "",
		"vanilla distillation_loss_coef=1 use_policy_gradient=false clamp_log_ratio=false": "", "opd use_policy_gradient=false loss_max_clamp=1": "",
	} {
		mode, keys, _ := strings.Cut(set, " ")
		args := []string{"env=x", "algorithm.adv_estimator=reinforce_plus_plus", "critic.kind=none",
			"actor_rollout_ref.ref.model.path=T",
			lossKeys + "loss_mode=" + mode}
		for _, key := range strings.Fields(keys) {
			args = append(args, lossKeys+key)
		}
		if _, err := config.Load("", args...); want == "" {
			require.NoError(t, err, set)
		} else {
			require.ErrorContains(t, err, want, set)
		}
	}
}

// TestSettingsWithoutEffectBesideOthersAreRefused: those of the estimator and the clip range, by the other's name.
func TestSettingsWithoutEffectBesideOthersAreRefused(t *testing.T) {
	const actor, teacher = "actor_rollout_ref.actor.", "critic.kind=none actor_rollout_ref.ref.model.path=T "
	for set, want := range map[string]string{
		"adv_estimator=grpo norm_adv_by_std_in_grpo=false epsilon=0.5": "algorithm.epsilon is 0.5, but algorithm.norm_adv_by_std_in_grpo is false",
		"adv_estimator=hgpo norm_adv_by_std_in_grpo=false epsilon=0.5": "",
		"adv_estimator=grpo epsilon=0.5":                               "",
		"adv_estimator=gigpo step_advantage_w=0 gamma=0.5":             "algorithm.gamma is 0.5, but algorithm.step_advantage_w is 0",
		"adv_estimator=hgpo history_length=0 length_weight_alpha=2":    "algorithm.length_weight_alpha is 2.0, but algorithm.history_length is 0",
		"adv_estimator=trajectory_bi_level_gae bi_level_mix=0 lambda_turn=0.5": "algorithm.lambda_turn is 0.5, but " +
			"algorithm.bi_level_mix is 0",
	} {
		args := []string{"env=x", "rollout_manager.n_trajectory=2"}
		for _, key := range strings.Fields(set) {
			args = append(args, "algorithm."+key)
		}
		if _, err := config.Load("", args...); want == "" {
			require.NoError(t, err, set)
		} else {
			require.ErrorContains(t, err, want)
			require.NotContains(t, err.Error(), "\n", set)
		}
	}
	for set, want := range map[string]string{
		actor + "clip_ratio=0.3 " + actor + "clip_ratio_low=0.2 " + actor + "clip_ratio_high=0.4": "clip_ratio is 0.3, but " +
			actor + "clip_ratio_low takes its place",
		actor + "clip_ratio=0.3 " + actor + "clip_ratio_low=0.2": "",
		teacher + actor + "policy_loss.loss_mode=ref_kl algorithm.lam=0.5": "algorithm.lam is 0.5, but " + actor +
			"policy_loss.loss_mode is ref_kl, which reads no advantages",
		teacher + actor + "policy_loss.loss_mode=ref_kl algorithm.adv_estimator=gdpo algorithm.gdpo_reward_keys=[a]": "is ref_kl",
		teacher + "algorithm.distillation.kl_penalty_coef=1 algorithm.distillation.use_task_rewards=false algorithm.whiten=false": "whiten " +
			"is false, but algorithm.distillation.use_task_rewards is false",
		teacher + actor + "policy_loss.loss_mode=ref_kl algorithm.adv_estimator=reinforce_plus_plus algorithm.gamma=0.5 " +
			"data.pools.gate=advantage_range": "",
	} {
		if _, err := config.Load("", append([]string{"env=x"}, strings.Fields(set)...)...); want == "" {
			require.NoError(t, err, set)
		} else {
			require.ErrorContains(t, err, want)
			require.NotContains(t, err.Error(), "\n", set)
		}
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
	const (
		actor, val = "actor_rollout_ref.actor.", "actor_rollout_ref.rollout.val_kwargs."
		shared     = " critic.kind=shared"
		taught     = " trainer.stage=sft sft.train_files=[a.jsonl]"
		block      = " env.config.state_reward.state_estimation.enable=true env.config.state_reward.scorer=rules"
		servers    = " actor_rollout_ref.rollout.name=vllm actor_rollout_ref.rollout.engine.addresses=[http://h:1]"
	)
	noted := []string{
		"critic.optim.lr=0.5" + shared, "critic.optim.beta1=0.5" + shared, "critic.ppo_micro_batch_size_per_gpu=2" + shared,
		"critic.use_dynamic_bsz=true" + shared, "critic.ppo_max_token_len_per_gpu=9" + shared,
		"critic.ppo_max_token_len_per_gpu=9", "critic.ppo_micro_batch_size_per_gpu=2 critic.use_dynamic_bsz=true",
		actor + "ppo_micro_batch_size_per_gpu=2 " + actor + "use_dynamic_bsz=true",
		val + "top_p=0.5 " + val + "temperature=0", val + "top_k=5 " + val + "temperature=0",
		"reward.credit_site=section_end" + block, "reward.aggregation=episode_mean" + block,
		"rollout_manager.use_gae_mask=false", "run.workers=3 rollout_manager.use_service=true",
		"rollout_manager.max_workers=3 rollout_manager.use_service=true run.queue=nats://h:4222",
		"data.shuffle=false", "data.base_seed=3", "data.truncation=left", "data.pools.unseen=0 data.pools.share=0.5",
		"trainer.total_epochs=3", "trainer.n_gpus_per_node=4 model.devices=1", "trainer.best_actor_metric=val/success",
		"trainer.max_actor_ckpt_to_keep=3 trainer.remove_previous_ckpt_in_save=true",
		"trainer.max_critic_ckpt_to_keep=1 trainer.max_critic_ckpt_to_keep=null" + shared,
		"trainer.val_log_select=worst trainer.log_val_generations=0",
		"trainer.val_log_success_ratio=0.3 trainer.log_val_generations=0", "trainer.log_image.png_compress_level=1",
		"trainer.log_image.disk_quota_mb=1", "trainer.log_image.max_pending=3", "huggingface_hub.private=true", "huggingface_hub.upload_contents=[adapter]",
		"model.cache_tokens=9" + servers, "model.tokens_per_call=2" + servers, "model.draft_tokens=1" + servers,
		"model.node_timeout=9", "model.part_per_device=true model.devices=1", "model.shard_weights=true model.devices=1",
		"model.compile_cache=off model.backend=go", "filter.filter_kwargs.top_p=0.5", "trainer.n_gpus_per_node=4",
		"trainer.total_training_steps=3" + taught, "trainer.total_epochs=3" + taught, "trainer.test_freq=3" + taught,
		"trainer.save_freq=3" + taught, "sft.val_files=[b.jsonl] sft.test_freq=0" + taught,
	}
	for _, set := range noted {
		args := strings.Fields(set)
		key, _, _ := strings.Cut(args[0], "=")
		c, err := config.Load("", append([]string{"env=x"}, args...)...)
		require.NoError(t, err, set)
		require.True(t, slices.ContainsFunc(c.Notes, func(n config.Note) bool {
			return slices.ContainsFunc(n.Keys, func(k string) bool { return strings.HasPrefix(key, k) })
		}), set)
	}
	for _, set := range []string{
		"stability.spike.max_rollbacks=9 stability.spike.metric=actor/entropy",
		"stability.alarms.max_equal_groups=0.5", "stability.alarms.min_length=0.5 trainer.metrics=[none]",
		"stability.alarms.max_equal_groups=0.5 trainer.metrics=[entropy] rollout_manager.n_trajectory=2",
		"actor_rollout_ref.rollout.engine.check_limit=1 actor_rollout_ref.rollout.engine.check_responses=0" + servers,
	} {
		args := strings.Fields(set)
		key, _, _ := strings.Cut(args[0], "=")
		_, err := config.Load("", append([]string{"env=x"}, args...)...)
		require.ErrorContains(t, err, key+" is ", set)
		require.NotContains(t, err.Error(), "\n", set)
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
