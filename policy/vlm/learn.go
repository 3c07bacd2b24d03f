package vlm

import (
	"context"
	"fmt"

	"vagen/policy"
	"vagen/policy/vlm/internal/model"
)

// learner is a set of weights with its optimiser.
type learner struct {
	net     *net
	weights *tensors
	parts   *parts
	adam    *adam // nil until the first update
	names   names // how the checkpoint calls and stores its tensors
}

func newLearner(n *net, t *tensors, as names) *learner {
	return &learner{net: n, weights: t, parts: n.parts(t), names: as}
}

func (l *learner) free() {
	if l != nil {
		l.weights.free()
		l.adam.free()
	}
}

// score runs a head over packs and scatters the results to flat arrays of n
// tokens.
func (l *learner) score(ctx context.Context, packs []*pack, h *model.Head, n, chunk int, temperature float64) (logProb, entropy, value []float32, err error) {
	if h.Tokens {
		logProb, entropy = make([]float32, n), make([]float32, n)
	}
	if h.Value {
		value = make([]float32, n)
	}
	for _, p := range packs {
		if err := ctx.Err(); err != nil {
			return nil, nil, nil, err
		}
		t, err := l.net.forward(l.parts, p, false)
		if err != nil {
			return nil, nil, nil, err
		}
		s, err := l.net.scoreTrace(h, l.parts, t, chunk, temperature)
		t.free()
		if err != nil {
			return nil, nil, nil, err
		}
		for i, at := range p.source {
			if h.Tokens {
				logProb[at], entropy[at] = s.logProb[i], s.entropy[i]
			}
			if h.Value {
				value[at] = s.value[i]
			}
		}
	}
	return logProb, entropy, value, nil
}

// learn accumulates gradients over the packs of one step. The caller frees them.
func (l *learner) learn(ctx context.Context, packs []*pack, h *model.Head, loss *model.Loss, cols func(*pack) columns, hyper []float32, chunk int) (*gradients, []float64, error) {
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
	for _, p := range packs {
		if err := ctx.Err(); err != nil {
			return fail(err)
		}
		t, err := l.net.forward(l.parts, p, true)
		if err != nil {
			return fail(err)
		}
		stats, err := l.net.learnTrace(h, loss, l.parts, g, t, cols(p), hyp, chunk)
		t.free()
		if err != nil {
			return fail(err)
		}
		for i, x := range stats {
			if model.Stat(i) == model.StatRatioMax {
				sum[i] = max(sum[i], x)
			} else {
				sum[i] += x
			}
		}
	}
	return g, sum, nil
}

// apply takes the optimiser step and frees the gradients.
func (l *learner) apply(g *gradients, opt policy.Optimizer, rate float64) (norm float64, skipped bool, err error) {
	defer l.net.freeGradients(g)
	if l.adam == nil {
		if l.adam, err = newAdam(l.net); err != nil {
			return 0, false, err
		}
	}
	return l.adam.step(l.weights, l.net.list(g.parts), opt, rate)
}

// gather builds the loss's columns of a pack from flat per-token numbers.
func gather(b *policy.Batch) func(*pack) columns {
	from := [model.Columns][]float32{
		model.OldLogProb: b.OldLogProbs, model.RefLogProb: b.Reference, model.Advantage: b.Advantages,
		model.Weight: b.Weight, model.OldValue: b.OldValues, model.Return: b.Returns, model.ValueWeight: b.ValueWeight,
	}
	return func(p *pack) columns {
		out := make(columns, len(p.source)*int(model.Columns))
		for c, values := range from {
			if values == nil {
				continue
			}
			for i, at := range p.source {
				out[i*int(model.Columns)+c] = values[at]
			}
		}
		return out
	}
}

func hyperParams(o policy.Objective) []float32 {
	h := make([]float32, model.HyperParams)
	set := func(p model.HyperParam, x float64) { h[p] = float32(x) }
	set(model.Temperature, o.Temperature)
	set(model.ClipLow, o.ClipLow)
	set(model.ClipHigh, o.ClipHigh)
	set(model.ClipDual, o.ClipDual)
	set(model.EntropyCoef, o.EntropyCoef)
	set(model.KLCoef, o.KLCoef)
	set(model.ValueClip, o.ValueClip)
	set(model.ValueCoef, o.ValueCoef)
	return h
}

// checkBatch names the first column whose length is wrong, or which the
// objective needs and does not have.
func checkBatch(b *policy.Batch, o policy.Objective, critic bool) error {
	n := len(b.Tokens)
	policyNeeds := !o.CriticOnly && !o.Imitate
	valueNeeds := critic && o.ValueCoef > 0 && !o.Imitate
	for _, c := range []struct {
		name   string
		values []float32
		need   bool
	}{
		{"Weight", b.Weight, !o.CriticOnly},
		{"ValueWeight", b.ValueWeight, valueNeeds},
		{"OldLogProbs", b.OldLogProbs, policyNeeds},
		{"Advantages", b.Advantages, policyNeeds},
		{"Reference", b.Reference, policyNeeds && o.KL != ""},
		{"Returns", b.Returns, valueNeeds},
		{"OldValues", b.OldValues, valueNeeds && o.ValueClip > 0},
	} {
		if c.values == nil && c.need {
			return fmt.Errorf("vlm: update: %s is missing", c.name)
		}
		if c.values != nil && len(c.values) != n {
			return fmt.Errorf("vlm: update: %s has %d numbers for %d tokens", c.name, len(c.values), n)
		}
		for i, x := range c.values {
			if x-x != 0 {
				return fmt.Errorf("vlm: update: %s at token %d is %v, must be finite", c.name, i, x)
			}
		}
	}
	if !(o.Temperature > 0) {
		return fmt.Errorf("vlm: update: temperature is %v, must be above 0", o.Temperature)
	}
	return nil
}

// copyFrom replaces the weights by those of another learner, name by name. Parts
// that the other does not have stay.
func (l *learner) copyFrom(other *learner) error {
	values := map[string][]float32{}
	err := other.weights.each(func(part model.Part, x []float32) error {
		values[part.Name] = append([]float32(nil), x...)
		return nil
	})
	if err != nil {
		return err
	}
	return l.set(func(part model.Part, x []float32) ([]float32, error) {
		if y, ok := values[part.Name]; ok {
			return y, nil
		}
		return x, nil
	})
}

// set replaces every part's values by what f returns for them.
func (l *learner) set(f func(part model.Part, old []float32) ([]float32, error)) error {
	return l.weights.replace(l.net.dev, f)
}
