package vlm

import (
	"context"
	"errors"
	"maps"
	"math/bits"
	"slices"

	"vagen/policy"
	"vagen/policy/loss"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/model"
)

// Losses that combine tokens of a row, a turn or the whole step need the log-probs of all
// of them, but a step's tokens are processed pack by pack. So a step has three phases:
// log-probs of all packs; the loss over all tokens, which gives each token's derivative by
// its own log-prob; the backward pass with that derivative as the token's weight. By the
// chain rule this is the gradient of the loss, independent of the packing.

// A custom loss, which has no graph, is evaluated in plain Go in the second phase.

// jointResult is the result of the second phase.
type jointResult struct {
	slopes  []float32 // flat like Rows.Tokens: policy loss and KL by log-prob
	sums    []float64 // [model.Stats], of policy loss and KL
	metrics map[string]float64
	first   *trace // forward pass of the first pack
}

// evalJoint runs the first two phases. The caller frees the trace.
func (m *Model) evalJoint(ctx context.Context, s *step, packs []*pack) (*jointResult, error) {
	first, logProb, err := s.learner.replicas[0].forwardLogProbs(ctx, packs, s.head, len(s.batch.Tokens), m.opts.HeadTokens, s.objective.Temperature)
	if err != nil {
		return nil, err
	}
	r, err := m.evalJointAt(s, packs, logProb)
	if err != nil {
		first.drop()
		return nil, err
	}
	r.first = first
	return r, nil
}

// forwardLogProbs computes the log-probs of all packs, and keeps the forward pass of the first pack
// for its backward pass. Memory allows only one.
func (l *replica) forwardLogProbs(ctx context.Context, packs []*pack, h *model.Head, n, chunk int, temperature float64) (*trace, []float32, error) {
	out := newScored(h, n)
	if err := l.score(ctx, packs[1:], h, out, chunk, temperature); err != nil {
		return nil, nil, err
	}
	first, err := l.net.forward(l.parts, packs[0], true)
	if err != nil {
		return nil, nil, err
	}
	s, err := l.net.scoreTrace(h, l.parts, first, chunk, temperature)
	if err != nil {
		first.drop()
		return nil, nil, err
	}
	s.scatter(packs[0], h, out)
	return first, out.logProb, nil
}

// evalJointAt is the second phase.
func (m *Model) evalJointAt(s *step, packs []*pack, logProb []float32) (*jointResult, error) {
	if s.loss.Kind == model.Custom {
		return evalCustom(s, packs, logProb)
	}
	t := jointTokens(s.batch, packs, s.loss.Kind.ByTurn())
	chosen, err := chosenTokens(s.batch, s.objective, t, logProb)
	if err != nil {
		return nil, err
	}
	return s.learner.net.runJoint(s, t, t.columns(s.batch, logProb, chosen))
}

// jointTokenSet are the tokens of a joint loss, in the order of the rows: those with weight and
// log-prob.
type jointTokenSet struct {
	source []int    // index in Rows.Tokens
	runs   [][2]int // from, to in source of the tokens of one row or turn
	byTurn bool
}

func jointTokens(b *policy.Batch, packs []*pack, byTurn bool) *jointTokenSet {
	t := &jointTokenSet{byTurn: byTurn}
	for _, p := range packs {
		for _, at := range p.source {
			if b.Weight[at] != 0 {
				t.source = append(t.source, at)
			}
		}
	}
	slices.Sort(t.source)
	row, last := 0, -1
	for i, at := range t.source {
		for at >= b.Offsets[row+1] {
			row++
		}
		if last < b.Offsets[row] || byTurn && b.Turn[at] != b.Turn[last] {
			t.runs = append(t.runs, [2]int{i, i})
		}
		t.runs[len(t.runs)-1][1] = i + 1
		last = at
	}
	return t
}

// chosenTokens marks the tokens, flat like Rows.Tokens, that covariance losses drop or
// penalise; nil for other losses.
func chosenTokens(b *policy.Batch, o policy.Objective, t *jointTokenSet, logProb []float32) ([]bool, error) {
	if k, _ := kernelOf(&o); k.Kind != model.ClipCov && k.Kind != model.KLCov {
		return nil, nil
	}
	mask := make([]bool, len(b.Tokens))
	for _, at := range t.source {
		mask[at] = true
	}
	chosen, err := loss.Chosen(nil, o.PolicyLoss(), &loss.Batch[float32]{
		Offsets: b.Offsets, Mask: mask, LogProb: logProb, OldLogProb: b.OldLogProbs, Advantage: b.Advantages, Seed: b.Seed,
	})
	if errors.Is(err, loss.ErrNotFinite) {
		return nil, nil // the gradient is not finite either, so the step is skipped
	}
	return chosen, err
}

// columns arranges the tokens' numbers for model.JointLoss, padded to one of few sizes.
func (t *jointTokenSet) columns(b *policy.Batch, logProb []float32, chosen []bool) []float32 {
	out := make([]float32, sizeClass(len(t.source), 64)*int(model.JointColumns))
	aux := b.AuxWeight
	if aux == nil {
		aux = b.Weight
	}
	for c, from := range map[model.JointColumn][]float32{
		model.JointLogProb: logProb, model.JointOld: b.OldLogProbs, model.JointReference: b.Reference,
		model.JointAdvantage: b.Advantages, model.JointWeight: b.Weight, model.JointAux: aux, model.JointRollout: b.RolloutWeight,
	} {
		for i, at := range t.source {
			if from != nil {
				out[i*int(model.JointColumns)+int(c)] = from[at]
			}
		}
	}
	for i, at := range t.source {
		out[i*int(model.JointColumns)+int(model.JointMask)] = 1
		if chosen != nil && chosen[at] {
			out[i*int(model.JointColumns)+int(model.JointChosen)] = 1
		}
	}
	return out
}

// sizeClass rounds n up to least times a power of two: every size means another
// executable, and a loss's tokens are cheap.
func sizeClass(n, least int) int { return least << bits.Len(uint((max(n, 1)-1)/least)) }

// segments are the tables of model.Segments for n tokens with padding.
func (t *jointTokenSet) segments(n int) (members []int32, width int, of []int32) {
	for _, r := range t.runs {
		width = max(width, r[1]-r[0])
	}
	width = sizeClass(width, 16)
	members, of = make([]int32, sizeClass(len(t.runs), 16)*width), make([]int32, n)
	for i := range members {
		members[i] = int32(n)
	}
	for k, r := range t.runs {
		for i := r[0]; i < r[1]; i++ {
			members[k*width+i-r[0]], of[i] = int32(i), int32(k)
		}
	}
	return members, width, of
}

// runJoint runs the program of a joint loss.
func (n *net) runJoint(s *step, t *jointTokenSet, cols []float32) (*jointResult, error) {
	l := &model.JointLoss{PolicyLoss: s.loss.PolicyLoss, KL: s.loss.KL, Rollout: s.loss.Rollout}
	sc := scope{dev: n.dev}
	defer sc.free()
	size := len(cols) / int(model.JointColumns)
	in := []*device.Array{upload(&sc, cols, size, int(model.JointColumns)), upload(&sc, hyperNumbers(s.objective))}
	if s.loss.Kind.ByRow() || s.loss.Kind.ByTurn() {
		members, width, of := t.segments(size)
		in = append(in, upload(&sc, members, len(members)/width, width), upload(&sc, of))
	}
	if sc.err != nil {
		return nil, sc.err
	}
	out, err := n.joint(l).Run(in)
	if err != nil {
		return nil, err
	}
	sc.own(out...)
	slopes, err := device.ReadNew[float32](out[0])
	if err != nil {
		return nil, err
	}
	r := &jointResult{slopes: make([]float32, len(s.batch.Tokens))}
	for i, at := range t.source {
		r.slopes[at] = slopes[i]
	}
	if r.sums, err = device.ReadNew[float64](out[1]); err != nil {
		return nil, err
	}
	figures, err := device.ReadNew[float64](out[2])
	if err != nil {
		return nil, err
	}
	r.metrics = maps.Collect(t.metrics(s.batch, figures).All())
	return r, nil
}

// metrics combines the device's figures with those of the layout.
func (t *jointTokenSet) metrics(b *policy.Batch, figures []float64) loss.Metrics {
	m := loss.Metrics{
		Tokens: len(t.source), ClipFraction: figures[model.JointStatClipped], ClipFractionLower: figures[model.JointStatClippedLow],
		KL: figures[model.JointStatKL], K3: figures[model.JointStatK3], AbsKL: figures[model.JointStatAbsKL],
		RatioMean: figures[model.JointStatRatioMean], RatioMin: figures[model.JointStatRatioMin], RatioMax: figures[model.JointStatRatioMax],
	}
	row := 0
	for i, at := range t.source {
		if i == 0 || at >= b.Offsets[row+1] {
			m.Rows++
		}
		for at >= b.Offsets[row+1] {
			row++
		}
	}
	if !t.byTurn || len(t.source) == 0 {
		return m
	}
	var squares float64
	for _, r := range t.runs {
		squares += float64((r[1] - r[0]) * (r[1] - r[0]))
	}
	m.TurnsPerRow, m.TurnLength = float64(len(t.runs))/float64(b.Len()), squares/float64(len(t.source))
	m.TurnLogRatioStd = figures[model.JointStatStd]
	return m
}
