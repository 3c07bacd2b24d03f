package train

import (
	"context"
	"fmt"
	"time"

	"vagen/advantage"
	"vagen/internal/rng"
	"vagen/policy"
	"vagen/policy/loss"
	"vagen/train/config"
	"vagen/train/track"
)

// pass is one pass of updates over a step's episodes: epochs, mini-batches, optimiser and
// objective.
type pass struct {
	epochs, miniBatch int
	shuffle           bool
	objective         policy.Objective
	optimizer         policy.Optimizer
}

// passes returns the passes of a step: one for policy and critic together, or, as in VAGEN,
// one for a separate critic with its own settings followed by one for the policy. The pass
// of the policy is the last.
func passes(c *config.Config, names config.Registries, spec advantage.Spec, step int) ([]pass, error) {
	a := &c.Agent.Actor
	aim, err := objective(c, names, spec, step)
	if err != nil {
		return nil, err
	}
	p := pass{epochs: a.Epochs, miniBatch: a.MiniBatch, shuffle: a.Shuffle, objective: aim, optimizer: optimizer(c, step)}
	if !criticApart(c) || p.objective.ValueCoef == 0 {
		return []pass{p}, nil
	}
	q := criticPass(c, p)
	if p.objective.CriticOnly {
		return []pass{q}, nil
	}
	q.objective.CriticOnly, p.objective.ValueCoef = true, 0
	return []pass{q, p}, nil
}

// criticApart reports whether a separate critic has its own settings, except its learning
// rate. Then policy and critic cannot share an update.
func criticApart(c *config.Config) bool {
	if c.Critic.Kind != "separate" {
		return false
	}
	a := &c.Agent.Actor
	p := pass{epochs: a.Epochs, miniBatch: a.MiniBatch, shuffle: a.Shuffle,
		optimizer: adamW(&a.Optim, a.GradClip, a.NormLimit)}
	return criticPass(c, p) != p
}

// criticPass returns the actor's pass with the critic's own settings.
func criticPass(c *config.Config, p pass) pass {
	k := &c.Critic
	own := adamW(&k.Optim, orOwn(p.optimizer.GradClip, k.GradClip), orOwn(p.optimizer.MaxGradNorm, k.NormLimit))
	own.Rate, own.CriticRate = p.optimizer.Rate, p.optimizer.CriticRate
	p.optimizer = own
	p.epochs, p.miniBatch, p.shuffle = orOwn(p.epochs, k.Epochs), orOwn(p.miniBatch, k.MiniBatch),
		orOwn(p.shuffle, k.Shuffle)
	return p
}

// orOwn returns the critic's setting, or the actor's if it has none.
func orOwn[T any](actor T, own *T) T {
	if own != nil {
		return *own
	}
	return actor
}

// learn does the optimiser steps of one training step.
func (t *Trainer) learn(ctx context.Context, b *batch, step int, m track.Metrics) error {
	aggregate, err := t.methods.names.Aggregation(&t.Config)
	if err != nil {
		return fmt.Errorf("train: %w", err)
	}
	all, err := passes(&t.Config, t.methods.names, t.methods.spec, step)
	if err != nil {
		return err
	}
	for _, p := range all {
		begin := time.Now()
		if err := t.learnPass(ctx, p, b, step, aggregate, m); err != nil {
			return err
		}
		addUpdateTime(m, &p.objective, time.Since(begin))
		if _, measured := m["train/trained_tokens"]; !measured {
			continue
		}
		if !p.objective.CriticOnly {
			m["actor/lr"] = p.optimizer.Rate
		}
		if p.objective.ValueCoef > 0 {
			m["critic/lr"] = p.optimizer.CriticRate
			if t.Config.Critic.Kind == "shared" {
				m["critic/lr"] = p.optimizer.Rate
			}
		}
	}
	return nil
}

// learnPass does the optimiser steps of one pass.
func (t *Trainer) learnPass(
	ctx context.Context, p pass, b *batch, step int, aggregate config.Aggregation, m track.Metrics,
) error {
	var sum figures
	tokens, seed := 0, t.stability.seed()
	for epoch := range p.epochs {
		order := rng.Order(p.shuffle, len(b.kept), seed, rng.Shuffle, uint64(step), uint64(epoch))
		for from := 0; from < len(order); from += p.miniBatch {
			members := map[int]bool{}
			for _, i := range order[from:min(from+p.miniBatch, len(order))] {
				members[b.kept[i]] = true
			}
			rows := b.rowsOf(members)
			part, err := b.miniBatch(rows, aggregate, t.Config.Algorithm.Echo.Alpha)
			if err != nil {
				return fmt.Errorf("train: %w", err)
			}
			if loss.Sampled(p.objective.PolicyLoss()) {
				part.Sampled = slice(b.Rows.Offsets, rows, b.samplingLogProbs())
			}
			if !learns(part, &p.objective) {
				t.Log.Warn("no token of a mini-batch has a loss, so that it has no update", "step", step)
				continue
			}
			part.Seed = rng.Derive(seed, rng.Shuffle, uint64(step), uint64(epoch), uint64(from))
			stats, err := t.Learner.Update(ctx, part, p.objective, p.optimizer)
			if err != nil {
				return err
			}
			if err := t.progress.countSkipped(stats, t.Config.Trainer.MaxSkipped, t.Log); err != nil {
				return err
			}
			sum.add(updateMetrics(stats, part, p.objective, &t.Config))
			tokens += stats.Tokens
		}
	}
	sum.write(m)
	if tokens > 0 {
		m["train/trained_tokens"] = float64(tokens)
	}
	return nil
}
