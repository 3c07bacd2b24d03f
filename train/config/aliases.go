package config

// resolveAliases copies the values of keys that VAGEN's users know to the keys of the
// same meaning that the rest of the package reads.
func (c *Config) resolveAliases() {
	c.Algorithm.Estimator = c.estimatorName()
	if on := c.Critic.Enable; on != nil && !*on {
		c.Critic.Kind = "none"
	}
	switch again := c.Agent.Model.Recompute; {
	case again == nil:
	case !*again:
		c.Model.Recompute = "nothing"
	case c.Model.Recompute == "nothing":
		c.Model.Recompute = "blocks"
	}
	if draw := c.Agent.Rollout.Val.DoSample; draw != nil && !*draw {
		c.Agent.Rollout.Val.Temperature = 0
	}
}

// aliases reports keys that resolveAliases would change, in configurations made in Go.
func (v *validator) aliases(c *Config) {
	other := *c
	other.resolveAliases()
	if a, b := c.Algorithm.Estimator, other.Algorithm.Estimator; a != b {
		v.Say("{algorithm.adv_estimator} is %s, but {system} is %s: set it to %s, the name of that system's %s in this library", a, c.System, b, a)
	}
	if other.Critic.Kind != c.Critic.Kind {
		v.Say("{critic.enable} is false, but {critic.kind} is %s", c.Critic.Kind)
	}
	if other.Model.Recompute != c.Model.Recompute {
		v.Say("{actor_rollout_ref.model.enable_gradient_checkpointing} is %t, but {model.recompute} is %s", *c.Agent.Model.Recompute, c.Model.Recompute)
	}
	if other.Agent.Rollout.Val.Temperature != c.Agent.Rollout.Val.Temperature {
		v.Say("{actor_rollout_ref.rollout.val_kwargs.do_sample} is false, but {actor_rollout_ref.rollout.val_kwargs.temperature} is %v", c.Agent.Rollout.Val.Temperature)
	}
}

// ownGeneration is the rollout.name of generation in this process. The other names
// are accepted with a warning, because every configuration of VAGEN has one of them.
const ownGeneration = "xla"

// batching checks micro-batch sizes, the critic's own update settings and sampling limits.
func (v *validator) batching(c *Config) {
	const actor, sampling = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
	v.aliases(c)
	a, k := &c.Agent.Actor, &c.Critic
	v.Count(actor+".ppo_micro_batch_size_per_gpu", a.MicroRows)
	v.Count("critic.ppo_micro_batch_size_per_gpu", k.MicroRows)
	v.Positive(actor+".ppo_max_token_len_per_gpu", a.BatchConfig.MicroTokens)
	v.Positive("critic.ppo_max_token_len_per_gpu", k.MicroTokens)
	if a.Dynamic && c.Model.MicroTokens > 0 {
		v.Say("{actor_rollout_ref.actor.use_dynamic_bsz} sizes micro-batches by {actor_rollout_ref.actor.ppo_max_token_len_per_gpu}, but {model.micro_tokens} is %d: set one of them", c.Model.MicroTokens)
	}
	if k.Epochs != nil {
		v.Positive("critic.ppo_epochs", *k.Epochs)
	}
	if k.MiniBatch != nil {
		v.Positive("critic.ppo_mini_batch_size", *k.MiniBatch)
	}
	for key, x := range map[string]*float64{"critic.grad_clip": k.GradClip, "critic.grad_norm_threshold": k.NormLimit} {
		if x != nil {
			v.Within(key, *x, 0, large)
		}
	}
	if own := k.Epochs != nil || k.MiniBatch != nil || k.GradClip != nil || k.NormLimit != nil || k.Shuffle != nil; own && k.Kind == "shared" {
		v.Say("{critic.kind} is shared: a shared critic is updated together with the policy, so {critic.ppo_epochs}, {critic.ppo_mini_batch_size}, {critic.shuffle}, {critic.grad_clip} and {critic.grad_norm_threshold} must not be set")
	}
	r := &c.Agent.Rollout
	v.OneOf(sampling+".name", r.Name, ownGeneration, "vllm", "sglang", "hf")
	v.Count(sampling+".limit_mm_per_prompt", r.MaxImages)
	v.Positive(sampling+".val_kwargs.n", r.Val.Episodes)
	v.OneOf("data.truncation", c.Data.Truncation, "error", "left", "right")
}
