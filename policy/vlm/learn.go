package vlm

import (
	"context"

	"vagen/policy/vlm/internal/model"
)

// learner is a set of weights with its optimiser state.
type learner struct {
	net     *net
	weights *tensors
	parts   *parts
	adam    *adam     // nil until the first update
	open    *treeStep // the gradients since the last optimiser step; nil for none
	names   names     // names and types of its tensors in the checkpoint

	replicas []*replica // one for each device; the first is net, weights and parts
	tree     bool       // steps are divided into leaves
	group    *group     // of nodes; nil for this process alone
	sharded  bool       // the replicas share weights, whose tensors are on several devices

	offloadMoments bool      // moments are in host memory between updates
	offloadWeights bool      // weights are in host memory between calls
	home           placement // of weights that are moved between host and devices
}

func newLearner(n *net, t *tensors, as names) *learner {
	l := &learner{net: n, weights: t, parts: n.parts(t), names: as}
	l.replicas = []*replica{{net: n, weights: t, parts: l.parts}}
	return l
}

func (l *learner) free() {
	if l != nil {
		l.dropGradients()
		for _, r := range l.replicas {
			r.weights.free()
		}
		l.adam.free()
	}
}

// newScored returns room for a head's outputs at n tokens.
func newScored(h *model.Head, n int) *scored {
	s := &scored{}
	if h.Tokens {
		s.logProb, s.entropy = make([]float32, n), make([]float32, n)
	}
	if h.Value {
		s.value = make([]float32, n)
	}
	return s
}

// score runs a head over packs and scatters the results to out, which is flat like
// Rows.Tokens.
func (r *replica) score(ctx context.Context, packs []*pack, h *model.Head, out *scored, chunk int, temperature float64) error {
	for _, p := range packs {
		if err := ctx.Err(); err != nil {
			return err
		}
		t, err := r.net.forward(r.parts, p, false)
		if err != nil {
			return err
		}
		err = r.scoreInto(t, h, out, chunk, temperature)
		t.free()
		if err != nil {
			return err
		}
	}
	return nil
}

// scoreInto scatters the scores of a trace.
func (r *replica) scoreInto(t *trace, h *model.Head, out *scored, chunk int, temperature float64) error {
	s, err := r.net.scoreTrace(h, r.parts, t, chunk, temperature)
	if err == nil {
		s.scatter(t.pack.source, h, out)
	}
	return err
}

// scatter copies outputs to their tokens.
func (s *scored) scatter(tokens []int, h *model.Head, out *scored) {
	for i, at := range tokens {
		if h.Tokens {
			out.logProb[at], out.entropy[at] = s.logProb[i], s.entropy[i]
		}
		if h.Value {
			out.value[at] = s.value[i]
		}
	}
}

// scoreFirst scores packs for a task, and keeps the forward pass of the first pack for its backward pass. Memory
// allows only one.
func (r *replica) scoreFirst(ctx context.Context, k *task, packs []*pack) (*trace, error) {
	if len(packs) == 0 {
		return nil, nil
	}
	if err := r.score(ctx, packs[1:], k.head, k.scores, k.chunk, k.temperature); err != nil {
		return nil, err
	}
	first, err := r.net.forward(r.parts, packs[0], true)
	if err != nil {
		return nil, err
	}
	if err := r.scoreInto(first, k.head, k.scores, k.chunk, k.temperature); err != nil {
		first.drop()
		return nil, err
	}
	return first, nil
}

// learn returns the gradients of packs. first is the forward pass of the first pack, nil if it has not been computed;
// learn consumes it.
func (r *replica) learn(ctx context.Context, k *task, first *trace, packs []*pack) (*gradients, error) {
	defer first.drop()
	g := newGradients(r.parts)
	fail := func(err error) (*gradients, error) {
		r.net.freeGradients(g)
		return nil, err
	}
	for i, p := range packs {
		if err := ctx.Err(); err != nil {
			return fail(err)
		}
		t, err := first, error(nil)
		if i > 0 || first == nil {
			if t, err = r.net.forward(r.parts, p, true); err != nil {
				return fail(err)
			}
		}
		err = r.net.learnTrace(k, r.parts, g, t)
		t.free()
		if err != nil {
			return fail(err)
		}
	}
	return g, nil
}

// prepare compiles the programs of the first pack and the first optimiser step in the background.
func (l *learner) prepare(p *pack, h *model.Head, chunk int) error {
	if err := l.net.prepare(l.parts, p, h, chunk); err != nil || l.adam != nil {
		return err
	}
	return l.net.prepareAdam(l.weights, l.tree)
}

// copyFrom replaces the weights by those of another learner, by name. Parts that the other
// does not have are unchanged.
func (l *learner) copyFrom(other *learner) error {
	values := map[string][]float32{}
	err := other.weights.each(func(part model.Part, x []float32) error {
		values[part.Name] = append([]float32(nil), x...)
		return nil
	})
	if err != nil {
		return err
	}
	err = l.set(func(part model.Part, x []float32) ([]float32, error) {
		if y, ok := values[part.Name]; ok {
			return y, nil
		}
		return x, nil
	})
	if err != nil {
		return err
	}
	return l.spread(func(model.Param) bool { return true })
}

// set replaces every part's values by what f returns for them.
func (l *learner) set(f func(part model.Part, old []float32) ([]float32, error)) error {
	return l.weights.replace(func(model.Param) bool { return true }, f)
}
