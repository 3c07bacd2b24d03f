package loss

import (
	"math"
	"math/rand/v2"
	"testing"

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
		b.add(false, nan, nan, nan, nan, nan, nan, -1)
	}
}

func addTurn(b *Batch[float64], r *rand.Rand, id int32, n int) {
	adv := 2 * r.NormFloat64()
	for range n {
		old := -3 * r.Float64()
		b.add(true, old+0.35*r.NormFloat64(), old, adv, 0.5+r.Float64(), old+0.3*r.NormFloat64(), 2*r.Float64(), id)
	}
}

func (b *Batch[T]) add(mask bool, logp, old, adv, weight, ref, entropy T, turn int32) {
	b.Mask = append(b.Mask, mask)
	b.LogProb = append(b.LogProb, logp)
	b.OldLogProb = append(b.OldLogProb, old)
	b.Advantage = append(b.Advantage, adv)
	b.Weight = append(b.Weight, weight)
	b.Ref, b.Sampled = append(b.Ref, ref), append(b.Sampled, ref)
	b.Entropy = append(b.Entropy, entropy)
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
		Weight: to(b.Weight), Ref: to(b.Ref), Sampled: to(b.Sampled), Entropy: to(b.Entropy),
	}
}

// everyPolicy are the losses of the package with ranges that the random batches
// actually leave, and covariance shares that select several tokens.
func everyPolicy() map[string]Policy {
	return map[string]Policy{
		"ppo":        PPO{Low: 0.2, High: 0.28, Dual: 1.6, Clamp: true},
		"ppo legacy": LegacyPPO(),
		"gspo":       GSPO{Low: 0.05, High: 0.1},
		"turn_gspo":  TurnGSPO{Low: 0.05, High: 0.1},
		"turn_ppo":   TurnPPO{Low: 0.2, High: 0.4},
		"cispo":      CISPO{Low: 0.2, High: 0.28},
		"sapo":       DefaultSAPO(),
		"gmpo":       GMPO{Low: 0.2, High: 0.3},
		"clip_cov":   ClipCov{Low: 0.2, High: 0.2, Ratio: 0.2, CovLow: 0.1, CovHigh: 5},
		"kl_cov":     KLCov{Ratio: 0.2, Coef: 0.7},
		"reinforce":  Reinforce{},
		"dppo_tv":    DPPO{Low: 0.05, High: 0.05, Cap: 1.5},
		"dppo_kl":    DPPO{Low: 0.01, High: 0.01, KL: true},
		"dppo_prime": PrimeDPPO{Low: 0.05, High: 0.08, AdvTau: 0.9, KLTau: 0.1},
		"ipo":        PrimeDPPO{High: 0.06, AdvTau: 1, KLTau: 0.1, Symmetric: true},
		"dro":        DRO{Beta: 0.3},
		"vespo":      DefaultVESPO(),
		"luspo":      LUSPO{Low: 0.05, High: 0.1, Delta: 1.05},
		"dppo_skyrl": DPPO{Low: 0.05, High: 0.08, Surrogate: true},
		"m2po":       M2PO{PPO: PPO{Low: 0.2, High: 0.3, Clamp: true}, Threshold: 0.05},

		"opd":        Distill{KL: K3, Clamp: 0.5, Policy: LegacyPPO()},
		"opd direct": Distill{KL: K2, Clamp: 3},
		"ref_kl":     Distill{KL: K1, Policy: PrimeDPPO{Low: 0.03, AdvTau: 1, KLTau: 0.1, Falling: true}},

		"m2po of one token": M2PO{PPO: PPO{Low: 0.2, High: 0.3, Clamp: true}},
		"off-policy mask":   OffPolicyMask{Policy: LegacyPPO(), Delta: 0.01},
		"from sampling":     OffPolicyMask{Policy: Reinforce{}, Delta: 0.01, FromSampling: true},
	}
}

func mustEval[T Float](t testing.TB, p Policy, a Aggregation, b *Batch[T]) *Result {
	t.Helper()
	var r Result
	if err := Eval(&r, p, a, b); err != nil {
		t.Fatal(err)
	}
	return &r
}

func near(t testing.TB, what string, got, want, tol float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tol*(1+math.Abs(want))) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
