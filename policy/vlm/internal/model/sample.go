package model

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
)

// SampleParam names an entry of the vector of numbers that sampling reads.
type SampleParam int

// The entries of the vector [SampleParams] float32.
const (
	SampleTemperature SampleParam = iota // divides the logits, also those of the reported log-prob
	SampleTopK
	SampleTopP
	SampleMinP
	SampleParams
)

// Sampler lists the restrictions that a sampling graph applies. Numbers that may change
// from call to call are inputs of the graph.
type Sampler struct {
	Greedy, TopK, TopP, MinP bool
	Forced                   bool // a row's token may be given by the caller
}

// bisections is the number of halvings that narrow a threshold from the range of
// the logits (a few dozen, at most [weightless]) to below the spacing of float32, so that the
// set above the threshold is exact.
const bisections = 36

// weightless is the distance below the best logit from which on probabilities are zero in
// float32: exp(−104) is less than half of its smallest number.
const weightless = 104

// lowest is the score of tokens that are not drawn.
const lowest = -1e30

// Sample picks one token per row of logits [rows, vocab]. It keeps the top-k
// tokens, then the smallest subset of them with probability top-p, then those
// with at least min-p of the best token's probability, and draws from the
// remaining tokens in proportion (the order of Hugging Face's processors).
// seeds [rows, 2] and count [rows] are uint32. The noise depends only on them and
// on the token's id, so a row's draw does not depend on other rows.
//
// The tokens never are left out before all that.
//
// The log-prob [rows] is that of the plain softmax at the temperature (1 when
// greedy), before any restriction. It is NaN for the whole row if a logit is NaN or
// +Inf; a token whose logit is −Inf is never drawn. With Forced, a row's token is that of
// forced [rows] int32 if it is not negative; without it forced may be nil.
func (s Sampler) Sample(
	logits, seeds, count, params, forced *Node, never []int32, use *StepKernels,
) (id, logProb *Node) {
	g := logits.Graph()
	n, vocab := dim(logits, 0), dim(logits, 1)
	p := func(k SampleParam) *Node { return Reshape(Slice(params, AxisRange(int(k), int(k)+1))) }
	logits = f32(logits)
	z := Div(logits, p(SampleTemperature))
	top := ReduceAndKeep(z, ReduceMax, -1)
	weight := Exp(Sub(z, top)) // unnormalised probabilities, 1 for the best token
	logSum := Reshape(Add(Log(ReduceAndKeep(weight, ReduceSum, -1)), top), n)
	index := Iota(g, shape(dtypes.Int32, n, vocab), 1)
	all := z
	var left *Node
	if len(never) > 0 {
		left = Const(g, never)
		for _, token := range never {
			z = Where(Equal(index, Scalar(g, dtypes.Int32, token)), Scalar(g, dtypes.Float32, lowest), z)
		}
		top = ReduceAndKeep(z, ReduceMax, -1)
		weight = Exp(Sub(z, top))
	}
	score := z
	if !s.Greedy {
		// Thresholds are not searched below: masked logits may be −Inf, or nearly.
		low := Max(ReduceAndKeep(z, ReduceMin, -1), AddScalar(top, -weightless))
		if s.TopK {
			k := p(SampleTopK)
			cut := bisect(low, top, func(t *Node) *Node {
				return GreaterOrEqual(countTrue(GreaterOrEqual(z, t)), k)
			})
			weight = where(GreaterOrEqual(z, cut), weight)
		}
		if s.TopP {
			want := Mul(p(SampleTopP), ReduceAndKeep(weight, ReduceSum, -1))
			cut := bisect(low, top, func(t *Node) *Node {
				kept := where(GreaterOrEqual(z, t), weight)
				return GreaterOrEqual(ReduceAndKeep(kept, ReduceSum, -1), want)
			})
			weight = where(GreaterOrEqual(z, cut), weight)
		}
		if s.MinP {
			weight = where(GreaterOrEqual(weight, p(SampleMinP)), weight)
		}
		score = Add(z, gumbel(g, seeds, count, n, vocab))
		score = Where(GreaterThan(weight, ZerosLike(weight)), score, Scalar(g, dtypes.Float32, lowest))
	}
	best := ReduceAndKeep(score, ReduceMax, -1)
	id = ReduceMin(Where(Equal(score, best), index, MulScalar(OnesLike(index), float64(vocab-1))), -1)
	if !s.Forced {
		forced = nil
	} else {
		id = Where(GreaterOrEqual(forced, ZerosLike(forced)), forced, id)
	}
	logProb = Sub(ReduceSum(where(hot(id, all), all), -1), logSum)
	use.choice(s, []*Node{logits, seeds, count, params, left, forced}, id, logProb)
	return id, logProb
}

func countTrue(mask *Node) *Node {
	return ReduceAndKeep(ConvertDType(mask, dtypes.Float32), ReduceSum, -1)
}

// bisect returns the largest threshold [rows, 1] between low and top, to within
// float32, for which ok holds; ok must hold at low and be monotone.
func bisect(low, top *Node, ok func(t *Node) *Node) *Node {
	// At the top itself ok may hold too, when one token is enough.
	atTop := ok(top)
	lo, hi := low, top
	for range bisections {
		mid := MulScalar(Add(lo, hi), 0.5)
		yes := ok(mid)
		lo, hi = Where(yes, mid, lo), Where(yes, hi, mid)
	}
	return Where(atTop, top, lo)
}

// gumbel is −log(−log(1 − v)) with v uniform in (0, 1) from a hash of (seed,
// count, token). Large noise comes from small v, where float32 distinguishes 2³²
// steps. With u = 1 − v instead, u would round to 1, and the noise to infinity,
// once in 2²⁴ tokens.
func gumbel(g *Graph, seeds, count *Node, n, vocab int) *Node {
	c := func(x uint32) *Node { return Const(g, [][]uint32{{x}}) }
	token := Iota(g, shape(dtypes.Uint32, 1, vocab), 1)
	x := Add(Mul(token, c(0x9e3779b9)), Mul(Reshape(count, n, 1), c(0x85ebca6b)))
	x = mix32(BitwiseXor(x, BroadcastToDims(columns(seeds, 0, 1), n, vocab)), c)
	x = mix32(BitwiseXor(x, BroadcastToDims(columns(seeds, 1, 2), n, vocab)), c)
	v := MulScalar(AddScalar(ConvertDType(x, dtypes.Float32), 0.5), 1.0/(1<<32))
	v = Min(v, Scalar(g, dtypes.Float32, 1-1.0/(1<<24)))
	return Neg(Log(Neg(Log1P(Neg(v)))))
}

// mix32 is a 32-bit hash finaliser with low bias (constants found by C. Wellons'
// hash prospector). Shifts are written as divisions, which every backend has.
func mix32(x *Node, c func(uint32) *Node) *Node {
	shift := func(k uint) *Node { return Div(x, c(1<<k)) }
	x = BitwiseXor(x, shift(16))
	x = Mul(x, c(0x7feb352d))
	x = BitwiseXor(x, shift(15))
	x = Mul(x, c(0x846ca68b))
	return BitwiseXor(x, shift(16))
}
