package loss

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/rng"
	"vagen/internal/testkit"
)

// everyDivergence are divergences of all forms.
func everyDivergence() (out []Divergence) {
	for _, alpha := range []float64{0, 0.3, 1} {
		out = append(out, Divergence{Form: Whole, Choice: Choice{By: WholeVocabulary}, Alpha: alpha},
			Divergence{Form: Renormalised, Choice: Choice{ByStudent, 4}, Alpha: alpha},
			Divergence{Form: Tail, Choice: Choice{ByTeacher, 4}, Alpha: alpha})
	}
	return append(out, Divergence{Form: Raised, Choice: Choice{ByTeacher, 4}, Floor: -3},
		Divergence{Form: CrossEntropy, Choice: Choice{ByTeacher, 4}})
}

// comparedBatch is a random batch with the log-probs of four tokens at each position, which are the whole vocabulary
// or half of the probability.
func comparedBatch(seed uint64, d Divergence) *Batch[float64] {
	b := randomBatch(seed)
	b.Chosen, b.Teacher = nil, nil
	r := rng.New(seed, rng.Script)
	for _, m := range b.Mask {
		for _, column := range []*[]float64{&b.Chosen, &b.Teacher} {
			x := []float64{3 * r.NormFloat64(), r.NormFloat64(), r.NormFloat64(), -4 * r.Float64()}
			by := logSum(x)
			if d.Form != Whole {
				by += math.Log(1 + r.Float64())
			}
			if !m {
				by = math.NaN()
			}
			shift(x, by)
			*column = append(*column, x...)
		}
	}
	return b
}

// TestDivergencesHaveTheSlopesOfTheirValues by finite differences of every compared log-prob.
func TestDivergencesHaveTheSlopesOfTheirValues(t *testing.T) {
	for _, d := range everyDivergence() {
		t.Run(fmt.Sprint(d.Form, d.Alpha), func(t *testing.T) {
			p := Distill{Over: d, Clamp: 2, Cap: 1.1}
			b := comparedBatch(5, d)
			got := mustEval(t, p, Aggregation{Mode: SeqMeanTokenMean}, b)
			checked := 0
			for k, x := range b.Chosen {
				if !b.Mask[k/4] {
					require.Zero(t, got.GradChosen[k], "token %d does not count", k/4)
					continue
				}
				var at [3]float64
				for i := range at {
					b.Chosen[k] = x + float64(i-1)*step
					at[i] = mustEval(t, p, Aggregation{Mode: SeqMeanTokenMean}, b).Loss
				}
				b.Chosen[k] = x
				if left, right := (at[1]-at[0])/step, (at[2]-at[1])/step; math.Abs(left-right) < 1e-3*(1+math.Abs(left)) {
					near(t, "gradient", got.GradChosen[k], (left+right)/2, 1e-4)
					checked++
				}
			}
			require.GreaterOrEqual(t, checked, 40, "slopes away from kinks")
			require.Equal(t, make([]float64, len(b.Mask)), got.Grad, "by the written token")
		})
	}
}

// TestDivergencesAreDistances: 0 only between equal distributions, and the mirror image with the roles exchanged.
func TestDivergencesAreDistances(t *testing.T) {
	for _, d := range everyDivergence() {
		if d.Form == Raised || d.Form == CrossEntropy {
			continue
		}
		b := comparedBatch(9, d)
		mirror := d
		mirror.Alpha = 1 - d.Alpha
		slope := make([]float64, 4)
		for i, m := range b.Mask {
			if !m {
				continue
			}
			s, u := b.Chosen[4*i:][:4], b.Teacher[4*i:][:4]
			value := d.of(&pair{}, s, u, slope)
			require.Positive(t, value, "%v", d)
			near(t, "exchanged", mirror.of(&pair{}, u, s, slope), value, 1e-9)
			near(t, "of equals", d.of(&pair{}, s, s, slope), 0, 1e-12)
			for _, g := range slope {
				if d.Form != Whole {
					near(t, "slope between equals", g, 0, 1e-9)
				}
			}
		}
	}
}

// TestAdvantagesFromADivergence do not depend on the derivatives: the loss is PPO's with the negative divergence.
func TestAdvantagesFromADivergence(t *testing.T) {
	d := Divergence{Form: Raised, Choice: Choice{ByTeacher, 4}, Floor: -3}
	b := comparedBatch(3, d)
	got := mustEval(t, Distill{Over: d, Clamp: 0.5, Policy: LegacyPPO()}, Aggregation{}, b)
	want := *b
	want.Advantage = slices.Clone(b.Advantage)
	for i, m := range b.Mask {
		if m {
			want.Advantage[i] = -min(0.5, d.of(&pair{}, b.Chosen[4*i:][:4], b.Teacher[4*i:][:4], make([]float64, 4)))
		}
	}
	ppo := mustEval(t, LegacyPPO(), Aggregation{}, &want)
	near(t, "loss", got.Loss, ppo.Loss, 1e-12)
	require.Equal(t, ppo.Grad, got.Grad)
	require.Equal(t, make([]float64, len(b.Chosen)), got.GradChosen)
}

// TestWhatDivergencesRefuse names the setting or the column.
func TestWhatDivergencesRefuse(t *testing.T) {
	ok := Divergence{Form: Tail, Choice: Choice{ByTeacher, 4}}
	with := func(f func(*Divergence)) Policy { d := ok; f(&d); return Distill{Over: d} }
	for want, p := range map[string]Policy{
		"Form is \"\"":                  with(func(d *Divergence) { d.Form = "" }),
		"Alpha = 2, want 0 to 1":        with(func(d *Divergence) { d.Alpha = 2 }),
		"Alpha = 1, want 0 with raised": with(func(d *Divergence) { d.Form, d.Alpha = Raised, 1 }),
		"Floor = 1":                     with(func(d *Divergence) { d.Floor = 1 }),
		"0 tokens are compared":         with(func(d *Divergence) { d.Choice.K = 0 }),
		"chosen by \"\"":                with(func(d *Divergence) { d.Choice.By = "" }),
		"want all of the vocabulary":    with(func(d *Divergence) { d.Form = Whole }),
		"KL is \"kl\" beside":           Distill{KL: K1, Over: ok},
		"Cap = -1":                      Distill{KL: K1, Cap: -1},
	} {
		_, err := ModeOf(p)
		testkit.Error(t, err, ErrSetting, want)
	}
	var r Result
	b := comparedBatch(1, ok)
	b.Chosen[4*slices.Index(b.Mask, true)+1] = math.Inf(-1)
	require.ErrorIs(t, Eval(&r, Distill{Over: ok}, Aggregation{}, b), ErrNotFinite)
	b.Chosen = b.Chosen[1:]
	require.ErrorIs(t, Eval(&r, Distill{Over: ok}, Aggregation{}, b), ErrLength)
	b.Chosen, b.Teacher = nil, nil
	require.ErrorIs(t, Eval(&r, Distill{Over: ok}, Aggregation{}, b), ErrMissing)
}

// TestLimitsOfDivergences: a tail of nothing stays finite, without a slope of the others by it; a log-prob at the floor
// has its slope, also if the distance is 0.
func TestLimitsOfDivergences(t *testing.T) {
	half, slope := math.Log(0.5), make([]float64, 2)
	d := Divergence{Form: Tail, Choice: Choice{ByTeacher, 2}}
	value := d.of(&pair{}, []float64{half, half}, []float64{math.Log(0.25), math.Log(0.75)}, slope)
	near(t, "value", value, 0.25*math.Log(0.5)+0.75*math.Log(1.5), 1e-6)
	near(t, "slope", slope[0], -0.25, 1e-6)
	d = Divergence{Form: Raised, Choice: Choice{ByTeacher, 1}, Floor: -2}
	near(t, "value", d.of(&pair{}, []float64{-2}, []float64{-2}, slope[:1]), 0, 0)
	near(t, "slope", slope[0], -math.Exp(-2), 1e-12)
}
