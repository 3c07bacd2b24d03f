package config

// ownGeneration is the rollout.name of generation in this process. The other names
// are accepted with a warning, because every configuration of VAGEN has one of them.
const ownGeneration = "xla"

// batching checks micro-batch sizes, the critic's own update settings and sampling limits.
func (v *validator) batching(c *Config) {
	const actor, sampling = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
	if a, b := c.Algorithm.Estimator, c.estimatorName(); a != b {
		v.say("algorithm.adv_estimator is %s, but system is %s: set it to %s, the name of that system's %s in this library", a, c.System, b, a)
	}
	a, k := &c.Agent.Actor, &c.Critic
	v.count(actor+".ppo_micro_batch_size_per_gpu", a.MicroRows)
	v.count("critic.ppo_micro_batch_size_per_gpu", k.MicroRows)
	v.positive(actor+".ppo_max_token_len_per_gpu", a.BatchConfig.MicroTokens)
	v.positive("critic.ppo_max_token_len_per_gpu", k.MicroTokens)
	if a.Dynamic && c.Model.MicroTokens > 0 {
		v.say(actor+".use_dynamic_bsz sizes micro-batches by ppo_max_token_len_per_gpu, but model.micro_tokens is %d: set one of them", c.Model.MicroTokens)
	}
	if k.Epochs != nil {
		v.positive("critic.ppo_epochs", *k.Epochs)
	}
	if k.MiniBatch != nil {
		v.positive("critic.ppo_mini_batch_size", *k.MiniBatch)
	}
	for key, x := range map[string]*float64{"critic.grad_clip": k.GradClip, "critic.grad_norm_threshold": k.NormLimit} {
		if x != nil {
			v.within(key, *x, 0, large)
		}
	}
	if own := k.Epochs != nil || k.MiniBatch != nil || k.GradClip != nil || k.NormLimit != nil || k.Shuffle != nil; own && k.Kind == "shared" {
		v.say("critic.kind is shared: a shared critic is updated together with the policy, so critic.ppo_epochs, ppo_mini_batch_size, shuffle, grad_clip and grad_norm_threshold must not be set")
	}
	r := &c.Agent.Rollout
	v.oneOf(sampling+".name", r.Name, ownGeneration, "vllm", "sglang", "hf")
	v.count(sampling+".limit_mm_per_prompt", r.MaxImages)
	v.positive(sampling+".val_kwargs.n", r.Val.Episodes)
	v.oneOf("data.truncation", c.Data.Truncation, "error", "left", "right")
}
