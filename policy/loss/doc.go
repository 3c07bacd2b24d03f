// Package loss holds the losses of reinforcement learning on tokens, in plain
// Go, each with its gradient.
//
// Models return log-probs, entropies and values, and take the derivatives by them: no loss is computed elsewhere.
// Every formula is above its code with its source. Everything is computed in float64 whatever the storage type, and
// summed in token order; evaluation into a reused result does not allocate.
//
// # Policy losses
//
// A policy loss maps a token's log-prob, old log-prob and advantage to a loss ℓ
// and a derivative ∂ℓ/∂log-prob, called slope; [Eval] aggregates them. ρ is the ratio
// of new to old probability.
//
// name                 type       what is limited                    when to use it
//
//	vanilla, ppo         PPO        ρ of each token, dual clip         the default
//	gspo                 GSPO       mean ratio of the row              one turn per row; mixture-of-experts
//	turn_gspo            TurnGSPO   mean ratio of the turn             several turns per row, turn advantages
//	turn_ppo             TurnPPO    product of ratios of the turn      short turns; the objective turn_gspo approximates
//	cispo                CISPO      the weight, not the update         rare tokens must keep their gradient
//	sapo                 SAPO       nothing; a smooth gate             clip fraction is high or jumps
//	gmpo, geo_mean       GMPO       log-ratio inside a row's mean      outlier tokens destabilise GRPO
//	dppo_tv, dppo_kl     DPPO       change of a token's probability    rare tokens are clipped too much by PPO
//	dppo_skyrl           DPPO       the same since sampling            rollouts by an engine
//	dppo_prime, ipo      PrimeDPPO  the same, and the log-ratio        asynchronous training
//	dro                  DRO        log-ratio, by a price              off-policy data without a clip
//	vespo                VESPO      joint ratio of the row, smoothly   asynchronous training, stale data
//	luspo                LUSPO      mean ratio of the row              as gspo, without a preference for short rows
//	m2po                 M2PO       ρ; drops tokens that have drifted  stale data
//	clip_cov             ClipCov    ρ; drops tokens that cut entropy   entropy collapses
//	kl_cov               KLCov      nothing; penalises such tokens     entropy collapses, small models
//	reinforce, gpg       Reinforce  nothing                            exactly on-policy data
//
// Distill (names opd, ref_kl, sdft) learns from a teacher's log-probs instead of from advantages: of the sampled
// token, or of several, whose [Divergence] it is. Any of the others can be wrapped in an [OffPolicyMask], and have a
// teacher beside the advantages: [Taught]. [Registry] builds them by name. Custom losses implement [Policy]:
// policy.Objective takes one as it is, and config.Registries.Losses makes a registered one known to configurations. A
// loss of tokens that do not depend on each other says so: see [Local].
//
// # Aggregation
//
// [Aggregation] has a [Mode]: how tokens and rows are averaged. It gives each token a weight, and a loss is the
// weighted sum. The original code of VAGEN averages inside each micro-batch and divides by the number of
// micro-batches; the papers divide by the count of tokens in the whole update. These differ when rows differ in
// length. An update in parts that is the mean over all of it, as in the papers and in package train, takes the weights
// of all its rows from [Aggregation.Weights] and evaluates each part with [EvalWeighted].
//
// # Two flavours
//
// [LegacyPPO] is the loss of the full VAGEN system, [LitePPO] that of VAGEN
// Lite. They differ in the bound on the log-ratio and the dual clip. VAGEN lite adds
// 1e-8 to the denominators of its means; here means are exact, which is a relative
// difference below 1e-8. Without a counted token those systems return NaN; here Empty
// is set and everything is 0.
//
// # The rest
//
// [Value] is the critic's loss and [KL] that of a KL term, for one token; the objective of package policy sums
// them. [Correct] corrects for rollouts sampled by other kernels than the trainer's.
//
// At points without a derivative the result is that of automatic differentiation in
// PyTorch: max and min give the mean of both sides on a tie, clamps pass the derivative
// at their edges (PyTorch 2.13; 2.15 has 0 there).
package loss
