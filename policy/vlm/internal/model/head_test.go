package model

import (
	"math"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
)

const headEps = 1e-5

// headCase is a head over 6 tokens of which 4 positions are read, two of them
// twice in the vocabulary's sense: they predict the same token.
type headCase struct {
	head        Head
	x           operand
	weights     []operand
	at, target  []int32
	slot        []int32 // inverse of at
	temperature float64
}

func newHeadCase(tokens, value bool) headCase {
	const n, hidden, vocab = 6, 5, 7
	r := newSource(70)
	c := headCase{
		head: Head{Eps: headEps, Tokens: tokens, Value: value}, x: r.normal(0, 1, n, hidden),
		at: []int32{5, 0, 2, 3}, target: []int32{1, 6, 1, 0}, slot: []int32{1, 4, 2, 3, 4, 0}, temperature: 0.7,
	}
	c.weights = []operand{r.normal(1, 0.3, hidden)}
	if tokens {
		c.weights = append(c.weights, r.normal(0, 1, vocab, hidden))
	}
	if value {
		c.weights = append(c.weights, r.normal(0, 1, 1, hidden), r.normal(0, 1, 1))
	}
	return c
}

// plain returns log-probs, entropies and values, whichever the head has.
func (c headCase) plain(in []operand) []operand {
	x, w := in[0].f, slices64(in[1:])
	hidden := len(w[0])
	y := plainRMSNorm(x, w[0], headEps)
	var picked []float64
	for _, at := range c.at {
		picked = append(picked, y[int(at)*hidden:(int(at)+1)*hidden]...)
	}
	n := len(c.at)
	var out []operand
	w = w[1:]
	if c.head.Tokens {
		logits := plainLinear(picked, w[0], nil, hidden)
		vocab := len(logits) / n
		lp, entropy := make([]float64, n), make([]float64, n)
		for i := range n {
			row := logits[i*vocab : (i+1)*vocab]
			for k := range row {
				row[k] /= c.temperature
			}
			plainSoftmax(row)
			lp[i] = math.Log(row[c.target[i]])
			for _, p := range row {
				entropy[i] -= p * math.Log(p)
			}
		}
		out = append(out, operand{f: lp, dims: []int{n}}, operand{f: entropy, dims: []int{n}})
		w = w[1:]
	}
	if c.head.Value {
		out = append(out, operand{f: plainLinear(picked, w[0], w[1], hidden), dims: []int{n}})
	}
	return out
}

func TestGradientsOfHeads(t *testing.T) {
	t.Parallel()
	pairs := map[string]pair{}
	for name, c := range map[string]headCase{
		"tokens": newHeadCase(true, false), "value": newHeadCase(false, true), "both": newHeadCase(true, true),
	} {
		in := append([]operand{c.x}, c.weights...)
		n := len(in)
		wrt := make([]int, n)
		for i := range wrt {
			wrt[i] = i
		}
		h := c.head
		pairs[name] = pair{
			in: append(in, ints(c.at), ints(c.target), ints(c.slot), floats([]float64{c.temperature}, []int{}...)), wrt: wrt,
			forward: func(in []*Node) []*Node {
				return h.Forward(h.Weights(in[1:n]), in[0], in[n], in[n+1], Reshape(in[n+3])).Scores()
			},
			back: func(in, dy []*Node) []*Node {
				w, temperature := h.Weights(in[1:n]), Reshape(in[n+3])
				o := h.Forward(w, in[0], in[n], in[n+1], temperature)
				columns := make([]*Node, SlopeColumns)
				for i := range columns {
					columns[i] = Zeros(in[0].Graph(), shape(in[0].DType(), len(c.at), 1))
				}
				var kept []*Node
				if h.Tokens {
					kept = []*Node{o.Entropy, o.Logits, o.LogSum}
					columns[SlopeLogProb], columns[SlopeEntropy], dy = Reshape(dy[0], -1, 1), Reshape(dy[1], -1, 1), dy[2:]
				}
				if h.Value {
					columns[SlopeValue] = Reshape(dy[0], -1, 1)
				}
				dx, g := h.Backward(w, in[0], in[n], in[n+2], in[n+1], temperature, Concatenate(columns, 1), ZerosLike(in[0]),
					kept)
				return append([]*Node{dx}, g...)
			},
			plain: func(in []operand) []operand { return c.plain(in[:n]) },
		}
	}
	onEach(t, pairs)
}
