// Package learn trains sets of weights: it scores packs, evaluates objectives, sums gradients in one order over
// parts, devices and nodes, takes optimiser steps, and saves and restores weights with their moments.
package learn

import (
	"context"
	"slices"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/net"
	"vagen/policy/vlm/internal/nodes"
	"vagen/policy/vlm/internal/weights"
)

// Learner is a set of weights with its optimiser state.
type Learner struct {
	Net     *net.Net
	Weights *weights.Tensors
	Parts   *net.Parts
	Adam    *adam         // nil until the first update
	Open    *TreeStep     // the gradients since the last optimiser step; nil for none
	Names   weights.Names // names and types of its tensors in the checkpoint

	Replicas []*Replica          // one for each device; the first is net, weights and parts
	Tree     bool                // steps are divided into leaves
	Peers    *nodes.Communicator // of nodes; nil for this process alone
	Sharded  bool                // the replicas share weights, whose tensors are on several devices

	OffloadMoments bool              // moments are in host memory between updates
	offloadWeights bool              // weights are in host memory between calls
	home           weights.Placement // of weights that are moved between host and devices
}

func New(n *net.Net, t *weights.Tensors, as weights.Names) *Learner {
	l := &Learner{Net: n, Weights: t, Parts: n.PartsOf(t.Arrays), Names: as}
	l.Replicas = []*Replica{{Net: n, Weights: t, Parts: l.Parts}}
	return l
}

func (l *Learner) Free() {
	if l != nil {
		l.DropGradients()
		for _, r := range l.Replicas {
			if r != nil { // nil where copying to a device has failed
				r.Weights.Free()
			}
		}
		l.Adam.Free()
	}
}

// score runs a head over packs and scatters the results to out, which is flat like
// Rows.Tokens.
func (r *Replica) score(
	ctx context.Context, packs []*net.Pack, h *model.Head, out *net.Scored, chunk int, temperature float64,
) error {
	for _, p := range packs {
		if err := ctx.Err(); err != nil {
			return err
		}
		t, err := r.Net.Forward(r.Parts, p, false)
		if err != nil {
			return err
		}
		err = r.scoreInto(t, h, out, chunk, temperature)
		t.Free()
		if err != nil {
			return err
		}
	}
	return nil
}

// scoreInto scatters the scores of a trace.
func (r *Replica) scoreInto(t *net.Trace, h *model.Head, out *net.Scored, chunk int, temperature float64) error {
	s, err := r.Net.ScoreTrace(h, r.Parts, t, chunk, temperature)
	if err == nil {
		s.Scatter(t.Pack.Source, h, out)
	}
	return err
}

// scoreFirst scores packs for a task, and keeps the forward pass of the first pack for its backward pass. Memory
// allows only one.
func (r *Replica) scoreFirst(ctx context.Context, k *task, packs []*net.Pack) (*net.Trace, error) {
	if len(packs) == 0 {
		return nil, nil
	}
	if err := r.score(ctx, packs[1:], k.head, k.scores, k.chunk, k.temperature); err != nil {
		return nil, err
	}
	first, err := r.Net.Forward(r.Parts, packs[0], true)
	if err != nil {
		return nil, err
	}
	if err := r.scoreInto(first, k.head, k.scores, k.chunk, k.temperature); err != nil {
		first.Drop()
		return nil, err
	}
	return first, nil
}

// learn returns the gradients of packs. first is the forward pass of the first pack, nil if it has not been computed;
// learn consumes it.
func (r *Replica) learn(ctx context.Context, k *task, first *net.Trace, packs []*net.Pack) (*net.Parts, error) {
	defer first.Drop()
	g := net.NewGradients(r.Parts)
	fail := func(err error) (*net.Parts, error) {
		r.Net.FreeGradients(g)
		return nil, err
	}
	for i, p := range packs {
		if err := ctx.Err(); err != nil {
			return fail(err)
		}
		t, err := first, error(nil)
		if i > 0 || first == nil {
			if t, err = r.Net.Forward(r.Parts, p, true); err != nil {
				return fail(err)
			}
		}
		err = r.learnTrace(k, g, t)
		t.Free()
		if err != nil {
			return fail(err)
		}
	}
	return g, nil
}

// learnTrace runs head and backward pass over a pack, and adds the gradients to g.
func (r *Replica) learnTrace(k *task, g *net.Parts, t *net.Trace) error {
	slopes := func(c *net.Chunk, res []*device.Array) ([]float32, error) {
		tokens := t.Pack.Source[c.From:c.To]
		if k.local {
			var own net.Scored
			if err := own.Read(k.head, res, len(tokens)); err != nil {
				return nil, err
			}
			own.Scatter(tokens, k.head, k.scores)
		}
		return k.slopesOf(tokens, len(c.At))
	}
	return r.Net.Learn(k.head, r.Parts, g, t, t.Pack.Chunks(k.chunk), k.temperature, slopes)
}

// Prepare compiles the programs of the first pack and the first optimiser step in the background.
func (l *Learner) Prepare(p *net.Pack, h *model.Head, chunk int) error {
	if err := l.Net.Prepare(l.Parts, p, h, chunk); err != nil || l.Adam != nil {
		return err
	}
	return prepareAdam(l.Net, l.Weights, l.Tree)
}

// CopyFrom replaces the weights that want selects by those of another learner, by name. Parts that the other
// does not have are unchanged.
func (l *Learner) CopyFrom(other *Learner, want func(model.Param) bool) error {
	values := map[string][]float32{}
	err := other.Weights.Each(want, func(part model.Stored, x []float32) error {
		values[part.Name] = slices.Clone(x)
		return nil
	})
	if err != nil {
		return err
	}
	err = l.Weights.Replace(want, func(part model.Stored, x []float32) ([]float32, error) {
		if y, ok := values[part.Name]; ok {
			return y, nil
		}
		return x, nil
	})
	if err != nil {
		return err
	}
	return l.spread(want)
}

func every(model.Param) bool { return true }
