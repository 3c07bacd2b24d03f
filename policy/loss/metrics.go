package loss

import (
	"iter"
	"math"
)

// Metrics describe how far the policy has moved in this batch and how much the loss
// limited it. Means are over counted tokens; everything is 0 if there is none.
type Metrics struct {
	Tokens int // counted tokens
	Rows   int // rows with a counted token

	ClipFraction      float64 // tokens whose loss took the clipped branch
	ClipFractionLower float64 // tokens limited by the dual clip (or, for GMPO, clipped at A < 0)

	KL    float64 // mean of old − new log-prob: estimates KL(old‖new), may be negative
	K3    float64 // mean of ρ − 1 − ln ρ, ρ = new/old: same, never negative
	AbsKL float64 // mean of |new − old|

	RatioMean, RatioMin, RatioMax float64 // of exp(new − old), clamped to exp(±20)

	RefKL float64 // mean of the KL to the reference policy inside the loss, of LUSPO only; without KLCoef

	Teacher Distance // of the tokens to the teacher before clamping, of Distill only
	Dropped Dropped  // of PrimeDPPO only

	// Of turn losses only; TurnsPerRow is 0 for the others.
	TurnsPerRow     float64 // over all rows, empty ones included
	TurnLength      float64 // counted tokens per turn, weighted by tokens
	TurnLogRatioStd float64 // spread of the turn log-ratio over tokens; near or above ln(1+ε) most turns are clipped
}

// Distance is that of tokens to a teacher: mean magnitude, smallest and largest. StudentMass and TeacherMass are the
// mean probability of all compared tokens together, 0 for losses that compare none.
type Distance struct{ Abs, Min, Max, StudentMass, TeacherMass float64 }

// add takes a token's distance, at most 1e100 in magnitude: so a mean of them is finite, too.
func (d *Distance) add(k float64, mass [2]float64) {
	k = min(max(k, -1e100), 1e100)
	*d = Distance{d.Abs + math.Abs(k), min(d.Min, k), max(d.Max, k), d.StudentMass + mass[0], d.TeacherMass + mass[1]}
}

// Dropped are the tokens that a loss leaves out: the shares of those with A > 0 and with A < 0, and the mean of
// ρ − 1 − ln ρ of those that are dropped and of the others.
type Dropped struct{ High, Low, KL, KLOfOthers float64 }

// All yields the metrics under the names that verl logs them with, in a fixed
// order.
func (m Metrics) All() iter.Seq2[string, float64] {
	list := []named{
		{"actor/pg_clipfrac", m.ClipFraction},
		{"actor/pg_clipfrac_lower", m.ClipFractionLower},
		{"actor/ppo_kl", m.KL},
		{"actor/ppo_kl_k3", m.K3},
		{"actor/ppo_kl_abs", m.AbsKL},
		{"actor/ratio_mean", m.RatioMean},
		{"actor/ratio_min", m.RatioMin},
		{"actor/ratio_max", m.RatioMax},
		{"actor/loss_tokens", float64(m.Tokens)},
		{"actor/loss_rows", float64(m.Rows)},
	}
	if m.RefKL != 0 {
		list = append(list, named{"actor/kl_loss", m.RefKL})
	}
	if d := m.Teacher; d.Abs != 0 {
		list = append(list, named{"actor/distillation_abs_loss", d.Abs}, named{"actor/distillation_loss_min", d.Min},
			named{"actor/distillation_loss_max", d.Max})
	}
	if d := m.Teacher; d.StudentMass != 0 {
		list = append(list, named{"actor/distillation_student_mass", d.StudentMass},
			named{"actor/distillation_teacher_mass", d.TeacherMass})
	}
	if d := m.Dropped; d != (Dropped{}) {
		list = append(list, named{"actor/is_masked_high", d.High}, named{"actor/is_masked_low", d.Low},
			named{"actor/masked_mismatch_kl", d.KL}, named{"actor/unmasked_mismatch_kl", d.KLOfOthers})
	}
	if m.TurnsPerRow != 0 {
		list = append(list, named{"actor/turns_per_row", m.TurnsPerRow}, named{"actor/turn_len_mean", m.TurnLength},
			named{"actor/turn_log_ratio_std", m.TurnLogRatioStd})
	}
	return inOrder(list)
}

// named is a metric with its name.
type named struct {
	name  string
	value float64
}

// inOrder yields the metrics of a list.
func inOrder(list []named) iter.Seq2[string, float64] {
	return func(yield func(string, float64) bool) {
		for _, m := range list {
			if !yield(m.name, m.value) {
				return
			}
		}
	}
}

// measure sets the metrics that all policy losses share.
func (m *Metrics) measure(t *Terms, b *Batch[float64]) {
	*m = t.own
	m.Tokens, m.Rows = count(b.Offsets, b.Mask)
	if m.Tokens == 0 {
		return
	}
	m.RatioMin, m.RatioMax = math.Inf(1), math.Inf(-1)
	for i, lr := range t.LogRatio {
		if !b.Mask[i] {
			continue
		}
		c := clampedRatio(lr)
		ratio := math.Exp(c)
		m.KL -= lr
		m.AbsKL += math.Abs(lr)
		m.K3 += math.Expm1(c) - c
		m.RatioMean += ratio
		m.RatioMin = min(m.RatioMin, ratio)
		m.RatioMax = max(m.RatioMax, ratio)
	}
	n := float64(m.Tokens)
	for _, sum := range []*float64{
		&m.KL, &m.AbsKL, &m.K3, &m.RatioMean, &m.RefKL, &m.Teacher.Abs, &m.Teacher.StudentMass,
		&m.Teacher.TeacherMass, &m.Dropped.High, &m.Dropped.Low,
	} {
		*sum /= n
	}
	m.Dropped.KL /= max(1, float64(t.Clipped))
	m.Dropped.KLOfOthers /= max(1, n-float64(t.Clipped))
	m.ClipFraction = float64(t.Clipped) / n
	m.ClipFractionLower = float64(t.ClippedLower) / n
}
