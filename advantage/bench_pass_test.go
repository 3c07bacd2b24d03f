package advantage

import (
	"testing"
	"time"
)

// touch is the minimum work of an estimator: one pass in order over the arrays that
// it reads and writes, in plain Go. Arrays are those of the estimator's Spec: rewards, values, mask and turn
// ends in, 4, 4, 1 and 1 bytes a token; advantages, returns, turn ids and value
// mask out, 4, 4, 4 and 1. Whitening has to read and write the advantages once more,
// as their moments are known only after the last row; the pass does not include that.
type touch struct {
	b    *Batch
	out  Result
	spec Spec
}

func newTouch(b *Batch, spec Spec) *touch {
	n := b.Tokens()
	return &touch{b, Result{
		Advantages: make([]float32, n), Returns: make([]float32, n),
		ValueMask: make([]bool, n), TurnID: make([]int32, n),
	}, spec}
}

func (p *touch) do(from, to int) {
	lo, hi := p.b.Offsets[from], p.b.Offsets[to]
	r, m := p.b.Rewards[lo:hi], p.b.Loss[lo:hi]
	v := r
	if p.spec.Critic {
		v = p.b.Values[lo:hi]
	}
	adv, ret := p.out.Advantages[lo:hi], p.out.Returns[lo:hi]
	switch {
	case p.spec.TurnIDs:
		touchTurns(r, v, adv, ret, m, p.b.TurnEnd[lo:hi], p.out.TurnID[lo:hi])
	case p.spec.TurnEnds:
		touchEnds(r, v, adv, ret, m, p.b.TurnEnd[lo:hi])
	default:
		touchTokens(r, v, adv, ret, m)
	}
	if p.spec.ValueMask {
		clear(p.out.ValueMask[lo:hi])
	}
}

func touchTokens(r, v, adv, ret []float32, m []bool) {
	v, adv, ret, m = v[:len(r)], adv[:len(r)], ret[:len(r)], m[:len(r)]
	for t := range r {
		x := r[t] - v[t]
		if !m[t] {
			x = 0
		}
		adv[t], ret[t] = x, x+v[t]
	}
}

func touchEnds(r, v, adv, ret []float32, m, ends []bool) {
	v, adv, ret, m, ends = v[:len(r)], adv[:len(r)], ret[:len(r)], m[:len(r)], ends[:len(r)]
	for t := range r {
		x := r[t] - v[t]
		if !m[t] {
			x = 0
		}
		if ends[t] {
			x = r[t]
		}
		adv[t], ret[t] = x, x+v[t]
	}
}

func touchTurns(r, v, adv, ret []float32, m, ends []bool, id []int32) {
	v, adv, ret, m, ends, id = v[:len(r)], adv[:len(r)], ret[:len(r)], m[:len(r)], ends[:len(r)], id[:len(r)]
	turn := int32(0)
	for t := range r {
		x, k := r[t]-v[t], turn
		if !m[t] {
			x, k = 0, -1
		}
		if ends[t] {
			turn++
		}
		adv[t], ret[t], id[t] = x, x+v[t], k
	}
}

// BenchmarkBeside alternates between each estimator and a pass over the same arrays, and
// reports the shortest time of each and their quotient. Other load on the machine slows
// down both alike, and the shortest time excludes it.
func BenchmarkBeside(b *testing.B) {
	params := DefaultParams()
	params.Lambda, params.TurnGamma = 0.95, 0.95
	for _, name := range Names() {
		spec, err := Describe(name)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			for _, s := range shapes {
				b.Run(s.String(), func(b *testing.B) { beside(b, s.batch(), spec, spec.New(params)) })
			}
		})
	}
}

func beside(b *testing.B, batch *Batch, spec Spec, est Estimator) {
	var (
		out  Result
		pass = newTouch(batch, spec)
		best = [2]time.Duration{time.Hour, time.Hour}
	)
	for b.Loop() {
		start := time.Now()
		pass.do(0, batch.Rows())
		middle := time.Now()
		if err := est.Estimate(&out, batch); err != nil {
			b.Fatal(err)
		}
		best[0] = min(best[0], middle.Sub(start))
		best[1] = min(best[1], time.Since(middle))
	}
	b.ReportMetric(float64(best[0]), "pass-ns")
	b.ReportMetric(float64(best[1]), "estimate-ns")
	b.ReportMetric(float64(best[1])/float64(best[0]), "passes")
}
