package vlmtest_test

import (
	"fmt"
	"math"
	"path"
	"strings"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
	"vagen/internal/rng"
	"vagen/policy"
	"vagen/policy/vlm/internal/learn"
	"vagen/policy/vlm/internal/model"
	. "vagen/policy/vlm/internal/modeltest"
	. "vagen/policy/vlm/internal/vlmtest"
)

// pureLossLimit is what the pure-Go backend may add to the error of losses after
// steps, as a share of the first loss. For recordings in float32 against float64
// that share is up to 4e-5.
const pureLossLimit = 1e-4

// sensitivityFactor is how many times its measured sensitivity a number of a later
// step may be off. The sensitivity is the largest change in five trainings from
// weights with noise; the recorded tolerances of the losses use the same factor.
const sensitivityFactor = 4

// rounding is how far summing in float32 moves a gradient, as a share of its
// tensor's largest entry: the largest gap between recordings in float32 and in
// float64, over all recorded models.
const rounding = 1.3e-5

// signal is how large a gradient must be, as a share of its tensor's largest
// entry, for the sign of the optimiser's first step to be more than rounding: both
// the recording and this run may be off by it.
const signal = 2*rounding + 1e-6

// training is the recorded batch.
type training struct {
	batch policy.Batch
	aim   policy.Objective
}

// training reads the recorded batch: imitation of the masked tokens, or the mean
// squared error of a critic's values there.
func (r *recordedModel) training(l *learn.Learner) *training {
	const name = "train"
	if !r.has(name + ".losses") {
		return nil
	}
	rows, at := r.caseRows(name)
	n := len(rows.Tokens)
	s := &training{batch: policy.Batch{Rows: rows}}
	mask := r.ints(name + ".loss_mask")
	weight := make([]float32, n)
	var total float64
	for _, m := range mask {
		total += float64(m)
	}
	for i, place := range at {
		weight[i] = float32(float64(mask[place]) / total)
	}
	if !r.Critic {
		s.batch.Weight = weight
		s.aim = policy.Objective{Imitate: true, Temperature: 1}
		return s
	}
	// Half the squared error is the loss here.
	s.batch.Returns, s.batch.ValueWeight = make([]float32, n), weight
	width, responses := r.dims(name + ".loss_mask")[1], r.dims(name + ".returns")[1]
	returns := r.floats(name + ".returns")
	for i, place := range at {
		weight[i] *= 2
		if k := place%width - (width - responses); k >= 0 {
			s.batch.Returns[i] = float32(returns[place/width*responses+k])
		}
	}
	s.aim = policy.Objective{CriticOnly: true, ValueCoef: 1, Temperature: 1}
	return s
}

// gradients runs the batch forward and back. The caller takes the step, or drops the gradients.
func (s *training) gradients(r *recordedModel, m *Model, l *learn.Learner) (map[string][]float32, policy.Stats) {
	stats, err := m.Accumulate(r.t.Context(), &s.batch, s.aim)
	require.NoError(r.t, err)
	return Read(r.t, OpenSums(l.Open)), stats
}

// compareTraining runs the recorded three steps. It returns the gradients of
// the first, nil when no training was recorded.
func (r *recordedModel) compareTraining(m *Model, l *learn.Learner) map[string][]float32 {
	s := r.training(l)
	if s == nil {
		return nil
	}
	losses, norms := r.floats("train.losses"), r.floats("train.grad_norms")
	opt := policy.Optimizer{Rate: r.AdamW.LR, CriticRate: r.AdamW.LR, Beta1: r.AdamW.Betas[0], Beta2: r.AdamW.Betas[1],
		Epsilon: r.AdamW.Eps, WeightDecay: r.AdamW.Decay, GradClip: r.AdamW.Clip}
	before := Read(r.t, l.Weights)
	grads, stats := s.gradients(r, m, l)
	r.compareGradients(grads)
	loss := stats.PolicyLoss
	if r.Critic {
		loss = stats.ValueLoss
	}
	r.tally.Float(r.t, "loss 0", loss, losses[0], firstLossLimit)
	stepped, err := m.Step(r.t.Context(), opt)
	require.NoError(r.t, err)
	require.False(r.t, stepped.Skipped)
	norm := stepped.GradNorm + stepped.CriticNorm
	r.tally.Float(r.t, "gradient norm 0", norm, norms[0], gradNormLimit)
	r.compareStep(before, grads, Read(r.t, l.Weights), min(1, r.AdamW.Clip/(norm+1e-6)))
	for step := 1; step < len(losses); step++ {
		stats, err := m.Update(r.t.Context(), &s.batch, s.aim, opt)
		require.NoError(r.t, err)
		loss, norm := stats.PolicyLoss, stats.GradNorm
		if r.Critic {
			loss, norm = stats.ValueLoss, stats.CriticNorm
		}
		limit := r.laterLoss(step, losses[step])
		if m.Dev.PureGo() {
			// It adds number by number, which is less exact than the pairwise sums of others.
			// The error of the first steps stays while the loss decreases.
			limit.Abs = max(limit.Abs, pureLossLimit*losses[0])
		}
		r.tally.Float(r.t, fmt.Sprint("loss ", step), loss, losses[step], limit)
		if step < len(norms) {
			r.tally.Float(r.t, fmt.Sprint("gradient norm ", step), norm, norms[step], r.laterNorm(step, norms[step]))
		}
	}
	return grads
}

// laterLoss is the tolerance of the loss after some steps: the larger of a share of
// it and of what its recorded sensitivity allows. A loss near its minimum depends on
// rounding far more than the first one, in particular a critic's.
func (r *recordedModel) laterLoss(step int, loss float64) golden.Tolerance {
	limit := laterLossLimit.Rel * math.Abs(loss)
	if step <= len(r.LossTolerance) {
		limit = max(limit, r.LossTolerance[step-1])
	}
	return golden.Tolerance{Abs: limit}
}

// laterNorm is laterLoss for the norm of the gradients.
func (r *recordedModel) laterNorm(step int, norm float64) golden.Tolerance {
	limit := gradNormLimit.Rel * norm
	if step < len(r.Sensitivity.GradNorms) {
		limit = max(limit, sensitivityFactor*r.Sensitivity.GradNorms[step])
	}
	return golden.Tolerance{Abs: limit}
}

// compareNoisyTraining compares training from weights with noise of about a rounding
// error, if the recording has the sensitivity to it. Another processor sums in another order, which changes
// every number by such an error, and training must stay within its tolerances. weights are those of the checkpoint.
func (r *recordedModel) compareNoisyTraining(m *Model, l *learn.Learner, weights map[string][]float32) {
	if r.Sensitivity.Noise == 0 {
		return
	}
	all := func(model.Param) bool { return true }
	random := rng.New(0, rng.Init)
	require.NoError(r.t, l.Weights.Replace(all, func(part model.Stored, _ []float32) ([]float32, error) {
		noisy := make([]float32, part.Size())
		for i, w := range weights[part.Name] {
			noisy[i] = float32(float64(w) * (1 + r.Sensitivity.Noise*random.NormFloat64()))
		}
		return noisy, nil
	}))
	l.Adam.Free()
	l.Adam = nil // the first update creates it
	r.compareTraining(m, l)
}

// excerpt takes the recorded part of a tensor: all of a vector, rows of the
// embedding, the corner of a matrix.
func (r *recordedModel) excerpt(field, name string, x []float32, dims []int) (got []float32, want []float64, ok bool) {
	full := "train." + field + "/" + name
	if !r.has(full) {
		return nil, nil, false
	}
	want, shape := r.floats(full), r.dims(full)
	if len(shape) < 2 {
		return x, want, true
	}
	width := 1
	for _, d := range dims[1:] {
		width *= d
	}
	rows := make([]int, shape[0])
	for i := range rows {
		rows[i] = i
	}
	if path.Ext(strings.TrimSuffix(name, ".weight")) == ".embed_tokens" {
		for i, row := range r.ints("train.embed_rows") {
			rows[i] = int(row)
		}
	}
	for _, row := range rows {
		got = append(got, x[row*width:row*width+shape[1]]...)
	}
	return got, want, true
}

// each visits the recorded parameters in their order.
func (r *recordedModel) eachParam(values map[string][]float32, visit func(i int, name string, x []float32)) {
	require.Len(r.t, values, len(r.ParamNames))
	for i, name := range r.ParamNames {
		x, ok := values[name]
		require.True(r.t, ok, "no parameter %s", name)
		visit(i, name, x)
	}
}

func (r *recordedModel) compareGradients(grads map[string][]float32) {
	norms, compared := r.floats("train.param_grad_norms"), 0
	dims := r.partDims()
	r.eachParam(grads, func(i int, name string, x []float32) {
		r.tally.Float(r.t, "gradient norm of "+name, length(x), norms[i], gradNormLimit)
		if got, want, ok := r.excerpt("grad", name, x, dims[name]); ok {
			compared++
			golden.Floats(r.t, r.tally, "gradient of "+name, got, want, golden.Tolerance{Abs: r.grad * Largest(x)})
		}
	})
	require.Positive(r.t, compared)
}

// compareStep compares the weights after the first step, where the gradient is
// more than rounding. scale is the factor of the gradient clip.
func (r *recordedModel) compareStep(before, grads, after map[string][]float32, scale float64) {
	updates, norms, sums := r.floats("train.param_update_norms"), r.floats("train.param_after_norms"),
		r.floats("train.param_after_sums")
	dims := r.partDims()
	r.eachParam(after, func(i int, name string, x []float32) {
		var sum float64
		step := make([]float64, len(x))
		for k, v := range x {
			sum += float64(v)
			step[k] = float64(v) - float64(before[name][k])
		}
		limit := r.update
		limit.Abs = r.stepRounding(step, grads[name], scale)
		r.tally.Float(r.t, "update norm of "+name, length(step), updates[i], limit)
		r.tally.Float(r.t, "norm after the step of "+name, length(x), norms[i], afterNormLimit)
		r.tally.Float(r.t, "sum after the step of "+name, sum, sums[i], afterSumLimit)
		got, want, ok := r.excerpt("after", name, x, dims[name])
		if !ok {
			return
		}
		grad, _, ok := r.excerpt("grad", name, grads[name], dims[name])
		require.True(r.t, ok, "no recorded gradient of %s", name)
		top := Largest(grads[name])
		for k := range got {
			if math.Abs(float64(grad[k])) > signal*top {
				r.tally.Float(r.t, fmt.Sprintf("%s[%d] after the step", name, k), float64(got[k]), want[k], afterLimit)
			}
		}
	})
}

// stepRounding is how far the rounding of gradients moves the norm of the first
// step. A weight moves by rate·g/(|g|+ε), which depends on the last digits of g
// where g is of the order of ε, as with the biases of keys, which hardly change
// attention.
func (r *recordedModel) stepRounding(step []float64, grads []float32, scale float64) float64 {
	off := rounding * Largest(grads) * scale
	var moved float64
	for k, g := range grads {
		slope := r.AdamW.Eps / math.Pow(math.Abs(float64(g))*scale+r.AdamW.Eps, 2)
		moved += math.Abs(step[k]) * r.AdamW.LR * min(1, slope*off)
	}
	return moved / length(step)
}

// partDims are the dimensions of the parameters by name.
func (r *recordedModel) partDims() map[string][]int {
	out := map[string][]int{}
	for _, part := range model.EachPart(r.spec.Groups().All()) {
		out[part.Name] = part.Dims
	}
	return out
}

// compareRecompute computes activations again instead of keeping them: the
// gradients are the same, up to the order in which XLA adds.
func (r *recordedModel) compareRecompute(dir string, o Options, grads map[string][]float32) {
	m, err := TryOpen(r.t.Context(), dir, o)
	require.NoError(r.t, err)
	defer m.Close()
	l := m.Sets.Actor
	if r.Critic {
		l = m.Sets.Critic
	}
	got, _ := r.training(l).gradients(r, m, l)
	l.DropGradients()
	r.compareGradients(got)
	r.eachParam(got, func(_ int, name string, x []float32) {
		want := make([]float64, len(x))
		for i, v := range grads[name] {
			want[i] = float64(v)
		}
		golden.Floats(r.t, r.tally, "recomputed gradient of "+name, x, want, golden.Tolerance{Abs: r.grad * Largest(x)})
	})
}
