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
	b     *Batch
	out   Result
	spec  Spec
	turns int
}

func newTouch(b *Batch, spec Spec) *touch {
	n := b.Tokens()
	return &touch{b: b, spec: spec, out: Result{
		Advantages: make([]float32, n), Returns: make([]float32, n),
		ValueMask: make([]bool, n), TurnID: make([]int32, n),
	}}
}

func (p *touch) do() {
	r, v, m := p.b.Rewards, p.b.Rewards, p.b.Loss
	if p.spec.Critic {
		v = p.b.Values
	}
	adv, ret := p.out.Advantages, p.out.Returns
	v, adv, ret, m = v[:len(r)], adv[:len(r)], ret[:len(r)], m[:len(r)]
	for t := range r {
		x := r[t] - v[t]
		if !m[t] {
			x = 0
		}
		adv[t], ret[t] = x, x+v[t]
	}
	if p.spec.TurnEnds {
		for _, end := range p.b.TurnEnd {
			if end {
				p.turns++
			}
		}
	}
	if p.spec.TurnIDs {
		clear(p.out.TurnID)
	}
	if p.spec.ValueMask {
		clear(p.out.ValueMask)
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
		pass.do()
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
