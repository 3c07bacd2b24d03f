package train

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"vagen/advantage"
	"vagen/policy"
	"vagen/policy/loss"
	"vagen/train/config"
	"vagen/train/track"
)

// objective returns the objective of a step's updates.
func objective(c *config.Config, names config.Registries, spec advantage.Spec, step int) (policy.Objective, error) {
	o, err := names.Objective(c, factor(&c.Stability.Clip, step, c.Trainer.Steps),
		factor(&c.Stability.KL, step, c.Trainer.Steps))
	if err != nil {
		return o, fmt.Errorf("train: %w", err)
	}
	o.Temperature, o.ValueClip, o.CriticOnly = c.Agent.Rollout.Temperature, c.Critic.ValueClip,
		step < c.Trainer.CriticWarmup
	if c.Critic.Kind != "none" && spec.Critic {
		o.ValueCoef = c.Critic.ValueCoef
	}
	return o, nil
}

// optimizer returns the optimiser of a step, with the scheduled learning rates.
func optimizer(c *config.Config, step int) policy.Optimizer {
	a := &c.Agent.Actor
	o := adamW(&a.Optim, a.GradClip, a.NormLimit)
	o.Rate, o.CriticRate = rate(&a.Optim, step, c.Trainer.Steps), rate(&c.Critic.Optim, step, c.Trainer.Steps)
	return o
}

// adamW returns an optimiser without its learning rate.
func adamW(o *config.OptimConfig, clip, limit float64) policy.Optimizer {
	return policy.Optimizer{Beta1: o.Beta1, Beta2: o.Beta2, Epsilon: 1e-8, WeightDecay: o.Decay, GradClip: clip,
		MaxGradNorm: limit}
}

// figures averages the metrics of a training step's optimiser steps. A metric is averaged
// over the optimiser steps that have it, and absent if none has it.
type figures struct {
	sum   track.Metrics
	steps map[string]int
}

// add adds the metrics of an optimiser step. Of metrics whose names end in _max or _min the
// largest or smallest is kept instead of the average.
func (f *figures) add(m track.Metrics) {
	if f.sum == nil {
		f.sum, f.steps = track.Metrics{}, map[string]int{}
	}
	for name, x := range m {
		switch old, seen := f.sum[name]; {
		case strings.HasSuffix(name, "_max"):
			if f.sum[name] = x; seen {
				f.sum[name] = max(old, x)
			}
		case strings.HasSuffix(name, "_min"):
			if f.sum[name] = x; seen {
				f.sum[name] = min(old, x)
			}
		default:
			f.sum[name] = old + x
			f.steps[name]++
		}
	}
}

// write writes the averages.
func (f *figures) write(m track.Metrics) {
	for name, x := range f.sum {
		m[name] = x / float64(max(1, f.steps[name]))
	}
}

// updateMetrics returns the metrics of one optimiser step under verl's names. Metrics of the
// policy or the critic are absent if the step did not update it, or had no token with a loss.
func updateMetrics(s policy.Stats, b *policy.Batch, o policy.Objective, c *config.Config) track.Metrics {
	m := track.Metrics{}
	if !o.CriticOnly && weighted(b.Weight) {
		m["actor/pg_loss"], m["actor/ppo_kl"] = s.PolicyLoss, s.ApproxKL
		m["actor/pg_clipfrac"], m["actor/ratio_max"] = s.ClipFrac, s.RatioMax
		if s.HasEntropy {
			m["actor/entropy"] = s.Entropy
		}
		setGradNorm(m, "actor/grad_norm", s)
		if c.Agent.Actor.ClipDual > 0 {
			m["actor/pg_clipfrac_lower"] = s.ClipFracLow
		}
		if o.KL != loss.NoKL {
			m["actor/kl_loss"] = s.KL
		}
		maps.Copy(m, s.Metrics)
	}
	if o.ValueCoef > 0 && weighted(b.ValueWeight) {
		m["critic/vf_loss"], m["critic/vf_clipfrac"] = s.ValueLoss, s.ValueClip
		if c.Critic.Kind == "separate" {
			m["critic/grad_norm"] = s.CriticNorm
		}
	}
	return m
}

// setGradNorm writes the norm of the gradient if the learner reports it.
func setGradNorm(m track.Metrics, name string, s policy.Stats) {
	if s.HasGradNorm {
		m[name] = s.GradNorm
	}
}

// learns reports whether any token of a batch has a loss.
func learns(b *policy.Batch, o *policy.Objective) bool {
	return !o.CriticOnly && (weighted(b.Weight) || weighted(b.EchoWeight)) || o.ValueCoef > 0 && weighted(b.ValueWeight)
}

// weighted reports whether any token has a weight.
func weighted(weights []float32) bool {
	return slices.ContainsFunc(weights, func(w float32) bool { return w != 0 })
}

// countSkipped returns ErrDiverged after too many skipped optimiser steps in a row.
func (p *progress) countSkipped(s policy.Stats, most int, log *slog.Logger) error {
	if !s.Skipped {
		p.Skipped = 0
		return nil
	}
	p.Skipped++
	log.Warn("optimiser step skipped", "grad_norm", s.GradNorm, "critic_norm", s.CriticNorm, "in a row", p.Skipped)
	if p.Skipped >= most {
		return fmt.Errorf("train: %w: %d optimiser steps in a row were skipped; the last gradient norm was %v", ErrDiverged,
			p.Skipped, s.GradNorm)
	}
	return nil
}
