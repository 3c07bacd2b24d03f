package loss

import (
	"math"

	"vagen/internal/floats"
)

// Choice is which tokens of the vocabulary a loss compares at each position: Batch.Chosen and Batch.Teacher.
type Choice struct {
	By string // "" for none, or one of the following
	K  int    // tokens at each position; 0 with WholeVocabulary, whose size the model knows
}

// Who chooses the tokens of a [Choice].
const (
	ByTeacher       = "teacher"    // the K most likely of the teacher
	ByStudent       = "student"    // the K that were the most likely of the policy before the update
	ByItself        = "itself"     // the K most likely of the policy, which is the teacher: see policy.ScoreRequest
	WholeVocabulary = "vocabulary" // all, in order
)

// ChoiceOf returns the tokens that p compares: p has a method Compares() Choice that says so.
func ChoiceOf(p Policy) Choice {
	if c, ok := p.(interface{ Compares() Choice }); ok {
		return c.Compares()
	}
	return Choice{}
}

// Form is how a [Divergence] treats the probability of the tokens that are not compared.
type Form string

// The forms.
const (
	// Whole takes the probabilities as they are: those of the whole vocabulary.
	Whole Form = "whole"
	// Renormalised divides both distributions by their sums over the compared tokens.
	Renormalised Form = "renormalised"
	// Tail adds one class, which has the rest.
	Tail Form = "tail"
	// Raised raises log-probs to Floor and takes the terms q·(ln q − ln π) of the compared tokens only. A sum below 0
	// counts as 0. forward_kl_topk of verl.
	Raised Form = "raised"
	// CrossEntropy is −Σ q·ln π, with q renormalised and π as it is. forward_cross_entropy of the tinker cookbook.
	CrossEntropy Form = "cross_entropy"
)

// Divergence is a distance between a token's distributions under the policy s and the teacher t, from their log-probs
// of the compared tokens. Alpha 0 is KL(t‖s), 1 is KL(s‖t), and between the two, with m = (1−α)·s + α·t,
//
//	(1−α)·KL(s‖m) + α·KL(t‖m)
//
// which is distillation_alpha of TRL's self-distillation and beta of its generalised knowledge distillation,
// arXiv:2306.13649. Raised and CrossEntropy have Alpha 0.
type Divergence struct {
	Choice Choice
	Form   Form    // "" for no divergence
	Alpha  float64 // 0 to 1
	Floor  float64 // of log-probs, only with Raised; 0 for none
}

func (d Divergence) check() error {
	switch d.Form {
	case Whole, Renormalised, Tail:
	case Raised, CrossEntropy:
		if d.Alpha != 0 {
			return setting("divergence: Alpha = %v, want 0 with %s", d.Alpha, string(d.Form))
		}
	default:
		return setting("divergence: Form is %q, want whole, renormalised, tail, raised or cross_entropy", string(d.Form))
	}
	switch c := d.Choice; {
	case d.Form == Whole && c != Choice{By: WholeVocabulary}:
		return setting("divergence: Form whole compares %d tokens by %q, want all of the vocabulary", c.K, c.By)
	case d.Form != Whole && c.By != ByTeacher && c.By != ByStudent:
		return setting("divergence: tokens are chosen by %q, want teacher or student", c.By)
	case d.Form != Whole && c.K < 1:
		return setting("divergence: %d tokens are compared, want 1 or more", c.K)
	case !(d.Alpha >= 0 && d.Alpha <= 1):
		return setting("divergence: Alpha = %v, want 0 to 1", d.Alpha)
	case !(d.Floor <= 0) || !floats.Finite(d.Floor):
		return setting("divergence: Floor = %v, want 0 or less", d.Floor)
	}
	return nil
}

// pair are the two distributions of a token as log-probs, and the derivatives by the policy's; scratch. mass is the
// probability of the compared tokens, of both.
type pair struct {
	s, t, slope []float64
	mass        [2]float64
}

// of returns the divergence of a token, and sets slope to its derivatives by the policy's log-probs.
func (d Divergence) of(p *pair, policy, teacher, slope []float64) float64 {
	p.s, p.t = append(p.s[:0], policy...), append(p.t[:0], teacher...)
	sums := [2]float64{logSum(p.s), logSum(p.t)}
	p.mass = [2]float64{math.Exp(min(sums[0], 0)), math.Exp(min(sums[1], 0))} // rounding may leave more than 1
	capped := min(sums[0], -1e-7)                                             // of the mass whose rest is the tail; TRL's number
	switch d.Form {
	case Renormalised:
		shift(p.s, sums[0])
		shift(p.t, sums[1])
	case CrossEntropy:
		shift(p.t, sums[1])
	case Tail:
		p.s = append(p.s, math.Log(-math.Expm1(capped)))
		p.t = append(p.t, math.Log(-math.Expm1(min(sums[1], -1e-7))))
	case Raised:
		if d.Floor < 0 {
			for k := range p.s {
				p.s[k], p.t[k] = max(p.s[k], d.Floor), max(p.t[k], d.Floor)
			}
		}
	}
	p.slope = zeros(p.slope, len(p.s))
	value := d.sum(p)
	copy(slope, p.slope)
	switch d.Form {
	case Renormalised: // ∂ of s by π is 1 − s
		total := 0.0
		for _, g := range p.slope {
			total += g
		}
		for k := range slope {
			slope[k] -= math.Exp(p.s[k]) * total
		}
	case Tail:
		if capped == sums[0] {
			rest := len(policy)
			for k := range slope {
				slope[k] -= p.slope[rest] * math.Exp(policy[k]-p.s[rest])
			}
		}
	case Raised:
		for k := range slope {
			if value < 0 || d.Floor < 0 && policy[k] < d.Floor {
				slope[k] = 0
			}
		}
		value = max(value, 0)
	}
	return value
}

// sum returns the divergence of two lists of log-probs, and sets its derivatives by the first.
func (d Divergence) sum(p *pair) (value float64) {
	for k, s := range p.s {
		t := p.t[k]
		ps, pt := math.Exp(s), math.Exp(t)
		switch {
		case d.Form == CrossEntropy:
			value -= pt * s
			p.slope[k] = -pt
		case d.Alpha == 0:
			value += pt * (t - s)
			p.slope[k] = -pt
		case d.Alpha == 1:
			value += ps * (s - t)
			p.slope[k] = ps * (s - t + 1)
		default:
			m := logOfSum(s+math.Log1p(-d.Alpha), t+math.Log(d.Alpha))
			value += (1-d.Alpha)*ps*(s-m) + d.Alpha*pt*(t-m)
			p.slope[k] = (1 - d.Alpha) * ps * (s - m)
		}
	}
	return value
}

func shift(x []float64, by float64) {
	for k := range x {
		x[k] -= by
	}
}

// logSum is ln Σ exp(x).
func logSum(x []float64) float64 {
	out := math.Inf(-1)
	for _, v := range x {
		out = logOfSum(out, v)
	}
	return out
}

// logOfSum is ln(exp(a) + exp(b)) for finite b.
func logOfSum(a, b float64) float64 {
	return max(a, b) + math.Log1p(math.Exp(min(a, b)-max(a, b)))
}
