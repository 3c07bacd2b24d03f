package vlm

import (
	"context"

	"vagen/policy"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/model"
)

// call is one call of Generate on the device.
//
// Each session whose conversations take part reads their contexts as a whole. Its
// rows then decode in place, all of them, whether they have ended or not. When so
// many have ended that a smaller batch pays, the caches of the others are copied
// into one and they go on there; when rows of another session wait, they join. What
// is written elsewhere is brought home by the end of the call.
//
// What is done when depends on the order of the requests and on tokens alone,
// never on time, so that a run can be repeated.
type call struct {
	net          *net
	w            *parts
	sampler      model.Sampler
	params       *device.Array
	end          []int32 // tokens that end a response
	recentTokens int     // length of recent stretches
	maxRows      int     // in one batch
	fixed        int     // what a step takes beside its rows, in rows: reading the weights
}

// newCall readies a call; free ends it.
func newCall(n *net, w *parts, o policy.Sampling, end []int32, maxRows int) (*call, error) {
	c := &call{net: n, w: w, end: end, recentTokens: 32, maxRows: maxRows, fixed: stepCost(n.dev)}
	c.sampler = model.Sampler{Greedy: o.Temperature == 0, TopK: o.TopK > 0, TopP: o.TopP > 0 && o.TopP < 1, MinP: o.MinP > 0}
	params := make([]float32, model.SampleParams)
	params[model.SampleTemperature] = float32(o.Temperature)
	if c.sampler.Greedy {
		params[model.SampleTemperature] = 1
	}
	params[model.SampleTopK], params[model.SampleTopP], params[model.SampleMinP] = float32(o.TopK), float32(o.TopP), float32(o.MinP)
	var err error
	c.params, err = device.Put(n.dev, params)
	return c, err
}

func (c *call) free() { c.params.Free() }

// stepCost is the part of a decoding step that does not depend on the rows, as
// so many rows. With a 135M model on a CPU, 1, 8 and 32 rows take 18, 31 and 135
// ms, which would make it 4; smaller models have more of it. On an H100, 1, 32 and
// 128 rows take 5.0, 4.9 and 6.1.
func stepCost(d *device.Device) int {
	if d.Accelerator() {
		return 512
	}
	return 8
}

// fly makes a flight in a session, without rows.
func (c *call) fly(s *session) *flight {
	return &flight{call: c, session: s, seats: make([]*seat, len(s.rows))}
}

// left is the most tokens that a row of the flight may still write.
func (f *flight) left() int {
	most := 0
	for _, row := range f.live() {
		most = max(most, f.seats[row].max-len(f.seats[row].reply.tokens))
	}
	return most
}

// expected guesses how long a flight will last: as long again as its rows have
// written, for most end early; half of what they may, when they have not begun.
func (f *flight) expected() int {
	age := 0
	for _, row := range f.live() {
		age = max(age, len(f.seats[row].reply.tokens))
	}
	if age == 0 {
		return f.left() / 2
	}
	return min(f.left(), age)
}

func (c *call) cost(rows int) int { return c.fixed + rows }

// switchSteps is what rows have to gain by going on in another batch, in steps of
// that batch: caches are copied, and the first time programs are compiled. Responses
// of some twenty tokens are over before it pays.
const switchSteps = 10

// narrows reports whether the live rows of a flight should go on alone.
func (c *call) narrows(f *flight) bool {
	to := rowBucket(len(f.live()))
	return 2*to <= len(f.rows) && f.expected()*(c.cost(len(f.rows))-c.cost(to)) >= switchSteps*c.cost(len(f.rows))
}

// boarding returns how many of the waiting flights, from the first on, should go
// on together with f, which may be nil. What they gain is that the fixed part of
// a step is shared and places that have become free are used.
func (c *call) boarding(f *flight, waiting []*flight) int {
	if len(waiting) == 0 {
		return 0
	}
	first := f
	least := 0
	if f == nil {
		first, least = waiting[0], 1
	}
	best, most := least, 0
	rows, apart, steps := len(first.live()), c.cost(len(first.rows)), first.expected()
	for n := least; n < len(waiting); n++ {
		w := waiting[n]
		rows, apart, steps = rows+len(w.live()), apart+c.cost(len(w.rows)), min(steps, w.expected())
		if rows > c.maxRows {
			break
		}
		together := c.cost(rowBucket(rows))
		if gain := steps * (apart - together); gain > most && gain >= switchSteps*together {
			best, most = n+1, gain
		}
	}
	return best
}

// run reads the contexts of flights that are at home and samples the responses.
func (c *call) run(ctx context.Context, waiting []*flight) error {
	longest := 0
	for _, f := range waiting {
		longest = max(longest, f.left())
	}
	c.recentTokens = max(8, (min(longest, c.recentTokens)+7)/8*8)
	var f *flight
	defer func() { f.drop() }()
	for f != nil || len(waiting) > 0 {
		n := c.boarding(f, waiting)
		next, err := c.board(ctx, f, waiting[:n])
		f, waiting = next, waiting[n:]
		if err != nil {
			return err
		}
		if f == nil {
			continue // one token was enough
		}
		if err := f.step(ctx); err != nil {
			return err
		}
		if len(f.live()) == 0 {
			last := f
			f = nil
			if err := last.land(); err != nil {
				return err
			}
		}
	}
	return nil
}

// board reads the contexts of the new flights and returns the flight of the rows
// that go on: f, which may be nil, or another one that takes its place.
func (c *call) board(ctx context.Context, f *flight, new []*flight) (*flight, error) {
	var all []*flight
	if f != nil {
		all = append(all, f)
	}
	for _, g := range new {
		if err := g.read(ctx); err != nil {
			return f, err
		}
		if len(g.live()) > 0 {
			all = append(all, g)
		}
	}
	switch {
	case len(all) == 0:
		return nil, nil
	case len(all) > 1 || c.narrows(all[0]):
		return regroup(all...)
	}
	return all[0], nil
}
