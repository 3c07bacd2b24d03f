package learn

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gomlx/compute/support/xslices"

	"vagen/internal/field"
	"vagen/internal/floats"
	"vagen/policy"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/net"
	"vagen/policy/vlm/internal/weights"
)

// CheckOptimizer lists the settings that are out of range.
func CheckOptimizer(o policy.Optimizer) error {
	var bad field.Checks
	for _, f := range []struct {
		name  string
		value float64
		ok    bool
		must  string
	}{
		{"Rate", o.Rate, o.Rate >= 0, "at least 0"},
		{"CriticRate", o.CriticRate, o.CriticRate >= 0, "at least 0"},
		{"Beta1", o.Beta1, o.Beta1 >= 0 && o.Beta1 < 1, "in [0, 1)"},
		{"Beta2", o.Beta2, o.Beta2 >= 0 && o.Beta2 < 1, "in [0, 1)"},
		{"Epsilon", o.Epsilon, o.Epsilon > 0, "above 0"},
		{"WeightDecay", o.WeightDecay, o.WeightDecay >= 0, "at least 0"},
		{"GradClip", o.GradClip, o.GradClip >= 0, "at least 0"},
		{"MaxGradNorm", o.MaxGradNorm, o.MaxGradNorm >= 0, "at least 0"},
	} {
		if !f.ok || math.IsInf(f.value, 0) {
			bad.Say("%s is %v, must be %s and finite", f.name, f.value, f.must)
		}
	}
	if err := bad.Err(); err != nil {
		return fmt.Errorf("vlm: update: optimizer: %w", err)
	}
	return nil
}

// adam holds the moments of the trained weights of one set.
type adam struct {
	net   *net.Net
	M, V  *weights.Tensors
	Steps int
}

// newAdam returns the moments after a number of steps.
func (l *Learner) newAdam(steps int, first, second weights.Source) (*adam, error) {
	m, err := l.newMoments(first)
	if err != nil {
		return nil, err
	}
	v, err := l.newMoments(second)
	if err != nil {
		m.Free()
		return nil, err
	}
	return &adam{net: l.Net, M: m, V: v, Steps: steps}, nil
}

func zeros(_ model.Param, _ model.Stored, dst []float32) error {
	clear(dst)
	return nil
}

func (a *adam) Free() {
	if a != nil {
		a.M.Free()
		a.V.Free()
	}
}

// skips reports whether a step with this norm of the gradients is skipped.
func skips(norm float64, opt policy.Optimizer) bool {
	return !floats.Finite(norm) || (opt.MaxGradNorm > 0 && norm >= opt.MaxGradNorm)
}

// numbers are the inputs of the programs besides the arrays.
func (a *adam) numbers(opt policy.Optimizer, rate, norm float64) []float32 {
	numbers := make([]float32, model.OptParams)
	set := func(p model.OptParam, x float64) { numbers[p] = float32(x) }
	set(model.OptRate, rate)
	set(model.OptBeta1, opt.Beta1)
	set(model.OptBeta2, opt.Beta2)
	set(model.OptEps, opt.Epsilon)
	set(model.OptDecay, opt.WeightDecay)
	set(model.OptFix1, 1-math.Pow(opt.Beta1, float64(a.Steps)))
	set(model.OptFix2, 1-math.Pow(opt.Beta2, float64(a.Steps)))
	scale := 1.0
	if opt.GradClip > 0 {
		scale = min(1, opt.GradClip/(norm+1e-6))
	}
	set(model.OptScale, scale)
	return numbers
}

// stepGroup updates arrays of one group: of the weights w those at the indices in trained, whose
// moments begin with number first of the group's.
func (a *adam) stepGroup(
	w []*device.Array, trained []int, group, first int, g []*device.Array, hyper *device.Array,
) error {
	n := len(trained)
	d := hyper.Device()
	m, err := a.M.Borrow(d, group, first, first+n)
	if err != nil {
		return err
	}
	v, err := a.V.Borrow(d, group, first, first+n)
	if err != nil {
		a.M.Drop(m)
		return err
	}
	in := make([]*device.Array, 0, 4*n+1)
	for _, i := range trained {
		in = append(in, w[i])
	}
	in = slices.Concat(in, m, v, g)
	out, err := a.net.Adam().Run(append(in, hyper), xslices.Iota(0, 3*n)...)
	if err != nil {
		a.M.Drop(m)
		a.V.Drop(v)
		return err
	}
	for k, i := range trained {
		w[i] = out[k]
	}
	copy(m, out[n:2*n])
	copy(v, out[2*n:])
	return errors.Join(a.M.GiveBack(group, first, m), a.V.GiveBack(group, first, v))
}

// prepareAdam compiles the optimiser's programs in the background: for a group, or, if
// single is set, for each array.
func prepareAdam(n *net.Net, w *weights.Tensors, single bool) error {
	s := net.Scope{Dev: n.Dev.Dry()}
	hyper := net.Upload(&s, make([]float32, model.OptParams))
	n = n.On(s.Dev)
	for i, g := range w.Groups {
		var own []*device.Array
		for _, k := range g.Trained() {
			own = append(own, w.Arrays[i][k])
		}
		size := max(1, len(own))
		if single {
			size = 1
		}
		for list := range slices.Chunk(own, size) {
			if _, err := n.Run(n.Squares(), list); err != nil {
				return err
			}
			in, err := n.Here(&s, slices.Concat(list, list, list, list)) // weights, both moments, gradients
			if err == nil {
				_, err = n.Adam().Run(append(in, hyper), xslices.Iota(0, 3*len(list))...)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}
