package loss

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/rng"
)

// randomBatch is a ragged batch with an empty row, a row with only context, and NaN at
// all positions outside the mask, so that reading them makes the result NaN.
// Advantages are constant inside a turn.
func randomBatch(seed uint64) *Batch[float64] {
	r := rng.New(seed, rng.Script)
	b := &Batch[float64]{Offsets: []int{0}, Weight: []float64{}, Seed: seed}
	for row := range 7 {
		turns := 1 + r.IntN(3)
		switch row {
		case 2:
			turns = 0
		case 4:
			turns = -1
			addContext(b, 3)
		}
		for turn := range max(turns, 0) {
			addContext(b, r.IntN(3))
			addTurn(b, r, int32(turn), 1+r.IntN(5))
		}
		b.Offsets = append(b.Offsets, len(b.Mask))
	}
	return b
}

func addContext(b *Batch[float64], n int) {
	nan := math.NaN()
	for range n {
		b.add(false, nan, nan, nan, nan, nan, -1)
	}
}

func addTurn(b *Batch[float64], r *rand.Rand, id int32, n int) {
	adv := 2 * r.NormFloat64()
	for range n {
		old := -3 * r.Float64()
		b.add(true, old+0.35*r.NormFloat64(), old, adv, 0.5+r.Float64(), old+0.3*r.NormFloat64(), id)
	}
}

func (b *Batch[T]) add(mask bool, logp, old, adv, weight, ref T, turn int32) {
	b.Mask = append(b.Mask, mask)
	b.LogProb = append(b.LogProb, logp)
	b.OldLogProb = append(b.OldLogProb, old)
	b.Advantage = append(b.Advantage, adv)
	b.Weight = append(b.Weight, weight)
	b.Ref, b.Sampled = append(b.Ref, ref), append(b.Sampled, ref)
	b.Chosen = append(b.Chosen, logp/2-1.5, -2.5, old-2) // of three tokens, which have about half of the probability
	b.Teacher = append(b.Teacher, ref/2-1.6, -2, old/2-2)
	b.Turn = append(b.Turn, turn)
}

// narrow rounds a batch to float32.
func narrow(b *Batch[float64]) *Batch[float32] {
	to := func(x []float64) []float32 {
		if x == nil {
			return nil
		}
		out := make([]float32, len(x))
		for i, v := range x {
			out[i] = float32(v)
		}
		return out
	}
	return &Batch[float32]{
		Offsets: b.Offsets, Mask: b.Mask, Turn: b.Turn, Seed: b.Seed,
		LogProb: to(b.LogProb), OldLogProb: to(b.OldLogProb), Advantage: to(b.Advantage),
		Weight: to(b.Weight), Ref: to(b.Ref), Sampled: to(b.Sampled),
		Chosen: to(b.Chosen), Teacher: to(b.Teacher),
	}
}

// tight are settings of losses whose defaults the random batches never leave: ranges that clip some tokens, and
// shares that select several.
var tight = map[string]func(o *Options){
	"vanilla":    func(o *Options) { o.ClipHigh, o.DualClip = 0.28, 1.6 },
	"gspo":       func(o *Options) { o.ClipLow, o.ClipHigh = 0.05, 0.1 },
	"turn_gspo":  func(o *Options) { o.ClipLow, o.ClipHigh = 0.05, 0.1 },
	"turn_ppo":   func(o *Options) { o.ClipHigh = 0.4 },
	"cispo":      func(o *Options) { o.ClipHigh = 0.28 },
	"gmpo":       func(o *Options) { o.ClipHigh = 0.3 },
	"clip_cov":   func(o *Options) { o.ClipCov.Ratio, o.ClipCov.CovLow = 0.2, -0.1 },
	"kl_cov":     func(o *Options) { o.KLCov = KLCov{Ratio: 0.2, Coef: 0.7} },
	"dppo_tv":    func(o *Options) { o.ClipLow, o.ClipHigh, o.DualClip = 0.05, 0.05, 1.5 },
	"dppo_kl":    func(o *Options) { o.ClipLow, o.ClipHigh, o.DualClip = 0.01, 0.01, 0 },
	"dppo_prime": func(o *Options) { o.PrimeDPPO = PrimeDPPO{Low: 0.05, High: 0.08, AdvTau: 0.9, KLTau: 0.1} },
	"ipo":        func(o *Options) { o.IPOThreshold, o.PrimeDPPO.KLTau = 0.06, 0.1 },
	"dro":        func(o *Options) { o.DRO.Beta = 0.3 },
	"luspo":      func(o *Options) { o.ClipLow, o.ClipHigh, o.LUSPODelta = 0.05, 0.1, 1.05 },
	"dppo_skyrl": func(o *Options) { o.DeltaLow, o.DeltaHigh = 0.05, 0.08 },
	"m2po":       func(o *Options) { o.ClipHigh, o.M2Threshold = 0.3, 0.05 },
	"opd":        func(o *Options) { o.DistillClamp = 0.5 },
	"ref_kl":     func(o *Options) { o.PrimeDPPO.Low, o.PrimeDPPO.KLTau = 0.03, 0.1 },
	"sdft":       func(o *Options) { o.SDFTCap = 1.1 },
}

// everyPolicy are all losses of the registry, and other modes of some.
func everyPolicy() map[string]Policy {
	raised := Divergence{Form: Raised, Choice: Choice{ByTeacher, 3}, Floor: -2.2}
	all := map[string]Policy{
		"ppo legacy":        LegacyPPO(),
		"luspo with KL":     LUSPO{Low: 0.05, High: 0.1, Delta: 1.05, KL: K3, KLCoef: 0.3},
		"opd direct":        Distill{KL: K2, Clamp: 3},
		"opd top-k":         Distill{Over: raised, Clamp: 0.5, Policy: LegacyPPO()},
		"sdft of a token":   Distill{KL: K1, Policy: Reinforce{}, Cap: 1.1},
		"m2po of one token": M2PO{PPO: PPO{Low: 0.2, High: 0.3, Clamp: true}},
		"beside a teacher":  Taught{Policy: LegacyPPO(), Distill: Distill{KL: K3, Clamp: 3}, Coef: 0.5},
		"beside top-k":      Taught{Policy: GMPO{0.1, 0.2}, Distill: Distill{Over: raised, Clamp: 0.5}, Coef: 2},
		"off-policy mask":   OffPolicyMask{Policy: LegacyPPO(), Delta: 0.01},
		"from sampling":     OffPolicyMask{Policy: Reinforce{}, Delta: 0.01, FromSampling: true},
	}
	for _, d := range everyDivergence() {
		all["sdft "+string(d.Form)+" "+strconv.FormatFloat(d.Alpha, 'g', -1, 64)] = Distill{Over: d, Cap: 1.1}
	}
	for _, name := range Builtin().Names() {
		o := DefaultOptions()
		if set := tight[name]; set != nil {
			set(&o)
		}
		p, err := Builtin().New(name, o)
		if err != nil {
			panic(err)
		}
		all[name] = p
	}
	return all
}

// built is a loss of the registry.
func built(t testing.TB, name string, o Options) Policy {
	t.Helper()
	p, err := Builtin().New(name, o)
	require.NoError(t, err, name)
	return p
}

func mustEval[T Float](t testing.TB, p Policy, a Aggregation, b *Batch[T]) *Result {
	t.Helper()
	var r Result
	require.NoError(t, Eval(&r, p, a, b))
	return &r
}

func near(t testing.TB, what string, got, want, tol float64) {
	t.Helper()
	require.InDelta(t, want, got, tol*(1+math.Abs(want)), what)
}

// allNear compares slices number by number.
func allNear(t testing.TB, what string, got, want []float64, tol float64) {
	t.Helper()
	require.Len(t, got, len(want), what)
	for i := range want {
		near(t, what, got[i], want[i], tol)
	}
}
