package model

import (
	"math"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/stretchr/testify/require"

	"vagen/policy/loss"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/devicetest"
)

const headEps = 1e-5

// headCase is a head over 6 tokens of which 4 positions are read, two of them
// twice in the vocabulary's sense: they predict the same token.
type headCase struct {
	head        Head
	x           operand
	weights     []operand
	at, target  []int32
	slot        []int32 // inverse of at
	temperature float64
}

func newHeadCase(tokens, value bool) headCase {
	const n, hidden, vocab = 6, 5, 7
	r := newSource(70)
	c := headCase{
		head: Head{Eps: headEps, Tokens: tokens, Value: value}, x: r.normal(0, 1, n, hidden),
		at: []int32{5, 0, 2, 3}, target: []int32{1, 6, 1, 0}, slot: []int32{1, 4, 2, 3, 4, 0}, temperature: 0.7,
	}
	c.weights = []operand{r.normal(1, 0.3, hidden)}
	if tokens {
		c.weights = append(c.weights, r.normal(0, 1, vocab, hidden))
	}
	if value {
		c.weights = append(c.weights, r.normal(0, 1, 1, hidden), r.normal(0, 1, 1))
	}
	return c
}

// plain returns log-probs, entropies and values, whichever the head has.
func (c headCase) plain(in []operand) []operand {
	x, w := in[0].f, slices64(in[1:])
	hidden := len(w[0])
	y := plainRMSNorm(x, w[0], headEps)
	var picked []float64
	for _, at := range c.at {
		picked = append(picked, y[int(at)*hidden:(int(at)+1)*hidden]...)
	}
	n := len(c.at)
	var out []operand
	w = w[1:]
	if c.head.Tokens {
		logits := plainLinear(picked, w[0], nil, hidden)
		vocab := len(logits) / n
		lp, entropy := make([]float64, n), make([]float64, n)
		for i := range n {
			row := logits[i*vocab : (i+1)*vocab]
			for k := range row {
				row[k] /= c.temperature
			}
			plainSoftmax(row)
			lp[i] = math.Log(row[c.target[i]])
			for _, p := range row {
				entropy[i] -= p * math.Log(p)
			}
		}
		out = append(out, operand{f: lp, dims: []int{n}}, operand{f: entropy, dims: []int{n}})
		w = w[1:]
	}
	if c.head.Value {
		out = append(out, operand{f: plainLinear(picked, w[0], w[1], hidden), dims: []int{n}})
	}
	return out
}

func TestGradientsOfHeads(t *testing.T) {
	t.Parallel()
	pairs := map[string]pair{}
	for name, c := range map[string]headCase{
		"tokens": newHeadCase(true, false), "value": newHeadCase(false, true), "both": newHeadCase(true, true),
	} {
		in := append([]operand{c.x}, c.weights...)
		n := len(in)
		wrt := make([]int, n)
		for i := range wrt {
			wrt[i] = i
		}
		h := c.head
		pairs[name] = pair{
			in: append(in, ints(c.at), ints(c.target), ints(c.slot), floats([]float64{c.temperature}, []int{}...)), wrt: wrt,
			forward: func(in []*Node) []*Node {
				lp, entropy, value := h.Forward(h.Weights(in[1:n]), in[0], in[n], in[n+1], Reshape(in[n+3]))
				return present(lp, entropy, value)
			},
			back: func(in, dy []*Node) []*Node {
				w, temperature := h.Weights(in[1:n]), Reshape(in[n+3])
				s := h.forward(w, in[0], in[n], in[n+1], temperature)
				var dl, de, dv *Node
				if h.Tokens {
					dl, de, dy = dy[0], dy[1], dy[2:]
				}
				if h.Value {
					dv = dy[0]
				}
				dPicked, g := h.backward(w, s, temperature, dl, de, dv)
				return append([]*Node{takeRowsOrZero(dPicked, in[n+2])}, g.List()...)
			},
			plain: func(in []operand) []operand { return c.plain(in[:n]) },
		}
	}
	onEach(t, pairs)
}

func present(nodes ...*Node) []*Node {
	var out []*Node
	for _, n := range nodes {
		if n != nil {
			out = append(out, n)
		}
	}
	return out
}

// The whole objective, policy and value together, as package loss evaluates it
// on plain float64 scores, and its gradient by every parameter.
func TestGradientsOfTheWholeObjective(t *testing.T) {
	t.Parallel()
	c := newHeadCase(true, true)
	in := append([]operand{c.x}, c.weights...)
	n := len(c.at)
	scored := c.plain(in)
	r := newSource(71)
	near := func(x []float64, spread float64) []float64 {
		out := r.normal(0, spread, n).f
		for i := range out {
			out[i] = float64(float32(out[i] + x[i]))
		}
		return out
	}
	b := &loss.Batch[float64]{Offsets: []int{0, n}, Mask: []bool{true, true, true, true}, OldLogProb: near(scored[0].f, 0.3),
		Ref: near(scored[0].f, 0.5), Advantage: r.normal(0, 1, n).f}
	v := &loss.ValueBatch[float64]{Offsets: b.Offsets, Mask: b.Mask, OldValue: near(scored[2].f, 0.3), Return: near(scored[2].f, 1)}
	actor := loss.Actor{Policy: loss.PPO{Low: 0.2, High: 0.3, Dual: 3, Clamp: true}, EntropyCoef: 0.1, KL: "k3", KLCoef: 0.2}
	const valueClip, valueCoef = 0.4, 0.5
	objective := func(in []operand) []operand {
		s := c.plain(in)
		b.LogProb, b.Entropy, v.Value = s[0].f, s[1].f, s[2].f
		var a loss.ActorResult
		var val loss.ValueResult
		require.NoError(t, loss.EvalActor(&a, actor, b))
		require.NoError(t, loss.EvalValue(&val, loss.Value{Clip: valueClip}, loss.Aggregation{}, v))
		return []operand{{f: []float64{a.Loss + valueCoef*val.Loss}, dims: []int{1}}}
	}
	cols := operand{f: make([]float64, n*int(Columns)), dims: []int{n, int(Columns)}}
	for i := range n {
		for col, x := range map[Column]float64{OldLogProb: b.OldLogProb[i], RefLogProb: b.Ref[i], Advantage: b.Advantage[i],
			Weight: 1 / float64(n), OldValue: v.OldValue[i], Return: v.Return[i], ValueWeight: 1 / float64(n)} {
			cols.f[i*int(Columns)+int(col)] = x
		}
	}
	hyper := operand{f: make([]float64, HyperParams), dims: []int{int(HyperParams)}}
	for k, x := range map[HyperParam]float64{Temperature: c.temperature, ClipLow: 0.2, ClipHigh: 0.3, ClipDual: 3,
		EntropyCoef: 0.1, KLCoef: 0.2, ValueClip: valueClip, ValueCoef: valueCoef} {
		hyper.f[k] = x
	}
	k := len(in)
	kind := Loss{Policy: true, PolicyLoss: PolicyLoss{Clamp: true}, Value: true, KL: "k3", Entropy: true}
	acc := newSource(72).normal(0, 1, 6, 5)
	devicetest.Each(t, func(t *testing.T, d *device.Device) {
		all := append(append([]operand{}, in...), ints(c.at), ints(c.slot), ints(c.target), cols, hyper, acc)
		// Twice: into a running sum of dx, and into running sums of all gradients.
		got := run(t, d, all, func(in []*Node) []*Node {
			w := c.head.Weights(in[1:k])
			dx, g, stats := c.head.Update(w, &kind, in[0], in[k], in[k+1], in[k+2], in[k+3], in[k+4], in[k+5], nil)
			total := Add(Slice(stats, AxisRange(0, 1)), MulScalar(Slice(stats, AxisRange(int(StatValue), int(StatValue)+1)), valueCoef))
			total = Sub(total, MulScalar(Slice(stats, AxisRange(int(StatEntropy), int(StatEntropy)+1)), 0.1))
			total = Add(total, MulScalar(Slice(stats, AxisRange(int(StatKL), int(StatKL)+1)), 0.2))
			out := append([]*Node{total, dx}, g...)
			_, g2, _ := c.head.Update(w, &kind, in[0], in[k], in[k+1], in[k+2], in[k+3], in[k+4], in[k+5], g)
			return append(out, g2...)
		})
		requireClose(t, "objective", got[0], objective(in)[0].f, 1e-6, 1e-5)
		numeric := pair{in: in, plain: objective}
		for i := range in {
			want := numeric.numeric(i, [][]float64{{1}})
			top := 0.0
			for _, g := range want {
				top = max(top, math.Abs(g))
			}
			if i == 0 {
				for j := range want {
					want[j] += acc.f[j]
				}
			}
			requireClose(t, "gradient", got[1+i], want, 1e-4*top+1e-6, 0)
			if i > 0 {
				for j := range want {
					want[j] *= 2
				}
				requireClose(t, "sum of gradients", got[k+i], want, 2e-4*top+1e-6, 0)
			}
		}
	})
}

// A token that is not scored gets no gradient, and a head whose loss is switched
// off gets zeros, not nothing: the optimiser wants one gradient per parameter.
func TestUnusedHeadsGetZeroGradients(t *testing.T) {
	c := newHeadCase(true, true)
	in := append([]operand{c.x}, c.weights...)
	k := len(in)
	cols := operand{f: make([]float64, len(c.at)*int(Columns)), dims: []int{len(c.at), int(Columns)}}
	hyper := operand{f: make([]float64, HyperParams), dims: []int{int(HyperParams)}}
	hyper.f[Temperature] = 1
	devicetest.Each(t, func(t *testing.T, d *device.Device) {
		all := append(append([]operand{}, in...), ints(c.at), ints(c.slot), ints(c.target), cols, hyper)
		got := run(t, d, all, func(in []*Node) []*Node {
			dx, g, _ := c.head.Update(c.head.Weights(in[1:k]), &Loss{}, in[0], in[k], in[k+1], in[k+2], in[k+3], in[k+4], ZerosLike(in[0]), nil)
			return append([]*Node{dx}, g...)
		})
		require.Len(t, got, k)
		for i, g := range got {
			require.Equal(t, make([]float32, len(in[i].f)), g)
		}
	})
}

func TestLogitsAreNotDividedByTheTemperature(t *testing.T) {
	c := newHeadCase(true, false)
	devicetest.Each(t, func(t *testing.T, d *device.Device) {
		in := append([]operand{c.x}, c.weights...)
		got := run(t, d, in, func(in []*Node) []*Node { return []*Node{c.head.Logits(c.head.Weights(in[1:]), in[0])} })
		y := plainRMSNorm(c.x.f, c.weights[0].f, headEps)
		requireClose(t, "logits", got[0], plainLinear(y, c.weights[1].f, nil, 5), absTolerance, relTolerance)
	})
}
