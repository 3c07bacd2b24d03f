package config

// ownGeneration is the rollout.name of generation in this process. Without servers the
// other names are accepted with a warning, because every configuration of VAGEN has one.
const ownGeneration = "xla"

// batching checks micro-batch sizes, the critic's own update settings and sampling limits.
func (v *validator) batching(c *Config) {
	if a, b := c.Algorithm.Estimator, c.estimatorName(); a != b {
		v.Say("{algorithm.adv_estimator} is %s, but {system} is %s: set it to %s, the name of that system's %s in this library", a, c.System, b, a)
	}
	a, k := &c.Agent.Actor, &c.Critic
	if a.Dynamic && c.Model.MicroTokens > 0 {
		v.Say("{actor_rollout_ref.actor.use_dynamic_bsz} sizes micro-batches by {actor_rollout_ref.actor.ppo_max_token_len_per_gpu}, but {model.micro_tokens} is %d: set one of them", c.Model.MicroTokens)
	}
	if own := k.Epochs != nil || k.MiniBatch != nil || k.GradClip != nil || k.NormLimit != nil || k.Shuffle != nil; own &&
		k.Kind == "shared" {
		v.Say("{critic.kind} is shared: a shared critic is updated together with the policy, so {critic.ppo_epochs}, {critic.ppo_mini_batch_size}, {critic.shuffle}, {critic.grad_clip} and {critic.grad_norm_threshold} must not be set")
	}
}
