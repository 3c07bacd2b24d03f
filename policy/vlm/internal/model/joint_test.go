package model

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/stretchr/testify/require"

	"vagen/policy/loss"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/devicetest"
)

// jointRuns evaluates joint losses on batches padded to one size, so that every
// loss is compiled once.
type jointRuns struct {
	dev      *device.Device
	size     int
	programs map[string]*device.Program
}

func newJointRuns(d *device.Device, size int) *jointRuns {
	return &jointRuns{dev: d, size: size, programs: map[string]*device.Program{}}
}

// jointResult is what a joint loss gives for a batch.
type jointResult struct {
	slopes         []float32 // of the tokens of the batch
	stats, figures []float64
}

// runs returns the first token of each row, or of each turn, counted tokens
// alone; tokens that don't count belong to none.
func runs(b *loss.Batch[float64], byTurn bool) [][]int32 {
	var out [][]int32
	for r := range b.Rows() {
		last := int32(-1)
		for i := b.Offsets[r]; i < b.Offsets[r+1]; i++ {
			if !b.Mask[i] {
				continue
			}
			if last < 0 || byTurn && b.Turn[i] != b.Turn[last] {
				out = append(out, nil)
			}
			out[len(out)-1] = append(out[len(out)-1], int32(i))
			last = int32(i)
		}
	}
	return out
}

func (j *jointRuns) eval(t testing.TB, l JointLoss, b *loss.Batch[float64], weight, aux []float64, chosen []bool, hyper map[HyperParam]float64) jointResult {
	t.Helper()
	p, ok := j.programs[l.Key()]
	if !ok {
		p = j.dev.Program("joint "+l.Key(), func(in []*Node) []*Node {
			a, s, f := l.Eval(in[0], in[1], &Segments{in[2], in[3]})
			return []*Node{a, s, f}
		})
		j.programs[l.Key()] = p
	}
	n := len(b.Mask)
	require.Less(t, n, j.size)
	cols := make([]float32, j.size*int(JointColumns))
	for c, x := range map[JointColumn][]float64{JointLogProb: b.LogProb, JointOld: b.OldLogProb, JointReference: b.Ref,
		JointAdvantage: b.Advantage, JointWeight: weight, JointAux: aux, JointRollout: b.Weight} {
		for i, v := range x {
			if b.Mask[i] { // what does not count may be anything there, NaN too
				cols[i*int(JointColumns)+int(c)] = float32(v)
			}
		}
	}
	members, of := make([]int32, j.size*j.size), make([]int32, j.size)
	for i := range members {
		members[i] = int32(j.size)
	}
	for s, run := range runs(b, l.Kind.ByTurn()) {
		for k, i := range run {
			members[s*j.size+k], of[i] = i, int32(s)
		}
	}
	for i, m := range b.Mask {
		if m {
			cols[i*int(JointColumns)+int(JointMask)] = 1
		}
		if chosen != nil && chosen[i] {
			cols[i*int(JointColumns)+int(JointChosen)] = 1
		}
	}
	numbers := make([]float64, HyperParams)
	for h, v := range hyper {
		numbers[h] = v
	}
	var in []*device.Array
	put := func(a *device.Array, err error) { require.NoError(t, err); in = append(in, a) }
	put(device.Put(j.dev, cols, j.size, int(JointColumns)))
	put(device.Put(j.dev, numbers))
	put(device.Put(j.dev, members, j.size, j.size))
	put(device.Put(j.dev, of))
	out, err := p.Run(in)
	require.NoError(t, err)
	device.FreeAll(in...)
	var r jointResult
	r.slopes, err = device.ReadNew[float32](out[0])
	require.NoError(t, err)
	r.stats, err = device.ReadNew[float64](out[1])
	require.NoError(t, err)
	r.figures, err = device.ReadNew[float64](out[2])
	require.NoError(t, err)
	device.FreeAll(out...)
	require.Equal(t, make([]float32, j.size-n), r.slopes[n:], "padding has no slope")
	r.slopes = r.slopes[:n]
	return r
}

// raggedBatch has rows of up to four turns, rows without a counted token, and
// NaN wherever a token does not count. Numbers are float32's.
func raggedBatch(seed uint64) *loss.Batch[float64] {
	r := rand.New(rand.NewPCG(seed, 77))
	b := &loss.Batch[float64]{Offsets: []int{0}, Seed: seed}
	token := func(on bool, turn int32, x ...float64) {
		for i := range x {
			x[i] = float64(float32(x[i]))
			if !on {
				x[i] = math.NaN()
			}
		}
		b.Mask, b.Turn = append(b.Mask, on), append(b.Turn, turn)
		b.LogProb, b.OldLogProb, b.Advantage = append(b.LogProb, x[0]), append(b.OldLogProb, x[1]), append(b.Advantage, x[2])
		b.Weight, b.Ref = append(b.Weight, x[3]), append(b.Ref, x[4])
	}
	for row := range 7 {
		turn := int32(r.IntN(3))
		for range []int{2, 4, 0, 1, 3, 2, 4}[row] {
			adv, spread := 1.5*r.NormFloat64(), []float64{0.1, 0.4, 3}[r.IntN(3)]
			for range r.IntN(3) {
				token(false, -1, 0, 0, 0, 0, 0)
			}
			for range 1 + r.IntN(6) {
				old := -2 * r.Float64()
				token(true, turn, old+spread*r.NormFloat64(), old, adv+0.2*r.NormFloat64(), 0.4+r.Float64(), old+0.4*r.NormFloat64())
			}
			turn += 1 + int32(r.IntN(3))
		}
		if row == 2 {
			token(false, -1, 0, 0, 0, 0, 0)
		}
		b.Offsets = append(b.Offsets, len(b.Mask))
	}
	return b
}

// onBothSides is every policy loss in plain Go with its graph and its numbers.
// Ranges are narrow enough for the batches to leave them.
var onBothSides = map[string]struct {
	plain loss.Policy
	graph PolicyLoss
	hyper map[HyperParam]float64
}{
	"ppo":        {loss.PPO{Low: 0.2, High: 0.28, Dual: 1.6, Clamp: true}, PolicyLoss{Kind: PPO, Clamp: true}, map[HyperParam]float64{ClipLow: 0.2, ClipHigh: 0.28, ClipDual: 1.6}},
	"legacy ppo": {loss.LegacyPPO(), PolicyLoss{Kind: PPO}, map[HyperParam]float64{ClipLow: 0.2, ClipHigh: 0.2}},
	"shut ppo":   {loss.PPO{Clamp: true}, PolicyLoss{Clamp: true}, nil},
	"cispo":      {loss.CISPO{Low: 0.2, High: 0.28}, PolicyLoss{Kind: CISPO}, map[HyperParam]float64{ClipLow: 0.2, ClipHigh: 0.28}},
	"sapo":       {loss.SAPO{TauPos: 1, TauNeg: 1.05}, PolicyLoss{Kind: SAPO}, map[HyperParam]float64{TauPos: 1, TauNeg: 1.05}},
	"reinforce":  {loss.Reinforce{}, PolicyLoss{Kind: Reinforce}, nil},
	"gspo":       {loss.GSPO{Low: 0.05, High: 0.1}, PolicyLoss{Kind: GSPO}, map[HyperParam]float64{ClipLow: 0.05, ClipHigh: 0.1}},
	"turn_gspo":  {loss.TurnGSPO{Low: 0.05, High: 0.1}, PolicyLoss{Kind: TurnGSPO}, map[HyperParam]float64{ClipLow: 0.05, ClipHigh: 0.1}},
	"turn_ppo":   {loss.TurnPPO{Low: 0.3, High: 0.5}, PolicyLoss{Kind: TurnPPO}, map[HyperParam]float64{ClipLow: 0.3, ClipHigh: 0.5}},
	"gmpo":       {loss.GMPO{Low: 0.2, High: 0.3}, PolicyLoss{Kind: GMPO}, map[HyperParam]float64{ClipLow: 0.2, ClipHigh: 0.3}},
	"clip_cov":   {loss.ClipCov{Low: 0.2, High: 0.2, Ratio: 0.1, CovLow: 0.05, CovHigh: 5}, PolicyLoss{Kind: ClipCov}, map[HyperParam]float64{ClipLow: 0.2, ClipHigh: 0.2}},
	"kl_cov":     {loss.KLCov{Ratio: 0.15, Coef: 0.7}, PolicyLoss{Kind: KLCov}, map[HyperParam]float64{CovCoef: 0.7}},
}

// float64 against float64 differs by the order of sums and by exp alone. Slopes
// leave the device in float32, half a unit of whose last place is 2⁻²⁴.
const (
	jointTolerance = 1e-12
	slopeTolerance = 1.0 / (1 << 23)
)

// One test, so that it compiles every loss once for each device.
func TestEveryPolicyLossOnTheDeviceIsThatOfPackageLoss(t *testing.T) {
	t.Parallel()
	devicetest.Each(t, func(t *testing.T, d *device.Device) {
		for name, c := range onBothSides {
			t.Run(name, func(t *testing.T) {
				j := newJointRuns(d, 128)
				l := JointLoss{c.graph, "k3", true}
				t.Run("random", func(t *testing.T) {
					reached := map[JointStat]float64{}
					for seed := range uint64(12) {
						requireJoint(t, j, c.plain, l, c.hyper, raggedBatch(seed), reached)
					}
					if c.hyper[ClipHigh] > 0 {
						require.Positive(t, reached[JointStatClipped], "the batches must reach the clip")
					}
					if c.graph.Kind == GMPO || c.hyper[ClipDual] > 0 {
						require.Positive(t, reached[JointStatClippedLow], "the batches must reach the lower clip")
					}
				})
				t.Run("row of weight 0", func(t *testing.T) {
					b := raggedBatch(3) // a single zero takes the whole row out of GMPO
					b.Weight[slices.Index(b.Mask, true)] = 0
					requireJoint(t, j, c.plain, l, c.hyper, b, map[JointStat]float64{})
				})
				t.Run("nothing counts", func(t *testing.T) {
					b := raggedBatch(1)
					clear(b.Mask)
					got := j.eval(t, l, b, nil, nil, nil, c.hyper)
					require.Equal(t, make([]float32, len(b.Mask)), got.slopes)
					require.Equal(t, make([]float64, Stats), got.stats)
				})
				for _, k := range atKinks {
					if k.of == name {
						t.Run(k.name, func(t *testing.T) {
							requireJoint(t, j, k.plain, l, k.hyper, k.batch(), map[JointStat]float64{})
						})
					}
				}
			})
		}
	})
}

// level is a row of n equal tokens but for their log-ratio.
func level(n int, adv float64, diff ...float64) func() *loss.Batch[float64] {
	return func() *loss.Batch[float64] {
		b := &loss.Batch[float64]{Offsets: []int{0, n}, Seed: 1}
		for i := range n {
			b.Mask, b.Turn, b.Weight = append(b.Mask, true), append(b.Turn, 0), append(b.Weight, 1)
			b.OldLogProb, b.Advantage, b.Ref = append(b.OldLogProb, -24), append(b.Advantage, adv), append(b.Ref, -24)
			b.LogProb = append(b.LogProb, -24+diff[i%len(diff)])
		}
		return b
	}
}

// atKinks are batches at kinks, where derivatives are those of PyTorch: both
// edges of a clamp pass them.
var atKinks = []struct {
	name, of string
	plain    loss.Policy
	hyper    map[HyperParam]float64
	batch    func() *loss.Batch[float64]
}{
	{"unit ratio, no room", "ppo", loss.PPO{Clamp: true}, nil, level(3, 2, 0)},
	{"unit ratio, no room, negative", "ppo", loss.PPO{Clamp: true}, nil, level(3, -2, 0)},
	{"log-ratio at the bound", "ppo", loss.PPO{Low: 1, High: 1e12, Clamp: true}, map[HyperParam]float64{ClipLow: 1, ClipHigh: 1e12}, level(2, 1, 20, -20)},
	{"log-ratio beyond the bound", "ppo", loss.PPO{Low: 1, High: 1e12, Clamp: true}, map[HyperParam]float64{ClipLow: 1, ClipHigh: 1e12}, level(2, 1, 20.5, -20.5)},
	{"no advantage", "ppo", loss.LitePPO(), map[HyperParam]float64{ClipLow: .2, ClipHigh: .2, ClipDual: 3}, level(3, 0, 5, 0, -5)},
	{"no room", "cispo", loss.CISPO{}, nil, level(2, 2, 0)},
	{"log-ratio at the bound", "sapo", loss.DefaultSAPO(), map[HyperParam]float64{TauPos: 1, TauNeg: 1.05}, level(2, 0.5, -20, 20)},
	{"at the cap", "gspo", loss.GSPO{High: 1e6}, map[HyperParam]float64{ClipHigh: 1e6}, level(4, 1, 10)},
	{"above the cap", "gspo", loss.GSPO{High: 1e6}, map[HyperParam]float64{ClipHigh: 1e6}, level(4, 1, 10.5)},
	{"at the cap", "turn_ppo", loss.TurnPPO{High: 1e6}, map[HyperParam]float64{ClipHigh: 1e6}, level(4, 1, 2.5)},
	{"edges", "gmpo", loss.GMPO{Low: 0.5, High: 0.25}, map[HyperParam]float64{ClipLow: 0.5, ClipHigh: 0.25}, level(4, 1, 0.25, -0.5)},
	{"edges, negative", "gmpo", loss.GMPO{Low: 0.5, High: 0.25}, map[HyperParam]float64{ClipLow: 0.5, ClipHigh: 0.25}, level(4, -1, 0.25, -0.5)},
	{"no advantage", "gmpo", loss.GMPO{Low: 0.5, High: 0.25}, map[HyperParam]float64{ClipLow: 0.5, ClipHigh: 0.25}, level(4, 0, 1, -1)},
	{"equal tokens", "kl_cov", loss.KLCov{Ratio: 0.5, Coef: 1}, map[HyperParam]float64{CovCoef: 1}, level(9, 1, 0.5)},
	{"a single token", "kl_cov", loss.KLCov{Ratio: 0.5, Coef: 1}, map[HyperParam]float64{CovCoef: 1}, level(1, 1, 0.5)},
	{"all tokens", "kl_cov", loss.KLCov{Ratio: 1, Coef: 1}, map[HyperParam]float64{CovCoef: 1}, level(7, 1, 0.5, 1, -1)},
	{"unmoved tokens", "kl_cov", loss.KLCov{Ratio: 1, Coef: 1}, map[HyperParam]float64{CovCoef: 1}, level(5, 1, 0)},
}

func requireJoint(t *testing.T, j *jointRuns, plain loss.Policy, l JointLoss, hyper map[HyperParam]float64, b *loss.Batch[float64], reached map[JointStat]float64) {
	t.Helper()
	actor := loss.Actor{Policy: plain, Aggregation: loss.Aggregation{Mode: loss.TokenMean}, KL: loss.KL(l.KL), KLCoef: 0.3}
	var want loss.ActorResult
	require.NoError(t, loss.EvalActor(&want, actor, b))
	mode, err := loss.ModeOf(plain)
	require.NoError(t, err)
	weights := func(m loss.Mode) []float64 {
		w, _, err := loss.Aggregation{Mode: m}.Weights(nil, b.Offsets, b.Mask)
		require.NoError(t, err)
		for i := range w { // as they reach the device
			w[i] = float64(float32(w[i]))
		}
		return w
	}
	numbers := map[HyperParam]float64{KLCoef: actor.KLCoef}
	for h, v := range hyper {
		numbers[h] = v
	}
	chosen, err := loss.Chosen(nil, plain, b)
	require.NoError(t, err)
	got := j.eval(t, l, b, weights(mode), weights(loss.TokenMean), chosen, numbers)
	// The weights were rounded to float32 on their way.
	requireClose(t, "slope", got.slopes, want.GradLogProb, 1e-9, 2*slopeTolerance)
	near := func(what string, got, want, tol float64) {
		t.Helper()
		require.InDelta(t, want, got, tol*(1+math.Abs(want)), what)
	}
	near("policy loss", got.stats[StatPolicy], want.Policy, slopeTolerance)
	near("kl", got.stats[StatKL], want.KL, slopeTolerance)
	near("largest ratio", got.stats[StatRatioMax], want.Metrics.RatioMax, jointTolerance)
	m := want.Metrics
	for f, v := range map[JointStat]float64{JointStatClipped: m.ClipFraction, JointStatClippedLow: m.ClipFractionLower, JointStatKL: m.KL, JointStatK3: m.K3,
		JointStatAbsKL: m.AbsKL, JointStatRatioMean: m.RatioMean, JointStatRatioMin: m.RatioMin, JointStatRatioMax: m.RatioMax} {
		near("figure", got.figures[f], v, jointTolerance)
		reached[f] += v
	}
	if m.TurnsPerRow > 0 {
		near("spread of turns", got.figures[JointStatStd], m.TurnLogRatioStd, 1e-9) // a root of differences
	}
}

func TestLossesOfPackageLossHaveGraphs(t *testing.T) {
	for _, name := range loss.Builtin().Names() {
		p, err := loss.Builtin().New(name, loss.DefaultOptions())
		require.NoError(t, err)
		l, _, ok := KernelOf(p)
		require.True(t, ok, name)
		require.False(t, l.Kind.ByRow() && l.Kind.ByTurn())
		if l.Kind.ByRow() || l.Kind.ByTurn() {
			require.True(t, l.Kind.Joint(), name)
		}
	}
	_, _, ok := KernelOf(struct{ loss.PPO }{})
	require.False(t, ok, "a custom loss, whatever it embeds")
}
