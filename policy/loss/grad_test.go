package loss

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A central difference with this step is exact to about 1e-9 for functions of
// curvature around 1; kinks closer than the step are left out by the caller.
const step = 1e-5

func slopeOf(f func(x float64) float64, x float64) float64 {
	return (f(x+step) - f(x-step)) / (2 * step)
}

// Losses without "no gradient" factors have the gradient of their value. The
// batch has one advantage per turn and the turn losses one per action, which is
// where the per-token gradient of GSPO is that of its objective.
func TestGradientIsTheSlopeOfTheLoss(t *testing.T) {
	for name, p := range everyPolicy() {
		if slices.Contains([]string{"cispo", "dppo_tv", "dppo_kl", "vespo", "opd", "opd top-k", "ref_kl",
			"sdft of a token"}, name) {
			continue // their values depend on the weight, their gradients do not: see the recorded numbers
		}
		if ChoiceOf(p) != (Choice{}) {
			continue // reads Chosen: TestDivergencesHaveTheSlopesOfTheirValues
		}
		t.Run(name, func(t *testing.T) {
			b := randomBatch(11)
			byRow := name == "gspo" || strings.HasPrefix(name, "luspo")
			if byRow {
				oneAdvantagePerRow(b)
			}
			if byRow || name == "turn_gspo" || name == "turn_ppo" {
				oneWeightPerRow(b)
			}
			got := mustEval(t, p, Aggregation{Mode: SeqMeanTokenMean}, b)
			checked := 0
			for i, m := range b.Mask {
				if !m {
					require.Zero(t, got.Grad[i], "token %d does not count", i)
					continue
				}
				left, right := oneSided(t, p, b, i)
				if math.Abs(left-right) > 1e-3*(1+math.Abs(left)) {
					continue // a kink
				}
				want := (left + right) / 2
				if name == "turn_ppo" {
					want /= float64(turnLength(b, i))
				}
				near(t, "gradient", got.Grad[i], want, 1e-4)
				checked++
			}
			require.GreaterOrEqual(t, checked, 20, "tokens away from kinks")
		})
	}
}

// oneSided returns the differences to both sides of token i's log-prob.
func oneSided(t *testing.T, p Policy, b *Batch[float64], i int) (left, right float64) {
	t.Helper()
	a := Aggregation{Mode: SeqMeanTokenMean}
	at := func(d float64) float64 {
		x := b.LogProb[i]
		defer func() { b.LogProb[i] = x }()
		b.LogProb[i] = x + d
		return mustEval(t, p, a, b).Loss
	}
	mid := at(0)
	return (mid - at(-step)) / step, (at(step) - mid) / step
}

func oneAdvantagePerRow(b *Batch[float64]) {
	for r := range b.Rows() {
		for i := b.Offsets[r]; i < b.Offsets[r+1]; i++ {
			b.Advantage[i] = float64(r%3) - 0.8
		}
	}
}

func oneWeightPerRow(b *Batch[float64]) {
	for r := range b.Rows() {
		for i := b.Offsets[r]; i < b.Offsets[r+1]; i++ {
			b.Weight[i] = 0.5 + float64(r)
		}
	}
}

// turnLength returns the counted tokens of token i's turn.
func turnLength(b *Batch[float64], i int) int {
	row, _ := locate(b.Offsets, i)
	n := 0
	for j := b.Offsets[row]; j < b.Offsets[row+1]; j++ {
		if b.Mask[j] && b.Turn[j] == b.Turn[i] {
			n++
		}
	}
	return n
}

func TestKLTermHasTheSlopeOfItsValue(t *testing.T) {
	for _, name := range klNames {
		for _, d := range []float64{-3, -0.4, 0.3, 2.5, -30, 30} {
			want := slopeOf(func(x float64) float64 { v, _, _ := KL(name).Of(x, -1); return v }, d-1)
			v, got, err := KL(name).Of(d-1, -1)
			require.NoError(t, err)
			near(t, name, got, want, 1e-6)
			plusV, plus, err := KL(name+"+").Of(d-1, -1)
			require.NoError(t, err)
			require.Equal(t, v, plusV, "%s+ at %v", name, d)
			require.InDelta(t, d, plus, 1e-12, "slope of %s+", name)
		}
	}
}

// At a kink of the clipped loss the slopes on both sides differ.
func TestValueGradientIsTheSlopeOfTheLoss(t *testing.T) {
	b := randomBatch(9)
	for _, v := range []Value{{Clip: 0.1}, {Clip: math.Inf(1)}, {Clip: 0}} {
		for i, m := range b.Mask {
			if !m {
				continue
			}
			at := func(d float64) float64 {
				l, _, _ := v.Of(b.LogProb[i]+d, b.OldLogProb[i], b.Ref[i])
				return l
			}
			_, got, _ := v.Of(b.LogProb[i], b.OldLogProb[i], b.Ref[i])
			left, right := (at(0)-at(-step))/step, (at(step)-at(0))/step
			if math.Abs(left-right) < 1e-3 {
				near(t, "gradient", got, (left+right)/2, 1e-4)
			}
		}
	}
}
