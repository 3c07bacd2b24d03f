package vlm

import (
	"context"

	"vagen/policy"
	"vagen/policy/vlm/internal/model"
)

// learner is a set of weights with its optimiser state.
type learner struct {
	net     *net
	weights *tensors
	parts   *parts
	adam    *adam // nil until the first update
	names   names // names and types of its tensors in the checkpoint

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
		s, err := r.net.scoreTrace(h, r.parts, t, chunk, temperature)
		t.free()
		if err != nil {
			return err
		}
		s.scatter(p, h, out)
	}
	return nil
}

// scatter copies a pack's outputs to their tokens.
func (s *scored) scatter(p *pack, h *model.Head, out *scored) {
	for i, at := range p.source {
		if h.Tokens {
			out.logProb[at], out.entropy[at] = s.logProb[i], s.entropy[i]
		}
		if h.Value {
			out.value[at] = s.value[i]
		}
	}
}

// learnFrom is learn with the forward pass of the first pack, if it was already computed.
// It consumes the trace.
func (l *learner) learnFrom(ctx context.Context, first *trace, packs []*pack, h *model.Head, loss *model.Loss, cols func(*pack) columns, hyper []float32, chunk int) (*gradients, []float64, error) {
	if err := l.prepare(packs[0], h, loss, chunk); err != nil {
		first.drop()
		return nil, nil, err
	}
	return l.replicas[0].learn(ctx, first, packs, h, loss, cols, hyper, chunk)
}

// learn returns the gradients of packs, and the statistics.
func (l *replica) learn(ctx context.Context, first *trace, packs []*pack, h *model.Head, loss *model.Loss, cols func(*pack) columns, hyper []float32, chunk int) (*gradients, []float64, error) {
	defer first.drop()
	g := newGradients(l.parts)
	sum := make([]float64, model.Stats)
	s := scope{dev: l.net.dev}
	defer s.free()
	hyp := upload(&s, hyper)
	if s.err != nil {
		return nil, nil, s.err
	}
	fail := func(err error) (*gradients, []float64, error) {
		l.net.freeGradients(g)
		return nil, nil, err
	}
	for i, p := range packs {
		if err := ctx.Err(); err != nil {
			return fail(err)
		}
		t, err := first, error(nil)
		if i > 0 || first == nil {
			if t, err = l.net.forward(l.parts, p, true); err != nil {
				return fail(err)
			}
		}
		stats, err := l.net.learnTrace(h, loss, l.parts, g, t, cols(p), hyp, chunk)
		t.free()
		if err != nil {
			return fail(err)
		}
		addSums(sum, stats)
	}
	return g, sum, nil
}

// prepare compiles the programs of the first pack and the first optimiser step in the background.
func (l *learner) prepare(p *pack, h *model.Head, loss *model.Loss, chunk int) error {
	if err := l.net.prepare(l.parts, p, h, loss, chunk); err != nil || l.adam != nil {
		return err
	}
	return l.net.prepareAdam(l.weights, l.tree)
}

// apply takes the optimiser step and frees the gradients.
func (l *learner) apply(g *gradients, opt policy.Optimizer, rate float64) (norm float64, skipped bool, err error) {
	defer l.net.freeGradients(g)
	if l.adam == nil {
		if l.adam, err = l.newAdam(); err != nil {
			return 0, false, err
		}
	}
	return l.adam.step(l.weights, l.net.list(g.parts), opt, rate)
}

// perToken are the flat per-token numbers from which the loss's columns are built.
type perToken [model.Columns][]float32

func numbersOf(b *policy.Batch) perToken {
	return perToken{
		model.OldLogProb: b.OldLogProbs, model.RefLogProb: b.Reference, model.Advantage: b.Advantages,
		model.Weight: b.Weight, model.OldValue: b.OldValues, model.Return: b.Returns, model.ValueWeight: b.ValueWeight,
		model.AuxWeight: b.AuxWeight, model.RolloutWeight: b.RolloutWeight,
	}
}

// columns returns the columns of a pack.
func (x perToken) columns(p *pack) columns {
	out := make(columns, len(p.source)*int(model.Columns))
	for c, values := range x {
		if values == nil {
			continue
		}
		for i, at := range p.source {
			out[i*int(model.Columns)+c] = values[at]
		}
	}
	return out
}

// kernelOf is the graph of an objective's policy loss with its inputs, model.Custom for a
// loss without one.
func kernelOf(o *policy.Objective) (model.PolicyLoss, map[model.HyperParam]float64) {
	k, inputs, ok := model.KernelOf(o.PolicyLoss())
	if !ok {
		k.Kind = model.Custom
	}
	return k, inputs
}

// hyperNumbers are the settings that are inputs of the graphs.
func hyperNumbers(o policy.Objective) []float64 {
	h := make([]float64, model.HyperParams)
	h[model.Temperature] = o.Temperature
	h[model.EntropyCoef], h[model.KLCoef] = o.EntropyCoef, o.KLCoef
	h[model.ValueClip], h[model.ValueCoef] = o.ValueClip, o.ValueCoef
	_, inputs := kernelOf(&o)
	for p, x := range inputs {
		h[p] = x
	}
	return h
}

func hyperParams(o policy.Objective) []float32 {
	h := make([]float32, model.HyperParams)
	for i, x := range hyperNumbers(o) {
		h[i] = float32(x)
	}
	return h
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
