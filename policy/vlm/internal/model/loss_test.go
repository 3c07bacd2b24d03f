package model

import (
	"maps"
	"math"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/stretchr/testify/require"

	"vagen/policy/loss"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/devicetest"
)

// losses runs losses on the device, on batches padded to one size, so that
// every kind of loss is compiled once.
type losses struct {
	dev      *device.Device
	size     int
	programs map[string]*device.Program
}

func newLosses(d *device.Device, size int) *losses {
	return &losses{dev: d, size: size, programs: map[string]*device.Program{}}
}

// tokenScores are a model's outputs at some tokens; nil where a head is missing.
type tokenScores struct{ logProb, entropy, value []float64 }

// lossResult is what a loss makes of them. Gradients that cannot matter are 0.
type lossResult struct {
	logProb, entropy, value []float32
	stats                   []float32
}

func (l *losses) eval(t testing.TB, kind Loss, s tokenScores, columns map[Column][]float64, hyper map[HyperParam]float64) lossResult {
	t.Helper()
	p, ok := l.programs[kind.Key()]
	if !ok {
		p = l.dev.Program("loss "+kind.Key(), func(in []*Node) []*Node {
			dl, de, dv, stats := kind.gradients(&scores{LogProb: in[0], Entropy: in[1], Value: in[2]}, in[3], in[4])
			out := []*Node{dl, de, dv, stats}
			for i, n := range out {
				if n == nil {
					out[i] = ZerosLike(in[0])
				}
			}
			return out
		})
		l.programs[kind.Key()] = p
	}
	n := 0
	for _, x := range [][]float64{s.logProb, s.entropy, s.value} {
		n = max(n, len(x))
	}
	require.LessOrEqual(t, n, l.size)
	pad := func(x []float64) operand {
		return operand{f: append(append([]float64{}, x...), make([]float64, l.size-len(x))...), dims: []int{l.size}}
	}
	cols := operand{f: make([]float64, l.size*int(Columns)), dims: []int{l.size, int(Columns)}}
	for c, x := range columns {
		for i, v := range x {
			cols.f[i*int(Columns)+int(c)] = v
		}
	}
	numbers := operand{f: make([]float64, HyperParams), dims: []int{int(HyperParams)}}
	numbers.f[Temperature] = 1
	for h, v := range hyper {
		numbers.f[h] = v
	}
	out := runProgram(t, l.dev, p, []operand{pad(s.logProb), pad(s.entropy), pad(s.value), cols, numbers})
	for k := range 3 { // padding has no weight
		require.Equal(t, make([]float32, l.size-n), out[k][n:])
		out[k] = out[k][:n]
	}
	return lossResult{out[0], out[1], out[2], out[3]}
}

// actorBatch is a batch that reaches every branch of the losses: ratios inside
// and outside the clip range, log-ratios beyond ±20, advantages of both signs
// and of size 0, tokens and rows that do not count. Numbers are float32's.
func actorBatch() *loss.Batch[float64] {
	r := newSource(60)
	b := &loss.Batch[float64]{Offsets: []int{0}}
	for row := range 8 {
		for i := range 5 + 3*row {
			spread := []float64{0.05, 0.3, 2, 15}[i%4]
			b.OldLogProb = append(b.OldLogProb, -3+r.NormFloat64())
			b.LogProb = append(b.LogProb, b.OldLogProb[len(b.OldLogProb)-1]+spread*r.NormFloat64())
			b.Ref = append(b.Ref, b.LogProb[len(b.LogProb)-1]+spread/4*r.NormFloat64())
			b.Advantage = append(b.Advantage, r.NormFloat64())
			b.Entropy = append(b.Entropy, math.Abs(r.NormFloat64()))
			b.Mask = append(b.Mask, row != 3 && r.IntN(4) > 0)
		}
		b.Offsets = append(b.Offsets, len(b.Mask))
	}
	b.Advantage[0], b.Mask[0] = 0, true
	// Far outside in both directions, with both signs of the advantage.
	for i := range 8 {
		at := b.Offsets[6] + i
		b.LogProb[at] = b.OldLogProb[at] + []float64{-23, 23}[i%2]
		b.Advantage[at], b.Mask[at] = []float64{1, -1}[i/2%2], true
		b.Ref[at] = b.LogProb[at] + []float64{-25, 25}[i/4]
	}
	for _, x := range [][]float64{b.OldLogProb, b.LogProb, b.Ref, b.Advantage, b.Entropy} {
		for i, v := range x {
			x[i] = float64(float32(v))
		}
	}
	return b
}

// requireNear compares gradients; a loss of exp(20) times an advantage is in
// float32 off by 20·2⁻²⁴ of its size from the rounding of the log-ratio alone.
func requireNear(t testing.TB, what string, got []float32, want []float64) {
	t.Helper()
	requireClose(t, what, got, want, 1e-6, 1e-5)
}

func TestPolicyLossOnTheDeviceIsThatOfPackageLoss(t *testing.T) {
	t.Parallel()
	b := actorBatch()
	devicetest.Each(t, func(t *testing.T, d *device.Device) {
		l := newLosses(d, len(b.Mask)+3)
		for _, kl := range []loss.KL{"", "k1", "abs", "k2", "k3"} {
			for _, clip := range []loss.PPO{
				{Low: 0.2, High: 0.28, Dual: 3, Clamp: true}, {Low: 0.3, High: 0.1, Clamp: true}, {Clamp: true},
			} {
				for _, mode := range []loss.Mode{loss.TokenMean, loss.SeqMeanTokenMean} {
					actor := loss.Actor{Policy: clip, Aggregation: loss.Aggregation{Mode: mode}, EntropyCoef: 0.02, KL: kl, KLCoef: 0.3}
					requireActor(t, l, actor, clip, b)
				}
			}
		}
	})
}

func requireActor(t *testing.T, l *losses, actor loss.Actor, clip loss.PPO, b *loss.Batch[float64]) {
	t.Helper()
	var want loss.ActorResult
	require.NoError(t, loss.EvalActor(&want, actor, b))
	weight, factor, err := actor.Aggregation.Weights(nil, b.Offsets, b.Mask)
	require.NoError(t, err)
	require.Equal(t, 1.0, factor)
	got := l.eval(t, Loss{Policy: true, PolicyLoss: PolicyLoss{Clamp: true}, KL: actor.KL, Entropy: true}, tokenScores{b.LogProb, b.Entropy, nil},
		map[Column][]float64{OldLogProb: b.OldLogProb, RefLogProb: b.Ref, Advantage: b.Advantage, Weight: weight},
		map[HyperParam]float64{ClipLow: clip.Low, ClipHigh: clip.High, ClipDual: clip.Dual, EntropyCoef: actor.EntropyCoef, KLCoef: actor.KLCoef})
	requireNear(t, "gradient by log-prob", got.logProb, want.GradLogProb)
	requireNear(t, "gradient by entropy", got.entropy, want.GradEntropy)
	var sum, clipped, dual float64
	for _, w := range weight {
		sum += w
	}
	stats := map[Stat]float64{StatPolicy: want.Policy, StatEntropy: want.Entropy, StatKL: want.KL,
		StatRatioMax: want.Metrics.RatioMax, StatValue: 0, StatValueClip: 0}
	if actor.Aggregation.Mode == loss.TokenMean { // the metrics of package loss weigh tokens alike
		clipped, dual = want.Metrics.ClipFraction, want.Metrics.ClipFractionLower
		maps.Copy(stats, map[Stat]float64{StatApproxKL: want.Metrics.KL, StatClipped: clipped, StatClippedLow: dual})
		require.Positive(t, clipped, "the batch must reach the clip")
	}
	require.InDelta(t, 1, sum, 1e-12)
	for s, v := range stats {
		requireNear(t, "statistic", got.stats[s:s+1], []float64{v})
	}
}

// Imitation is −Σ w·log-prob, whatever the other columns hold.
func TestImitationLoss(t *testing.T) {
	devicetest.Each(t, func(t *testing.T, d *device.Device) {
		l := newLosses(d, 4)
		got := l.eval(t, Loss{Imitate: true, KL: "k1", Entropy: true}, tokenScores{[]float64{-1, -2, -50}, []float64{1, 2, 3}, nil},
			map[Column][]float64{Weight: {0.5, 0.25, 0}, Advantage: {7, 7, 7}, OldLogProb: {9, 9, 9}},
			map[HyperParam]float64{EntropyCoef: 1, KLCoef: 1, ClipDual: 3})
		require.Equal(t, []float32{-0.5, -0.25, 0}, got.logProb)
		require.Equal(t, []float32{0, 0, 0}, got.entropy)
		require.Equal(t, float32(1), got.stats[StatPolicy])
		require.Equal(t, float32(1), got.stats[StatEntropy])
	})
}

func TestValueLossOnTheDeviceIsThatOfPackageLoss(t *testing.T) {
	r := newSource(61)
	b := &loss.ValueBatch[float64]{Offsets: []int{0, 20, 20, 64}}
	for range 64 {
		b.Value = append(b.Value, float64(float32(r.NormFloat64())))
		b.OldValue = append(b.OldValue, float64(float32(r.NormFloat64())))
		b.Return = append(b.Return, float64(float32(2*r.NormFloat64())))
		b.Mask = append(b.Mask, r.IntN(4) > 0)
	}
	devicetest.Each(t, func(t *testing.T, d *device.Device) {
		l := newLosses(d, 70)
		for _, clip := range []float64{0.2, 0.5, math.Inf(1)} {
			for _, mode := range []loss.Mode{loss.TokenMean, loss.SeqMeanTokenMean} {
				a := loss.Aggregation{Mode: mode}
				var want loss.ValueResult
				require.NoError(t, loss.EvalValue(&want, loss.Value{Clip: clip}, a, b))
				weight, _, err := a.Weights(nil, b.Offsets, b.Mask)
				require.NoError(t, err)
				bound := clip
				if math.IsInf(clip, 1) {
					bound = 0 // off
				}
				const coef = 0.75
				got := l.eval(t, Loss{Value: true}, tokenScores{value: b.Value},
					map[Column][]float64{OldValue: b.OldValue, Return: b.Return, ValueWeight: weight},
					map[HyperParam]float64{ValueClip: bound, ValueCoef: coef})
				for i := range want.Grad {
					want.Grad[i] *= coef
				}
				requireNear(t, "gradient by value", got.value, want.Grad)
				requireNear(t, "loss", got.stats[StatValue:StatValue+1], []float64{want.Loss})
				if mode == loss.TokenMean {
					requireNear(t, "clipped", got.stats[StatValueClip:StatValueClip+1], []float64{want.Metrics.ClipFraction})
				}
			}
		}
	})
}

func TestUnknownKLIsRefused(t *testing.T) {
	d := devicetest.Go(t)
	x, err := device.Put(d, []float32{1})
	require.NoError(t, err)
	_, err = d.Program("kl", func(in []*Node) []*Node { kl, _ := klTerm("k9", in[0]); return []*Node{kl} }).Run([]*device.Array{x})
	require.ErrorContains(t, err, `unknown KL kind "k9"`)
}
