package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"vagen/policy"
	"vagen/policy/loss"
)

// PolicyLossConfig selects the policy loss and has the settings of single losses.
type PolicyLossConfig struct {
	Mode        string `yaml:"loss_mode" default:"vanilla" doc:"policy loss by name: vanilla (ppo), gspo, turn_gspo, turn_ppo, cispo, sapo, geo_mean (gmpo), clip_cov, kl_cov, gpg (reinforce), dppo_tv, dppo_kl, dppo_prime, dppo_skyrl, ipo, dro, vespo, luspo, m2po; opd, ref_kl and sdft learn from a teacher"`
	Skip        int    `yaml:"num_loss_tokens_to_skip" count:"0" idle:".loss_mode is not sdft, only sdft reads it" doc:"sdft: so many tokens with a loss are left out where each row begins; TRL has 0, the tinker cookbook 3 (skip_first_n_tokens)"`
	loss.Single `yaml:",inline"`
	CorrectKL   bool `yaml:"use_bias_correction_kl" default:"true" idle:"actor_rollout_ref.actor.use_kl_loss is false; .loss_mode is not luspo, only luspo reads it" doc:"luspo: multiply the KL loss of a row by the row's ratio, with its gradient, inside the policy loss"`
}

// taught reports whether the loss learns from a teacher.
func (l *PolicyLossConfig) taught() bool { return l.alone() || l.DistillCoef != 0 }

// alone reports whether the loss learns from a teacher instead of from advantages.
func (l *PolicyLossConfig) alone() bool {
	return slices.Contains([]string{"opd", "ref_kl", "sdft"}, l.Mode)
}

// library are the losses that are not a program's own.
var library = loss.Builtin()

// own reports whether the loss is one that the program registered.
func (l *PolicyLossConfig) own() bool {
	_, err := library.Describe(l.Mode)
	return err != nil
}

// ComparedKey is the setting that says how many tokens the loss compares with a teacher, or which.
func (l *PolicyLossConfig) ComparedKey() string {
	key := "topk"
	switch {
	case l.own():
		key = "loss_mode"
	case l.Mode == "sdft" && l.SDFTMode == "full_logits":
		key = "distillation_mode"
	case l.Mode == "sdft":
		key = "distillation_topk"
	}
	return "actor_rollout_ref.actor.policy_loss." + key
}

// chosen refuses a loss that compares other tokens than the teacher's likeliest ones, and says what is wrong with them.
func (v *validator) chosen(l *PolicyLossConfig, p loss.Policy, why string, args ...any) {
	if by := loss.ChoiceOf(p).By; by == "" || by == loss.ByTeacher {
		return
	}
	key, value, must := "distillation_mode", l.SDFTMode, "be sampled_token, forward_cross_entropy or reverse_kl"
	if l.own() {
		key, value, must = "loss_mode", l.Mode, "compare the teacher's likeliest tokens"
	}
	v.Say("{actor_rollout_ref.actor.policy_loss."+key+"} %s "+why+", must "+must, append([]any{value}, args...)...)
}

// sinceSampling reports whether the ratios of the loss are to the log-probs at sampling.
func (l *PolicyLossConfig) sinceSampling() bool {
	return slices.Contains([]string{"dppo_prime", "ipo", "ref_kl", "dppo_skyrl"}, l.Mode)
}

// CorrectionConfig corrects for differences between the log-probs of sampling and
// those of training.
type CorrectionConfig struct {
	Level      *string `yaml:"rollout_is" doc:"importance weights for the difference between sampling and training log-probs: token, sequence, or null for none"`
	Threshold  string  `yaml:"rollout_is_threshold" default:"2" number:"" idle:"algorithm.rollout_correction.rollout_is is null" doc:"larger importance weights are truncated to this; lower_upper, such as 0.5_5.0, drops those outside"`
	Normalize  bool    `yaml:"rollout_is_batch_normalize" idle:"algorithm.rollout_correction.rollout_is is null" doc:"divide importance weights by their mean"`
	Reject     *string `yaml:"rollout_rs" doc:"drop tokens or rows whose sampling and training log-probs differ too much: token_k1, seq_mean_k3, …, separated by commas; null for none"`
	Thresholds *string `yaml:"rollout_rs_threshold" number:"" idle:"algorithm.rollout_correction.rollout_rs is null" doc:"maximum divergence, a number for all or one for each of rollout_rs, separated by commas; for k1 also lower_upper, such as 0.5_2.0"`
	Bypass     bool    `yaml:"bypass_mode" doc:"use the log-probs of sampling as old log-probs instead of computing them: the ratios of the loss then include the difference between sampling and training"`
}

// Correction returns the configured correction; ok is false when there is none.
func (c *CorrectionConfig) Correction() (out loss.Correction, ok bool, err error) {
	out = loss.Correction{Normalize: c.Normalize}
	if out.Lower, out.Threshold, err = loss.ParseBounds(c.Threshold); err != nil {
		return out, false, fmt.Errorf("rollout_is_threshold: %w", err)
	}
	if c.Level != nil {
		out.Weight = loss.Level(*c.Level)
	}
	if c.Reject != nil {
		limits := ""
		if c.Thresholds != nil {
			limits = *c.Thresholds
		}
		if out.Reject, err = loss.ParseRejections(*c.Reject, limits); err != nil {
			return out, false, fmt.Errorf("rollout_rs: %w", err)
		}
	}
	// Correcting an empty batch checks the settings.
	if err := loss.Correct(&loss.Corrected{}, out, &loss.CorrectionBatch[float32]{Offsets: []int{0}}); err != nil {
		return out, false, err
	}
	return out, out.Weight != loss.NoWeight || out.Reject != nil, nil
}

// warnOfLosses warns of what the policy loss learns beside or instead of what is expected.
func (c *Config) warnOfLosses() {
	a, r := &c.Agent.Actor, &c.Algorithm.Correction
	corrects := r.Level != nil || r.Reject != nil || r.Bypass || a.Loss.sinceSampling()
	c.warn(c.Model.RolloutDType != "float32" && !corrects, "model.rollout_dtype", "responses are written with weights in "+
		c.Model.RolloutDType+" and learned from as if in float32: set algorithm.rollout_correction.rollout_is "+
		"to token, and see the metrics rollout/kl and rollout/ratio_max")
	distills := a.Loss.Mode == "opd" || a.Loss.DistillCoef > 0
	verl := a.Loss.Mode == "dppo_tv" || a.Loss.Mode == "dppo_kl" || distills && a.Loss.DistillPG // which bounds weights
	c.warn(verl && a.ClipDual == 0, "actor_rollout_ref.actor.clip_ratio_c",
		"it is 0, so that the weight of a token in the policy loss may reach e^20; verl has 3")
	c.warn(a.Loss.alone() && a.Entropy != 0, "actor_rollout_ref.actor.entropy_coeff", fmt.Sprintf("it is %v, so that "+
		"entropy is learned beside the teacher of %s; verl, prime-rl, TRL and the tinker cookbook have no such term: "+
		"set it to 0", a.Entropy, a.Loss.Mode))
	c.warn(c.Algorithm.Estimator == "graphgpo" && c.Algorithm.Gamma == 1, "algorithm.gamma",
		"it is 1, so that all states of an episode that succeeds count alike for graphgpo; its paper has 0.1")
}

// rounded refuses rounded weights where they are not used.
func (v *validator) rounded(c *Config) {
	const otherwise = ": set it to float32"
	switch t := c.Model.RolloutDType; {
	case t == "float32":
	case c.UsesEngine():
		v.Say("{model.rollout_dtype} is %s, but {actor_rollout_ref.rollout.engine.addresses} has servers, which have their own weights"+otherwise, t)
	case c.Model.BFloat16:
		v.Say("{model.rollout_dtype} is %s, but {model.bfloat16} is true, "+
			"which computes with rounded weights anyway"+otherwise, t)
	case c.Model.Backend == "cuda":
		v.Say("{model.rollout_dtype} is %s, but {model.backend} is cuda, which has no kernels for it"+otherwise, t)
	}
}

// drafts refuses drafts where there are no kernels for them.
func (v *validator) drafts(c *Config) {
	m := &c.Model
	if m.DraftTokens <= 0 || c.UsesEngine() {
		return
	}
	if m.Backend == "cuda" || m.Backend == "go" {
		v.Say("{model.draft_tokens} is %d, must be 0 with {model.backend} %s, which has no kernels for it",
			m.DraftTokens, m.Backend)
	}
	if m.BFloat16 {
		v.Say("{model.draft_tokens} is %d, must be 0 with {model.bfloat16}: its kernels compute in float32",
			m.DraftTokens)
	}
}

// lossOptions are the settings of the policy loss.
func (a *ActorConfig) lossOptions() loss.Options {
	o := loss.Options{
		ClipLow: a.Clip, ClipHigh: a.Clip, DualClip: a.ClipDual, TauPos: a.TauPos, TauNeg: a.TauNeg, Single: a.Loss.Single,
	}
	if a.ClipLow != nil {
		o.ClipLow = *a.ClipLow
	}
	if a.ClipHigh != nil {
		o.ClipHigh = *a.ClipHigh
	}
	return o
}

// correctsKL reports whether the KL loss is inside the policy loss, which multiplies it by its ratio.
func (a *ActorConfig) correctsKL() bool {
	return a.UseKLLoss && a.Loss.CorrectKL && a.Loss.Mode == "luspo"
}

// policyLoss builds the configured policy loss with its clip range, and the weight of a KL inside it, times a factor.
func (r Registries) policyLoss(a *ActorConfig, clip, kl float64) (loss.Policy, error) {
	o := a.lossOptions()
	o.ClipLow, o.ClipHigh = clip*o.ClipLow, clip*o.ClipHigh
	if a.correctsKL() {
		o.KL, o.KLCoef = loss.KL(a.KLLossType), kl*a.KLLoss
	}
	return r.WithBuiltins().Losses.New(a.Loss.Mode, o)
}

// Objective builds the policy's part of an optimiser step's objective. clip and kl are
// factors of the clip range and of the weight of the KL loss, such as those of
// StabilityConfig.
func (r Registries) Objective(c *Config, clip, kl float64) (policy.Objective, error) {
	c = cmp.Or(c, new(Config))
	a := &c.Agent.Actor
	p, err := r.policyLoss(a, clip, kl)
	if err != nil {
		return policy.Objective{}, fmt.Errorf("config: actor_rollout_ref.actor.policy_loss: %w", err)
	}
	o := policy.Objective{Policy: p, EntropyCoef: a.Entropy}
	if a.UseKLLoss && !a.correctsKL() {
		o.KL, o.KLCoef = loss.KL(a.KLLossType), kl*a.KLLoss
	}
	return o, nil
}

// Aggregation is how tokens are averaged: in the policy loss, and in the entropy and
// KL terms, which use the configured mode even if the loss has a fixed one.
type Aggregation struct {
	Loss, Aux loss.Aggregation
	Apart     bool // the two differ, and there is an entropy or KL term
	Skip      int  // counted tokens that are left out where each row begins
}

// Aggregation returns how the tokens of an update are averaged.
func (r Registries) Aggregation(c *Config) (Aggregation, error) {
	c = cmp.Or(c, new(Config))
	a := &c.Agent.Actor
	p, err := r.policyLoss(a, 1, 1)
	if err != nil {
		return Aggregation{}, err
	}
	own, err := loss.ModeOf(p)
	if err != nil {
		return Aggregation{}, err
	}
	width := float64(c.Rollout.MaxTurns) * float64(c.PerTurn())
	if a.ScaleFactor != nil {
		width = *a.ScaleFactor
	}
	out := Aggregation{Aux: loss.Aggregation{Mode: loss.Mode(a.Aggregation), Width: width}, Skip: a.Loss.Skip}
	out.Loss = out.Aux
	if own != "" && own != out.Aux.Mode {
		out.Loss.Mode, out.Apart = own, a.Entropy != 0 || a.UseKLLoss && !a.correctsKL()
	}
	return out, nil
}

func (v *validator) kl(key, name string) {
	if name == "" {
		v.Say("{" + key + "} is empty")
	} else if err := loss.KL(name).Check(); err != nil {
		v.Say("{"+key+"}: %w", err)
	}
}

// losses checks what the losses have to say about their settings.
func (v *validator) losses(c *Config, r Registries) {
	a := &c.Agent.Actor
	if _, err := r.Losses.New(a.Loss.Mode, loss.DefaultOptions()); err != nil {
		v.Say("{actor_rollout_ref.actor.policy_loss.loss_mode}: %w", err)
	}
	if p, err := r.policyLoss(a, 1, 1); err == nil {
		v.refEngine(c, p)
		v.selfDistillation(c, p)
		v.lastClip(c, r)
		if loss.Teacher(p) && !c.UsesReference() {
			v.Say("{actor_rollout_ref.actor.policy_loss.loss_mode} %s learns from a teacher, but none is named: set "+
				"{actor_rollout_ref.ref.model.path}, {actor_rollout_ref.ref.engine.addresses} or {algorithm.self_distillation.teacher}", a.Loss.Mode)
		}
	}
	if _, _, err := c.Algorithm.Correction.Correction(); err != nil {
		v.Say("{algorithm.rollout_correction}: %w", err)
	}
	v.bypass(c)
	v.rolloutWeights(c)
	v.teacher(c)
	v.kl("actor_rollout_ref.actor.kl_loss_type", a.KLLossType)
	if v.Err() != nil {
		return
	}
	g, err := r.Aggregation(c)
	if err != nil {
		v.Say("{actor_rollout_ref.actor.policy_loss}: %w", err)
		return
	}
	if g.Loss.Mode != g.Aux.Mode && !g.Apart && g.Aux.Mode != loss.TokenMean {
		v.Say("{actor_rollout_ref.actor.loss_agg_mode} is %s, but {actor_rollout_ref.actor.policy_loss.loss_mode} %s always uses %s, and there is no entropy or KL term that uses loss_agg_mode", g.Aux.Mode, a.Loss.Mode, g.Loss.Mode)
	}
}

// lastClip checks the loss with the clip range of the last step. Those of the steps between are
// between the first and the last.
func (v *validator) lastClip(c *Config, r Registries) {
	s := &c.Stability.Clip
	if s.Style == "constant" {
		return
	}
	if _, err := r.policyLoss(&c.Agent.Actor, s.End, 1); err != nil {
		v.Say("{stability.clip_schedule.end_ratio} is %v, which multiplies the clip range: %w", s.End, err)
	}
}

// rolloutWeights refuses rollout weights where the ratios of the loss are to sampling (SkyRL has them beside its own
// loss), and those that are not of single tokens where the loss multiplies those of a row.
func (v *validator) rolloutWeights(c *Config) {
	r, l := &c.Algorithm.Correction, &c.Agent.Actor.Loss
	if r.Level != nil && l.sinceSampling() && l.Mode != "dppo_skyrl" {
		v.Say("{actor_rollout_ref.actor.policy_loss.loss_mode} %s compares with the log-probs of sampling, so that "+
			"{algorithm.rollout_correction.rollout_is} would correct the difference to training twice: set it to null", l.Mode)
	}
	if l.Mode != "vespo" || r.Level == nil {
		return
	}
	const vespo = "{actor_rollout_ref.actor.policy_loss.loss_mode} vespo multiplies the rollout weights of a row's " +
		"tokens, "
	if *r.Level == string(loss.SequenceLevel) {
		v.Say(vespo + "but {algorithm.rollout_correction.rollout_is} is sequence, which gives every token the weight " +
			"of the row: set it to token or null")
	}
	if r.Normalize {
		v.Say(vespo + "which {algorithm.rollout_correction.rollout_is_batch_normalize} would divide by their mean " +
			"once for each token: set it to false")
	}
}

// teacher refuses settings that contradict learning from a teacher.
func (v *validator) teacher(c *Config) {
	a, d := &c.Agent.Actor, &c.Algorithm.Distill
	taught := a.Loss.taught()
	who := "{algorithm.distillation.kl_penalty_coef}"
	if taught {
		who = "{actor_rollout_ref.actor.policy_loss.distillation_loss_coef}"
	}
	if a.Loss.alone() {
		who = "{actor_rollout_ref.actor.policy_loss.loss_mode} " + a.Loss.Mode
	} else if !d.Task && d.Coef == 0 {
		why := "there is nothing to learn from"
		if taught {
			why = "to learn from the teacher alone set {actor_rollout_ref.actor.policy_loss.loss_mode} to opd"
		}
		v.Say("{algorithm.distillation.use_task_rewards} is false, but {algorithm.distillation.kl_penalty_coef} is 0: " +
			why)
	}
	if !taught && d.Coef == 0 {
		return
	}
	if c.Agent.Ref.Model.Path == "" && len(c.Agent.Ref.Engine.Addresses) == 0 && !c.TeachesItself() {
		v.Say(who + " learns from a teacher, but {actor_rollout_ref.ref.model.path} is empty, so that the reference is the policy itself before training")
	}
	if a.UseKLLoss || c.Algorithm.KLInReward || taught && d.Coef > 0 {
		v.Say(who + " is the KL to the teacher, which {actor_rollout_ref.actor.use_kl_loss}, {algorithm.use_kl_in_reward} or {algorithm.distillation.kl_penalty_coef} would add a second time: enable only one")
	}
	if !c.UsesEstimator() && c.Critic.Kind != "none" {
		v.Say(who+" is all that is learned from, but {critic.kind} is %s: set it to none, as nothing reads its values",
			c.Critic.Kind)
	}
}

// selfDistillation checks the settings of a policy that is its own teacher.
func (v *validator) selfDistillation(c *Config, p loss.Policy) {
	const key = "{algorithm.self_distillation.teacher} is %s, but "
	d, ref := &c.Algorithm.SelfDistill, &c.Agent.Ref
	if d.Teacher == "" {
		return
	}
	if !strings.Contains(d.Template, Demonstration) {
		v.Say("{algorithm.self_distillation.template} is %q, must contain %s", d.Template, Demonstration)
	}
	if ref.Model.Path != "" {
		v.Say(key+"{actor_rollout_ref.ref.model.path} is %s: name only one teacher", d.Teacher, ref.Model.Path)
	}
	if n := len(ref.Engine.Addresses); n > 0 {
		v.Say(key+"{actor_rollout_ref.ref.engine.addresses} has %d servers: name only one teacher", d.Teacher, n)
	}
	if c.Rollout.UseService {
		v.Say(key+"{rollout_manager.use_service} is true: a service has no scripts", d.Teacher)
	}
	v.chosen(&c.Agent.Actor.Loss, p, "compares tokens that {algorithm.self_distillation.teacher} %s does not choose",
		d.Teacher)
}

// bypass refuses settings that need the log-probs that bypass_mode does not compute.
func (v *validator) bypass(c *Config) {
	r := &c.Algorithm.Correction
	if !r.Bypass {
		return
	}
	if r.Level != nil {
		v.Say("{algorithm.rollout_correction.bypass_mode} is true: the ratios of the loss include the difference between sampling and training, and {algorithm.rollout_correction.rollout_is} would correct it twice")
	}
	if c.Agent.Actor.Loss.Mode == "m2po" {
		v.Say("{actor_rollout_ref.actor.policy_loss.loss_mode} m2po compares sampling log-probs with training log-probs, which {algorithm.rollout_correction.bypass_mode} does not compute")
	}
	if r.Reject != nil {
		v.Say("{algorithm.rollout_correction.rollout_rs} compares sampling log-probs with training log-probs, which {algorithm.rollout_correction.bypass_mode} does not compute")
	}
	if !c.Rollout.LossMask {
		v.Say("{algorithm.rollout_correction.bypass_mode} needs {rollout_manager.use_loss_mask}: tokens that the model did not write have no sampling log-probs")
	}
	if c.Algorithm.KLInReward && c.Algorithm.KLMask == KLAttention {
		v.Say("{algorithm.rollout_correction.bypass_mode} has log-probs of response tokens only, but {algorithm.kl_mask} is attention")
	}
}
