package vagen

import (
	"fmt"
	"math"
	"strings"
	"vagen/policy"
)

func (t *Trainer) objective(step int) policy.Objective {
	c := &t.Config
	o := c.Agent.Actor.objective()
	o.Temperature, o.ValueClip, o.CriticOnly = c.Agent.Rollout.Temperature, c.Critic.ValueClip, step <= c.Trainer.CriticWarmup
	clip, kl := c.Stability.Clip.factor(step, c.Trainer.Steps), c.Stability.KL.factor(step, c.Trainer.Steps)
	o.ClipLow, o.ClipHigh, o.KLCoef = clip*o.ClipLow, clip*o.ClipHigh, kl*o.KLCoef
	if c.Critic.Kind != "none" && t.spec.Critic {
		o.ValueCoef = c.Critic.ValueCoef
	}
	return o
}

func (t *Trainer) optimizer(step int) policy.Optimizer {
	c := &t.Config
	a := &c.Agent.Actor
	o := adamW(&a.Optim, a.GradClip, a.NormLimit)
	o.Rate, o.CriticRate = a.Optim.rate(step, c.Trainer.Steps), c.Critic.Optim.rate(step, c.Trainer.Steps)
	return o
}

// adamW is an optimiser without its rates.
func adamW(o *OptimConfig, clip, limit float64) policy.Optimizer {
	return policy.Optimizer{Beta1: o.Beta1, Beta2: o.Beta2, Epsilon: 1e-8, WeightDecay: o.Decay, GradClip: clip, MaxGradNorm: limit}
}

// rate is the learning rate of a step (from 1): it rises over the warm-up, then
// stays, or falls to MinRatio of itself along a line or half a cosine.
func (o *OptimConfig) rate(step, total int) float64 {
	warm := int(math.Ceil(o.WarmupRatio * float64(total)))
	if o.WarmupSteps > 0 {
		warm = o.WarmupSteps
	}
	if step <= warm {
		return o.Rate * float64(step) / float64(warm)
	}
	if o.Style == "constant" || total <= warm {
		return o.Rate
	}
	part := float64(step-warm-1) / float64(max(1, total-warm-1))
	return o.Rate * (o.MinRatio + (1-o.MinRatio)*fall(o.Style, part))
}

// fall goes from 1 to 0 as part goes from 0 to 1: along a line, or half a cosine.
func fall(style string, part float64) float64 {
	if style == "cosine" {
		return (1 + math.Cos(math.Pi*part)) / 2
	}
	return 1 - part
}

// add sums up statistics of optimiser steps.
func add(sum *policy.Stats, s policy.Stats) {
	sum.PolicyLoss += s.PolicyLoss
	sum.ValueLoss += s.ValueLoss
	sum.Entropy += s.Entropy
	sum.KL += s.KL
	sum.ApproxKL += s.ApproxKL
	sum.ClipFrac += s.ClipFrac
	sum.ClipFracLow += s.ClipFracLow
	sum.ValueClip += s.ValueClip
	sum.RatioMax = max(sum.RatioMax, s.RatioMax)
	sum.GradNorm += s.GradNorm
	sum.CriticNorm += s.CriticNorm
	sum.Tokens += s.Tokens
	for name, x := range s.Metrics {
		if sum.Metrics == nil {
			sum.Metrics = map[string]float64{}
		}
		old, seen := sum.Metrics[name]
		switch {
		case !seen:
			sum.Metrics[name] = x
		case strings.HasSuffix(name, "_max"):
			sum.Metrics[name] = max(old, x)
		case strings.HasSuffix(name, "_min"):
			sum.Metrics[name] = min(old, x)
		default:
			sum.Metrics[name] = old + x
		}
	}
	if s.Skipped {
		sum.Skipped = true
	}
}

// report writes means over optimiser steps under verl's names.
func report(m Metrics, s policy.Stats, n int, o policy.Objective) {
	if n == 0 {
		return
	}
	mean := func(x float64) float64 { return x / float64(n) }
	m["actor/pg_loss"], m["actor/entropy"], m["actor/ppo_kl"] = mean(s.PolicyLoss), mean(s.Entropy), mean(s.ApproxKL)
	m["actor/pg_clipfrac"], m["actor/grad_norm"], m["actor/ratio_max"] = mean(s.ClipFrac), mean(s.GradNorm), s.RatioMax
	if o.ClipDual > 0 {
		m["actor/pg_clipfrac_lower"] = mean(s.ClipFracLow)
	}
	if o.KL != "" {
		m["actor/kl_loss"] = mean(s.KL)
	}
	if o.ValueCoef > 0 {
		m["critic/vf_loss"], m["critic/vf_clipfrac"] = mean(s.ValueLoss), mean(s.ValueClip)
		if s.CriticNorm > 0 {
			m["critic/grad_norm"] = mean(s.CriticNorm)
		}
	}
	m["train/trained_tokens"] = float64(s.Tokens)
	for name, x := range s.Metrics {
		if m[name] = mean(x); strings.HasSuffix(name, "_max") || strings.HasSuffix(name, "_min") {
			m[name] = x
		}
	}
}

// count stops a run whose optimiser steps keep being skipped.
func (t *Trainer) count(s policy.Stats) error {
	if !s.Skipped {
		t.skipped = 0
		return nil
	}
	t.skipped++
	t.Log.Warn("optimiser step skipped", "grad_norm", s.GradNorm, "critic_norm", s.CriticNorm, "in a row", t.skipped)
	if t.skipped >= t.Config.Trainer.MaxSkipped {
		return fmt.Errorf("vagen: %w: %d optimiser steps in a row were skipped; the last gradient norm was %v", ErrDiverged, t.skipped, s.GradNorm)
	}
	return nil
}
