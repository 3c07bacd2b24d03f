package config

import (
	"strings"

	"vagen/advantage"
	"vagen/internal/field"
	"vagen/internal/settings"
	"vagen/reward"
	"vagen/train/config/internal/vagen"
)

// Validate reports all values out of range and all contradictions between settings,
// with their keys.
func (c *Config) Validate() error { return Registries{}.Validate(c) }

// problems lists all errors. r has all registries.
func (c *Config) problems(r Registries) []error {
	v := validator{}
	checked := *c
	if c.Run.Queue == "" { // then all of them have no effect
		checked.Run.QueueOptions = Default().Run.QueueOptions
	}
	settings.Check(&v.Checks, &checked)
	v.ranges(c)
	v.names(c, r)
	v.supervised(c)
	v.batching(c)
	if c.Trainer.Stage != StageSFT { // which reads none of these settings
		v.optimizers(c)
		v.shaping(c, r)
		v.contradictions(c, r)
		v.levels(c)
		v.losses(c, r)
		v.playing(c, r)
		v.engine(c)
		v.rounded(c)
		v.drafts(c)
		v.queue(c)
		v.continuous(c)
	}
	v.logging(c)
	v.saving(c)
	v.stability(c)
	settings.CheckCounts(&v.Checks, c) // for all stages, because another one may use a stored configuration
	if v.Err() == nil {                // the estimator's own check needs valid settings
		if _, err := r.Estimators.New(c.Algorithm.Estimator, c.Algorithm.Params); err != nil {
			v.Say("{algorithm.adv_estimator}: %w", err)
		}
	}
	return v.Errors()
}

type validator struct{ field.Checks }

// thinking checks the limit on thinking against the limit on responses.
func (v *validator) thinking(c *Config) {
	r, perTurn := &c.Agent.Rollout, c.PerTurn()
	switch {
	case r.Thinking < 0:
		v.Say("{actor_rollout_ref.rollout.thinking_token_budget} is %d, must not be negative", r.Thinking)
	case r.Thinking > 0 && r.ThinkClose == "":
		v.Say("{actor_rollout_ref.rollout.thinking_token_budget} is %d, but {actor_rollout_ref.rollout.thinking_close} is empty: there is no tag to close thinking with", r.Thinking)
	case r.Thinking > 0 && perTurn > 0 && r.Thinking >= perTurn:
		v.Say("{actor_rollout_ref.rollout.thinking_token_budget} is %d, but a response has at most %d tokens: it would never be reached", r.Thinking, perTurn)
	}
}

func (v *validator) ranges(c *Config) {
	a := &c.Agent.Actor
	if n := c.Model.Devices; n != 0 && n != 1 && n != 2 && n != 4 && n != 8 {
		v.Say("{model.devices} is %d, must be 0, 1, 2, 4 or 8", n)
	}
	if c.Model.SameBytes && c.Model.PerDevice {
		v.Say("{model.part_per_device} and {model.same_bytes} are both true: the first divides work into one part for each device, the second always into eight")
	}
	v.nodes(c)
	c.Model.CheckPrograms(&v.Checks, "model.", "model.backend")
	if k := c.Algorithm.PassK; k > c.Rollout.Trajectories {
		v.Say("{algorithm.pass_k} is %d, but {rollout_manager.n_trajectory} is %d: a group needs at least pass_k episodes", k,
			c.Rollout.Trajectories)
	}
	// A clip_ratio_low of 1 has no effect: ratios are positive.
	// Those of DPPO are bounds of two other distances.
	dppo := strings.HasPrefix(a.Loss.Mode, "dppo")
	if o := a.lossOptions(); !dppo && o.ClipLow > o.ClipHigh && o.ClipLow < 1 && o.ClipHigh >= 0 {
		v.Say("{actor_rollout_ref.actor.clip_ratio_low} is %v, but {actor_rollout_ref.actor.clip_ratio_high} is %v: it must not be larger (null uses clip_ratio)", o.ClipLow, o.ClipHigh)
	}
	r := &c.Agent.Rollout
	v.thinking(c)
	switch x := r.Val.Temperature; {
	case x > 0 && x < 1e-9:
		v.Say("{actor_rollout_ref.rollout.val_kwargs.temperature} is %v, must be in [1e-9, 1e6], or 0", x)
	case x == 0 && r.Val.Episodes > 1:
		v.Say("{actor_rollout_ref.rollout.val_kwargs.n} is %d, but {actor_rollout_ref.rollout.val_kwargs.temperature} is 0: all episodes of a level would be the same", r.Val.Episodes)
	}
}

// optimizers checks the optimisers of reinforcement learning.
func (v *validator) optimizers(c *Config) {
	v.optim("actor_rollout_ref.actor.optim", &c.Agent.Actor.Optim, "trainer.total_training_steps", c.Trainer.Steps)
	v.optim("critic.optim", &c.Critic.Optim, "trainer.total_training_steps", c.Trainer.Steps)
}

// optim checks an optimiser whose schedule has a number of steps, which key sets.
func (v *validator) optim(group string, o *OptimConfig, key string, steps int) {
	if steps > 0 && o.WarmupSteps > steps {
		v.Say("{%s.lr_warmup_steps} is %d, but {%s} is %d: the learning rate would never reach %v", group, o.WarmupSteps, key,
			steps, o.Rate)
	}
}

func (v *validator) names(c *Config, r Registries) {
	v.OneOf("system", c.System, append([]string{""}, vagen.Generations()...)...)
	if _, err := r.Estimators.Describe(c.Algorithm.Estimator); err != nil {
		v.Say("{algorithm.adv_estimator}: %w", err)
	}
	if m := c.Agent.Model; m.LoRARank < 0 || m.LoRARank > 0 && !(m.LoRAAlpha > 0) {
		v.Say("{actor_rollout_ref.model.lora_rank} is %d and {actor_rollout_ref.model.lora_alpha} is %v; lora_rank must be 0 or more, and lora_alpha positive when it is above 0", m.LoRARank, m.LoRAAlpha)
	}
	if m := c.Agent.Model; m.LoRARank > 0 && m.Adapter != "" {
		v.Say("{actor_rollout_ref.model.lora_rank} is %d, but the adapter in {actor_rollout_ref.model.lora_adapter_path} has its own rank: set lora_rank to 0", m.LoRARank)
	}
	v.kl("algorithm.kl_penalty", c.Algorithm.KLPenalty)
	if _, err := reward.NewController(c.Algorithm.KLCtrl.Type, c.Algorithm.KLCtrl.Coef, c.Algorithm.KLCtrl.Target,
		c.Algorithm.KLCtrl.Horizon); err != nil {
		v.Say("{algorithm.kl_ctrl}: %w", err)
	} else if k := &c.Algorithm.KLCtrl; c.Algorithm.KLInReward && k.Type == "adaptive" && k.Coef == 0 {
		v.Say("{algorithm.kl_ctrl.type} is adaptive, but {algorithm.kl_ctrl.kl_coef} is 0, must be above 0 to adapt")
	}
	v.environments(c)
}

// MaxEpisodes is the largest number of episodes of a step, of a validation and of lessons, as
// of the entries of a data file: they are listed in memory. Tags of group sft have it, too.
const MaxEpisodes = 1 << 22

// episodes checks that the product of two numbers is at most MaxEpisodes.
func (v *validator) episodes(what, key string, n int, times string, k int) {
	if n > 0 && k > 0 && n > MaxEpisodes/k && max(n, k) <= field.Most { // larger numbers are reported alone
		v.Say("{%s} is %d and {%s} is %d: %s may have at most %d episodes", key, n, times, k, what, MaxEpisodes)
	}
}

// levels checks where start states come from.
func (v *validator) levels(c *Config) {
	v.episodes("a step", "data.train_batch_size", c.Data.TrainBatch, "rollout_manager.n_trajectory",
		c.Rollout.Trajectories)
	v.episodes("the rounds of a step", "data.gen_batch_size", c.Data.GenBatch, "rollout_manager.n_trajectory",
		c.Rollout.Trajectories)
	if len(c.Data.ValFiles) == 0 {
		v.episodes("a validation", "data.val_batch_size", c.Data.ValBatch, "actor_rollout_ref.rollout.val_kwargs.n",
			c.Agent.Rollout.Val.Episodes)
	}
	v.pools(&c.Data.Pools)
	files := len(c.Data.TrainFiles) > 0
	switch {
	case c.Env.Name == "" && !files:
		v.Say("{env.name} is empty")
	case c.Env.Name != "" && files:
		v.Say("{env.name} is %s, but {data.train_files} name the environments", c.Env.Name)
	}
	if c.Trainer.Steps == StepsFromEpochs && !files {
		v.Say("{trainer.total_training_steps} is null, which follows from the epochs of {data.train_files}, but that is empty: set a number of steps")
	}
	if validates := c.Trainer.ValBefore || c.Trainer.TestFreq > 0; files && validates && len(c.Data.ValFiles) == 0 {
		v.Say("{data.val_files} is empty; to train without validation, set {trainer.val_before_train} to false and {trainer.test_freq} to -1")
	}
	if len(c.Data.ValFiles) == 0 && c.Data.ValBatch == 0 {
		v.Say("{data.val_batch_size} is 0 or null, which means all of {data.val_files}, but that is empty: set a number of validation episodes")
	}
}

func (v *validator) contradictions(c *Config, r Registries) {
	spec, err := r.Estimators.Describe(c.Algorithm.Estimator)
	if err != nil {
		return
	}
	name := c.Algorithm.Estimator
	if spec.Critic && c.Critic.Kind == "none" && c.readsAdvantages() {
		v.Say("{algorithm.adv_estimator} %s needs values, but {critic.kind} is none", name)
	}
	if spec.Groups && c.Rollout.Trajectories < 2 && c.readsAdvantages() {
		v.Say("{algorithm.adv_estimator} %s compares episodes of one start state, but {rollout_manager.n_trajectory} is %d", name, c.Rollout.Trajectories)
	}
	v.components(c, spec)
	if spec.Baselines && c.Reward.Changes() {
		v.Say("{algorithm.adv_estimator} %s subtracts the reward of the greedy episode, but the group reward changes the rewards of the others: leave {reward.clip_low}, {reward.clip_high} and {reward.normalize} unset", name)
	}
	if spec.Undiscounted && c.Algorithm.Gamma != 1 {
		v.Say("{algorithm.adv_estimator} %s has no discount per token, but {algorithm.gamma} is %v: set it to 1", name, c.Algorithm.Gamma)
	}
	if spec.Mask == advantage.MaskGAE && !c.Rollout.GAEMask {
		v.Say("{algorithm.adv_estimator} %s computes advantages over the GAE mask, but {rollout_manager.use_gae_mask} is false", name)
	}
	if spec.Squares && c.Algorithm.Correction.Bypass {
		v.Say("{algorithm.adv_estimator} %s reads the policy's probabilities before the update, which {algorithm.rollout_correction.bypass_mode} does not compute", name)
	}
	if spec.NeedLoss && !c.Rollout.LossMask {
		v.Say("{algorithm.adv_estimator} %s needs a loss mask, but {rollout_manager.use_loss_mask} is false", name)
	}
	v.rewardsRead(c, spec)
	if warmup := c.Trainer.CriticWarmup; warmup > 0 {
		switch {
		case c.Critic.Kind == "shared":
			v.Say("{trainer.critic_warmup} is %d, but a shared critic cannot be trained without the policy", warmup)
		case c.Critic.Kind == "none":
			v.Say("{trainer.critic_warmup} is %d, but {critic.kind} is none", warmup)
		case !spec.Critic:
			v.Say("{trainer.critic_warmup} is %d, but {algorithm.adv_estimator} %s trains no critic", warmup, name)
		}
		if n := c.Trainer.Steps; n > 0 && warmup > n {
			v.Say("{trainer.critic_warmup} is %d, but {trainer.total_training_steps} is %d: the policy would never be trained", warmup, n)
		}
	}
	if c.Critic.Kind == "shared" && c.Critic.Model.Path != "" {
		v.Say("{critic.model.path} is set, but {critic.kind} is shared")
	}
	if c.Algorithm.KLInReward && c.Agent.Actor.UseKLLoss {
		v.Say("{algorithm.use_kl_in_reward} and {actor_rollout_ref.actor.use_kl_loss} both penalise the KL to the reference policy: enable only one")
	}
	if n := c.Data.TrainBatch * c.Rollout.Trajectories; n > 0 && c.Agent.Actor.MiniBatch > n {
		v.Say("{actor_rollout_ref.actor.ppo_mini_batch_size} is %d, but a step has only %d episodes", c.Agent.Actor.MiniBatch, n)
	}
	if train := c.CountedSeeds(); len(c.Data.TrainFiles)+len(c.Data.ValFiles) == 0 && train > 0 && c.Env.ValSeed < c.Env.Seed+train && c.Env.Seed < c.Env.ValSeed+int64(c.Data.ValBatch) {
		v.Say("validation levels [%d, %d) overlap training levels [%d, %d): move {env.val_seed} or {env.train_seed}",
			c.Env.ValSeed, c.Env.ValSeed+int64(c.Data.ValBatch), c.Env.Seed, c.Env.Seed+train)
	}
}

// rewardsRead checks that an estimator reads the tokens that have rewards, and returns.
func (v *validator) rewardsRead(c *Config, spec advantage.Spec) {
	name := spec.Name
	if name == "turn_wise_gae" && !c.Critic.OnTurnEnds {
		v.Say("{algorithm.adv_estimator} turn_wise_gae has returns at turn ends only: set {critic.use_reward_mask}")
	}
	if spec.ValueMask && c.Critic.OnTurnEnds && name != "no_concat_gae_last" {
		v.Say("{algorithm.adv_estimator} %s has returns at the first token of each turn, but {critic.use_reward_mask} trains "+
			"the critic on turn ends only: set it to false", name)
	}
	if spec.Rewards == advantage.SiteTurnEnd && c.Placement() == reward.PerSpan {
		v.Say("{algorithm.adv_estimator} %s reads rewards at turn ends only, but {reward.credit_site}, or that of "+
			"env.config.state_reward, is section_end: set it to turn_end", name)
	}
}

// components checks the parts of the reward that an estimator reads in the place of the rewards of tokens.
func (v *validator) components(c *Config, spec advantage.Spec) {
	a := &c.Algorithm
	if n := len(a.RewardWeights); n > 0 && n != len(a.RewardKeys) {
		v.Say("{algorithm.gdpo_reward_weights} has %d numbers for %d {algorithm.gdpo_reward_keys}", n, len(a.RewardKeys))
	}
	if !spec.Components || len(a.RewardKeys) == 0 {
		return
	}
	const parts = "{algorithm.gdpo_reward_keys} is %q: {algorithm.adv_estimator} %s reads these parts of the reward " +
		"as the environment paid them, "
	if a.KLInReward {
		v.Say(parts+"without the KL of {algorithm.use_kl_in_reward}: set it to false; "+
			"{actor_rollout_ref.actor.use_kl_loss} has an effect", a.RewardKeys, spec.Name)
	}
	if c.Reward.Changes() {
		v.Say(parts+"neither clipped nor normalised: "+
			"leave {reward.clip_low}, {reward.clip_high} and {reward.normalize} unset", a.RewardKeys, spec.Name)
	}
}

// CountedSeeds is the number of levels that training uses, counted from env.train_seed.
func (c *Config) CountedSeeds() int64 {
	if c.Data.GenBatch > 0 {
		return int64(c.Trainer.Steps) * int64(c.Data.MaxStartStates())
	}
	return int64(c.Trainer.Steps) * int64(c.Data.TrainBatch)
}
