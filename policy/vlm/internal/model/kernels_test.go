package model

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/stretchr/testify/require"

	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/devicetest"
	"vagen/policy/vlm/internal/fused"
)

// The kernel's step of a block is that of the graph whose place it takes, for all kinds
// of blocks and numbers of rows, with slots that a row may not see, a row that may see its own token alone, and one
// that may not see it, which stays as it is. So are its products by kernels alone, which package device tests with all
// numbers of rows. The same bits come again.
func TestBlockKernelsDoWhatTheGraphDoes(t *testing.T) {
	t.Parallel()
	d := devicetest.Kernels(t)
	for name, b := range map[string]Block{
		"llama": {Hidden: 96, Heads: 6, KVHeads: 2, HeadDim: 16, FF: 88, Eps: 1e-5},
		"qwen2": {Hidden: 64, Heads: 4, KVHeads: 4, HeadDim: 16, FF: 72, Eps: 1e-6, QKVBias: true},
		"qwen3": {Hidden: 40, Heads: 8, KVHeads: 2, HeadDim: 72, FF: 136, Eps: 1e-6, QKNorm: true},
		"all biases": {Hidden: 30, Heads: 3, KVHeads: 1, HeadDim: 6, FF: 21, Eps: 1e-3, QKVBias: true, QKNorm: true,
			OutBias: true, MLPBias: true},
		"heads in pairs": {Hidden: 24, Heads: 2, KVHeads: 2, HeadDim: 130, FF: 1, Eps: 1e-6},
	} {
		b.Causal, b.Compute = true, dtypes.Float32
		for _, rows := range []int{1, 3, fused.MaxRows} {
			t.Run(fmt.Sprint(name, rows), func(t *testing.T) {
				s := newBlockStep(&b, rows)
				programs := map[string]*device.Program{"block": s.kernel(t, d)}
				if rows == 3 {
					programs["products"] = d.Fused("products", func(n []*Node) ([]*Node, []device.Kernel) {
						out, _ := s.build(t, n)
						return out, nil
					})
				}
				s.check(t, d, programs)
			})
		}
	}
}

// blockStep is a block's step with its inputs.
type blockStep struct {
	block    *Block
	operands []operand // parameters, x, cos, sin, past keys and values, recent ones
	allow    [2][]bool
	rows     int
	packed   dtypes.DType // of matrices; InvalidDType does not pack them
	at       []int32      // one slot, or those of positions
}

// stretches are the lengths of the past and the recent cache.
var stretches = [2]int{11, 24}

func newBlockStep(b *Block, rows int) *blockStep {
	past, recent := stretches[0], stretches[1]
	r := newSource(uint64(rows))
	s := &blockStep{block: b, rows: rows, at: []int32{7}}
	for i, length := range stretches {
		s.allow[i] = make([]bool, rows*length)
		for k := range s.allow[i] {
			s.allow[i][k] = r.IntN(3) > 0 && k >= length
		}
	}
	for row := range rows {
		s.allow[1][row*recent+int(s.at[0])] = row != 1
	}
	angle := r.normal(0, 2, rows, b.HeadDim/2)
	s.operands = append(blockParams(r, b), r.normal(0, 1, rows, b.Hidden),
		floats(each(angle.f, math.Cos), angle.dims...), floats(each(angle.f, math.Sin), angle.dims...))
	for _, length := range []int{past, past, recent, recent} {
		s.operands = append(s.operands, r.normal(0, 1, rows, b.KVHeads, length, b.HeadDim))
	}
	return s
}

func (s *blockStep) build(t *testing.T, n []*Node) (out []*Node, use StepKernels) {
	weights := len(s.operands) - 7
	w, n := n[:weights], n[weights:]
	x, cos, sin, at := n[0], n[1], n[2], n[9]
	p, q := CacheSegment{K: n[3], V: n[4], Allow: n[7]}, CacheSegment{K: n[5], V: n[6], Allow: n[8]}
	packed := 0
	for i, m := range w {
		if s.packed != dtypes.InvalidDType && m.Rank() == 2 {
			w[i] = use.Unpack(PackMatrix(m, s.packed), dim(m, 0))
			packed++
		}
	}
	y, k, v := s.block.stepTo(w, x, cos, sin, p, q, at)
	use.Block(s.block, w, x, cos, sin, p, q, at, y, k, v)
	require.Len(t, use, 1+packed)
	return []*Node{y, k, v}, use
}

// run runs a program several times, and returns its outputs each time.
func (s *blockStep) run(t *testing.T, d *device.Device, p *device.Program, times int) (all [][][]float32) {
	var in []*device.Array
	for _, o := range s.operands {
		in = append(in, o.put(t, d))
	}
	for i, allow := range s.allow {
		a, err := device.Put(d, allow, len(allow)/stretches[i], stretches[i])
		require.NoError(t, err)
		in = append(in, a)
	}
	at, err := device.Scalar(d, s.at[0])
	if len(s.at) > 1 {
		at, err = device.Put(d, s.at)
	}
	require.NoError(t, err)
	in = append(in, at)
	for range times {
		all = append(all, runAll(t, p, in))
	}
	device.FreeAll(in...)
	return all
}

func (s *blockStep) kernel(t *testing.T, d *device.Device) *device.Program {
	return d.Fused("block", func(n []*Node) ([]*Node, []device.Kernel) { return s.build(t, n) })
}

// live reports whether a row may see its own token.
func (s *blockStep) live(row int) bool {
	at := s.at[min(row, len(s.at)-1)]
	return at >= 0 && s.allow[1][row*stretches[1]+int(at)]
}

// check holds programs with kernels against the graph, in pure Go, which compiles nothing.
func (s *blockStep) check(t *testing.T, d *device.Device, programs map[string]*device.Program) {
	pure, off := devicetest.Go(t), 3e-6
	if s.packed == dtypes.Int8 {
		off = 0.02 // kernels round rows to 8 bits
	}
	want := s.run(t, pure, pure.Program("graph", func(n []*Node) []*Node {
		out, _ := s.build(t, n)
		return out
	}), 1)[0]
	n := len(s.operands)
	before := []operand{s.operands[n-7], s.operands[n-2], s.operands[n-1]} // x and the recent cache
	for what, p := range programs {
		got := s.run(t, d, p, 2)
		require.True(t, p.UsesKernels())
		require.Equal(t, got[0], got[1])
		for i := range want {
			most := 0.0
			for _, x := range want[i] {
				most = max(most, math.Abs(float64(x)))
			}
			for k, x := range want[i] {
				if what == "block" && (i == 0 || len(s.at) == 1) && !s.live(k*s.rows/len(want[i])) {
					x = float32(before[i].f[k])
				}
				require.InDelta(t, x, got[0][i][k], off*most, "%s: output %d, number %d", what, i, k)
			}
		}
	}
}

// The kernel's step of a gated delta rule is that of the graph, for widths that vectors divide and others. States of
// rows that are not live stay, bit for bit.
func TestDeltaKernelsDoWhatTheGraphDoes(t *testing.T) {
	t.Parallel()
	d := devicetest.Kernels(t)
	const rows, heads, key = 20, 3, 7
	for _, value := range []int{3, 32, 43} {
		r := newSource(uint64(value))
		state := r.normal(0, 1, rows, heads, key, value)
		in := []operand{r.normal(0, 0.4, rows, heads, key), r.normal(0, 0.4, rows, heads, key),
			r.normal(0, 1, rows, heads, value),
			r.normal(0.5, 0.2, rows, heads), r.normal(-1, 0.3, rows, heads), state}
		live := make([]int32, rows)
		for i := range live {
			live[i] = int32(i % 3)
		}
		build := func(n []*Node) ([]*Node, []device.Kernel) {
			x, past := deltaIn{n[0], n[1], n[2], n[3], n[4]}, &Past{Prefix: n[5:6], Live: GreaterThan(n[6], ZerosLike(n[6]))}
			o, after := deltaStep(x, n[5])
			after = past.Keep(0, after)
			var use StepKernels
			use.Delta(x, past.Live, n[5], o, after)
			return []*Node{o, after}, use
		}
		in = append(in, ints(live))
		kernel := d.Fused("delta", build)
		want := run(t, devicetest.Go(t), in, func(n []*Node) []*Node { out, _ := build(n); return out })
		got := runProgram(t, d, kernel, in)
		require.True(t, kernel.UsesKernels())
		for i := range want {
			requireClose(t, fmt.Sprintf("width %d, output %d", value, i), got[i], widen(want[i]), 1e-5, 1e-5)
		}
		size := heads * key * value
		for i, on := range live {
			if on == 0 {
				require.Equal(t, narrow(state.f[i*size:(i+1)*size]), got[1][i*size:(i+1)*size])
			}
		}
	}
}

// Several positions of each row give what one token after the other gives, bit for bit, where the number of rows decides
// on the order of sums, and where heads that share a key head are attended together or apart. A position without a slot
// writes nothing. The graph agrees.
func TestPositionsHaveTheBitsOfSingleTokens(t *testing.T) {
	t.Parallel()
	d := devicetest.Kernels(t)
	b := &Block{Hidden: 96, Heads: 6, KVHeads: 2, HeadDim: 20, FF: 91, Eps: 1e-5, QKVBias: true, Causal: true,
		Compute: dtypes.Float32}
	const tokens, each = 3, 4 // the last position has no slot
	for _, rows := range []int{1, 2, 4} {
		one, all, inputs := newBlockStep(b, rows), newBlockStep(b, rows), newBlockStep(b, rows*each)
		n := len(one.operands) - 7
		copy(all.operands[n:n+3], inputs.operands[n:]) // x, cos, sin of all positions
		for row := range rows {
			clear(one.allow[1][row*stretches[1]+7:][:tokens])
		}
		all.at, all.allow[1], all.rows = nil, nil, rows*each
		for i := range rows * each {
			all.at = append(all.at, []int32{7, 8, 9, -1}[i%each])
			allow := slices.Clone(one.allow[1][i/each*stretches[1]:][:stretches[1]])
			for slot := 7; slot <= 7+i%each && slot < 7+tokens; slot++ {
				allow[slot] = true
			}
			all.allow[1] = append(all.allow[1], allow...)
		}
		step, steps := one.kernel(t, d), all.kernel(t, d)
		got := all.run(t, d, steps, 1)[0]
		for i := range tokens {
			for row := range rows {
				for k := range 3 {
					o := inputs.operands[n+k]
					w := len(o.f) / (rows * each)
					copy(one.operands[n+k].f[row*w:(row+1)*w], o.f[(row*each+i)*w:])
				}
				one.allow[1][row*stretches[1]+7+i] = true
			}
			one.at = []int32{int32(7 + i)}
			out := one.run(t, d, step, 1)[0]
			for row := range rows {
				want := out[0][row*b.Hidden : (row+1)*b.Hidden]
				require.Equal(t, want, got[0][(row*each+i)*b.Hidden:][:b.Hidden], "%d rows, token %d", rows, i)
			}
			for k := range 2 {
				for j, x := range out[1+k] {
					one.operands[n+5+k].f[j] = float64(x)
				}
			}
		}
		for k := range 2 {
			require.Equal(t, narrow(one.operands[n+5+k].f), got[1+k], "%d rows: the cache", rows)
		}
		all.check(t, d, map[string]*device.Program{"block": steps})
	}
}

// Which thread does which share of a block changes nothing, nor that another device has
// the threads at the time, so that one does all.
func TestBlockKernelsGiveTheSameBitsAgain(t *testing.T) {
	devices := []*device.Device{devicetest.Kernels(t), devicetest.Kernels(t)}
	s := newBlockStep(&Block{Hidden: 200, Heads: 8, KVHeads: 4, HeadDim: 24, FF: 1531, Eps: 1e-6, Causal: true,
		Compute: dtypes.Float32}, 2)
	want := s.run(t, devices[0], s.kernel(t, devices[0]), 1)[0]
	var group sync.WaitGroup
	got := make([][][][]float32, len(devices))
	for i, d := range devices {
		group.Go(func() { got[i] = s.run(t, d, s.kernel(t, d), 200) })
	}
	group.Wait()
	for _, g := range slices.Concat(got...) {
		require.Equal(t, want, g)
	}
}

// A head's kernel gives the log-probs and entropies of the graph: for vocabularies of several slabs and those that
// vectors do not divide, at any temperature. The same bits come again, with each set of instructions.
func TestScoresKernelDoesWhatTheGraphDoes(t *testing.T) {
	t.Parallel()
	d := devicetest.Kernels(t)
	h := &Head{Eps: 1e-6, Tokens: true}
	for _, c := range []struct {
		rows, hidden, vocab int
		temperature         float64
	}{{fused.ScoreRows, 40, 3, 1}, {75, 24, 1543, 0.3}, {64, 300, 5000, 1e6}} {
		r := newSource(uint64(c.vocab))
		at, target := make([]int32, c.rows), make([]int32, c.rows)
		for i := range at {
			at[i], target[i] = int32(i/2), int32(r.IntN(c.vocab))
		}
		in := []operand{r.normal(1, 0.3, c.hidden), r.normal(0, 1, c.vocab, c.hidden), r.normal(0, 1, c.rows, c.hidden),
			ints(at), ints(target), floats([]float64{c.temperature}, 1)}
		build := func(n []*Node) (out []*Node, use StepKernels) {
			o := h.Forward(h.Weights(n[:2]), n[2], n[3], n[4], Reshape(n[5]))
			return o.Scores(), o.Kernels
		}
		own := d.Fused("own", func(n []*Node) ([]*Node, []device.Kernel) { return build(n) })
		want := run(t, devicetest.Go(t), in, func(n []*Node) []*Node { out, _ := build(n); return out })
		got := runProgram(t, d, own, in)
		require.True(t, own.UsesKernels())
		for _, wide := range []bool{true, false} {
			before := fused.AllowAVX512(wide)
			again := runProgram(t, d, own, in)
			fused.AllowAVX512(before)
			require.Equal(t, got, again, "%+v: AVX-512 %v", c, wide)
		}
		for i := range want {
			require.InDeltaSlice(t, want[i], got[i], 2e-4, "%+v: output %d", c, i)
		}
	}
}

// Logits of several positions of each row have the bits of one position: XLA, too, computes the norm of a row in one
// order, whatever the number of rows.
func TestLogitsOfPositionsHaveTheBitsOfSingleTokens(t *testing.T) {
	t.Parallel()
	d := devicetest.Kernels(t)
	h := &Head{Eps: 1e-5, Tokens: true}
	const all, vocab = 4, 70
	for _, hidden := range []int{576, 1001} {
		for _, lines := range []int{1, 2} {
			r, each := newSource(uint64(hidden)), all/lines
			norm, table, x := r.normal(1, 0.3, hidden), r.normal(0, 1, vocab, hidden), r.normal(0, 1, all, hidden)
			p := d.Fused("logits", func(n []*Node) ([]*Node, []device.Kernel) {
				var use StepKernels
				use.Like(lines)
				return []*Node{h.Logits(h.Weights(n[:2]), n[2])}, use
			})
			logits := func(x operand) []float32 {
				out := runAll(t, p, []*device.Array{norm.put(t, d), table.put(t, d), x.put(t, d)})[0]
				require.True(t, p.UsesKernels())
				return out
			}
			got := logits(x)
			for i := range each {
				var one []float64
				for row := range lines {
					one = append(one, x.f[(row*each+i)*hidden:][:hidden]...)
				}
				want := logits(floats(one, lines, hidden))
				for row := range lines {
					require.Equal(t, want[row*vocab:][:vocab], got[(row*each+i)*vocab:][:vocab], "%d, %d rows", hidden, lines)
				}
			}
		}
	}
}
