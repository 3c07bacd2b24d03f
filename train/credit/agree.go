package credit

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"vagen/internal/rng"
	"vagen/rollout/evaluate"
)

// Figure is a number with its interval of 95 %.
type Figure struct {
	Value Number `json:"value"`
	Low   Number `json:"low"`
	High  Number `json:"high"`
}

// Agreement says how well claims agree with measured advantages over some turns.
type Agreement struct {
	N int `json:"n"` // turns
	// Pearson and Spearman are correlations, unknown if either side is constant.
	Pearson  Figure `json:"pearson"`
	Spearman Figure `json:"spearman"`
	// Sign is the share of turns with equal signs; a claim of 0 agrees with none. Its
	// interval is Wilson's, which treats turns as independent.
	Sign Figure `json:"sign"`
	// MSE is the mean squared error of the claims times the factor ≥ 0 that makes it
	// smallest.
	MSE Figure `json:"mse"`
}

// pair is a turn as the table sees it.
type pair struct {
	episode         int // which episodes are drawn together by the bootstrap
	claim, measured float64
}

// resamples is the number of resamples of the bootstrap.
const resamples = 1000

// agreement compares claims with measurements. Intervals are those of a bootstrap over
// episodes, since the turns of an episode are not independent.
func agreement(pairs []pair, draws [][]int) Agreement {
	a := Agreement{N: len(pairs), Pearson: unknown, Spearman: unknown, Sign: unknown, MSE: unknown}
	if len(pairs) == 0 {
		return a
	}
	a.Pearson.Value, a.Spearman.Value, a.MSE.Value = Number(pearson(pairs)), Number(spearman(pairs)),
		Number(scaledError(pairs))
	var columns [3][]float64
	for _, sample := range samples(pairs, draws) {
		columns[0] = append(columns[0], pearson(sample))
		columns[1] = append(columns[1], spearman(sample))
		columns[2] = append(columns[2], scaledError(sample))
	}
	for i, f := range []*Figure{&a.Pearson, &a.Spearman, &a.MSE} {
		f.Low, f.High = quantiles(columns[i])
	}
	agree := 0
	for _, p := range pairs {
		if p.claim*p.measured > 0 {
			agree++
		}
	}
	share := evaluate.ShareOf(agree, len(pairs))
	a.Sign = Figure{Number(share.Mean), Number(share.Low), Number(share.High)}
	return a
}

var unknown = Figure{Number(math.NaN()), Number(math.NaN()), Number(math.NaN())}

// bootstrap draws episodes with replacement, equally for all estimators.
func bootstrap(seed uint64, episodes int) [][]int {
	out := make([][]int, resamples)
	for b := range out {
		r := rng.New(seed, rng.Credit, bootstrapDraws, uint64(b))
		out[b] = make([]int, episodes)
		for i := range out[b] {
			out[b][i] = r.IntN(episodes)
		}
	}
	return out
}

// samples are the pairs of the episodes of each draw. Samples without a pair are left
// out.
func samples(pairs []pair, draws [][]int) [][]pair {
	of := map[int][]pair{}
	for _, p := range pairs {
		of[p.episode] = append(of[p.episode], p)
	}
	var out [][]pair
	for _, draw := range draws {
		var sample []pair
		for _, e := range draw {
			sample = append(sample, of[e]...)
		}
		if len(sample) > 0 {
			out = append(out, sample)
		}
	}
	return out
}

// quantiles are the 2.5 % and 97.5 % quantiles of those of the numbers that are known.
// They are unknown if less than half are.
func quantiles(xs []float64) (low, high Number) {
	known := slices.DeleteFunc(slices.Clone(xs), math.IsNaN)
	if len(known) == 0 || 2*len(known) < len(xs) {
		return unknown.Low, unknown.High
	}
	slices.Sort(known)
	const tail = (1 - evaluate.Level) / 2
	return Number(stat.Quantile(tail, stat.Empirical, known, nil)),
		Number(stat.Quantile(1-tail, stat.Empirical, known, nil))
}

func columns(pairs []pair) (claims, measured []float64) {
	for _, p := range pairs {
		claims, measured = append(claims, p.claim), append(measured, p.measured)
	}
	return claims, measured
}

// pearson is the correlation, NaN if either side is constant.
func pearson(pairs []pair) float64 {
	x, y := columns(pairs)
	return correlation(x, y)
}

// spearman is the correlation of ranks; equal numbers share the mean of their ranks.
func spearman(pairs []pair) float64 {
	x, y := columns(pairs)
	return correlation(ranks(x), ranks(y))
}

func correlation(x, y []float64) float64 {
	if constant(x) || constant(y) { // where rounding could give a number
		return math.NaN()
	}
	return stat.Correlation(x, y, nil)
}

func constant(x []float64) bool {
	return len(x) == 0 || slices.Min(x) == slices.Max(x)
}

func ranks(x []float64) []float64 {
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(x[a], x[b]) })
	out := make([]float64, len(x))
	for from := 0; from < len(order); {
		to := from + 1
		for to < len(order) && x[order[to]] == x[order[from]] {
			to++
		}
		for _, i := range order[from:to] {
			out[i] = float64(from+to-1) / 2
		}
		from = to
	}
	return out
}

// scaledError is the mean squared error of s·claim for the best s ≥ 0:
// s = max(0, Σ claim·measured / Σ claim²).
func scaledError(pairs []pair) float64 {
	var xy, xx, sum float64
	for _, p := range pairs {
		xy, xx = xy+p.claim*p.measured, xx+p.claim*p.claim
	}
	scale := 0.0
	if xx > 0 {
		scale = max(0, xy/xx)
	}
	for _, p := range pairs {
		d := p.measured - scale*p.claim
		sum += d * d
	}
	return sum / float64(len(pairs))
}
