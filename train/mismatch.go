package train

import (
	"math"

	"vagen/policy"
	"vagen/train/config"
	"vagen/train/track"
)

// measureMismatch compares the log-probs of sampling with those of the learner, at the
// tokens of the policy loss that were sampled, if another program sampled them, or this one with rounded weights. With
// d = learner − sampling:
//
//	rollout/logprob_diff_mean, _max   mean and maximum of |d|
//	rollout/prob_diff_mean            mean of |exp(learner) − exp(sampling)|
//	rollout/kl                        mean of −d, the KL of sampling to training
//	rollout/kl_k3                     mean of exp(d) − d − 1, an estimate without negative terms
//	rollout/ratio_max                 maximum of exp(d)
//
// With bypass_mode the learner computes no log-probs before the update.
func (b *batch) measureMismatch(learner policy.Learner, c *config.Config, m track.Metrics) {
	_, engine := policy.As[policy.EngineSampler](learner)
	if !engine && c.Model.RolloutDType == config.Default().Model.RolloutDType || c.Algorithm.Correction.Bypass {
		return
	}
	var n, mean, most, prob, kl, k3, ratio float64
	for i, sampled := range b.LogProbs {
		if !b.Loss[i] || !b.Response[i] || b.Forced[i] {
			continue
		}
		x, y := float64(sampled), float64(b.old[i])
		d := y - x
		n++
		mean, most, prob = mean+math.Abs(d), max(most, math.Abs(d)), prob+math.Abs(math.Exp(y)-math.Exp(x))
		kl, k3, ratio = kl-d, k3+math.Exp(d)-d-1, max(ratio, math.Exp(d))
	}
	if n == 0 {
		return
	}
	m["rollout/logprob_diff_mean"], m["rollout/logprob_diff_max"], m["rollout/prob_diff_mean"] = mean/n, most, prob/n
	m["rollout/kl"], m["rollout/kl_k3"], m["rollout/ratio_max"] = kl/n, k3/n, ratio
}
