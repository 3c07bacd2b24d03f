package train

import (
	"context"
	"fmt"
	"time"

	"vagen/internal/rng"
	"vagen/policy"
	"vagen/train/config"
	"vagen/train/track"
)

// pass is how often, in which parts and with what a step's episodes are learned
// from.
type pass struct {
	epochs, miniBatch int
	shuffle           bool
	objective         policy.Objective
	optimizer         policy.Optimizer
}

// passes lists what a step learns: policy and critic at once, or a separate critic
// with settings of its own before the policy, as in VAGEN. The policy's pass is the
// last.
func (t *Trainer) passes(step int) ([]pass, error) {
	c := &t.Config
	a := &c.Agent.Actor
	objective, err := t.objective(step)
	if err != nil {
		return nil, err
	}
	p := pass{epochs: a.Epochs, miniBatch: a.MiniBatch, shuffle: a.Shuffle, objective: objective, optimizer: t.optimizer(step)}
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

// criticApart reports whether a separate critic has settings of its own beyond its
// rate, which one update of both can't serve.
func criticApart(c *config.Config) bool {
	if c.Critic.Kind != "separate" {
		return false
	}
	a := &c.Agent.Actor
	p := pass{epochs: a.Epochs, miniBatch: a.MiniBatch, shuffle: a.Shuffle, optimizer: adamW(&a.Optim, a.GradClip, a.NormLimit)}
	return criticPass(c, p) != p
}

// criticPass is the actor's pass with what the critic has of its own.
func criticPass(c *config.Config, p pass) pass {
	k := &c.Critic
	own := adamW(&k.Optim, orOwn(p.optimizer.GradClip, k.GradClip), orOwn(p.optimizer.MaxGradNorm, k.NormLimit))
	own.Rate, own.CriticRate = p.optimizer.Rate, p.optimizer.CriticRate
	p.optimizer = own
	p.epochs, p.miniBatch, p.shuffle = orOwn(p.epochs, k.Epochs), orOwn(p.miniBatch, k.MiniBatch), orOwn(p.shuffle, k.Shuffle)
	return p
}

// orOwn is the critic's setting, the actor's where it has none.
func orOwn[T any](actor T, own *T) T {
	if own != nil {
		return *own
	}
	return actor
}

// learn takes the optimiser steps of one training step.
func (t *Trainer) learn(ctx context.Context, b *batch, step int, m track.Metrics) error {
	aggregate, err := t.names.Aggregation(&t.Config)
	if err != nil {
		return fmt.Errorf("train: %w", err)
	}
	passes, err := t.passes(step)
	if err != nil {
		return err
	}
	for _, p := range passes {
		begin := time.Now()
		if err := t.run(ctx, p, b, step, aggregate, m); err != nil {
			return err
		}
		updated(m, &p.objective, time.Since(begin))
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

// run takes the optimiser steps of one pass.
func (t *Trainer) run(ctx context.Context, p pass, b *batch, step int, aggregate config.Aggregation, m track.Metrics) error {
	var sum figures
	tokens := 0
	for epoch := range p.epochs {
		order := t.order(p.shuffle, step, epoch, len(b.kept))
		for from := 0; from < len(order); from += p.miniBatch {
			members := map[int]bool{}
			for _, i := range order[from:min(from+p.miniBatch, len(order))] {
				members[b.kept[i]] = true
			}
			part, err := b.sub(b.at(members), aggregate)
			if err != nil {
				return fmt.Errorf("train: %w", err)
			}
			part.Seed = rng.Derive(t.seed(), rng.Shuffle, uint64(step), uint64(epoch), uint64(from))
			stats, err := t.Learner.Update(ctx, part, p.objective, p.optimizer)
			if err != nil {
				return err
			}
			if err := t.count(stats); err != nil {
				return err
			}
			sum.add(t.measured(stats, part, p.objective))
			tokens += stats.Tokens
		}
	}
	sum.write(m)
	if tokens > 0 {
		m["train/trained_tokens"] = float64(tokens)
	}
	return nil
}

// order is the order in which an epoch deals n episodes to mini-batches.
func (t *Trainer) order(shuffle bool, step, epoch, n int) []int {
	if shuffle {
		return rng.New(t.seed(), rng.Shuffle, uint64(step), uint64(epoch)).Perm(n)
	}
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}
