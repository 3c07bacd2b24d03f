package advantage

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// scratch is memory that calls reuse, and the crew that works on rows.
type scratch struct {
	parts []Moments  // of the advantages, one per row
	ones  []bool     // all true
	slots [slots]any // pass values, see slot
	crew  crew

	groups   groups
	episodes episodes
	scores   []float64 // one per row or episode
	perRow   []float64
	ids      []int // one per episode
	steps    steps

	mu      sync.Mutex
	badRow  int
	problem error
}

// begin prepares the scratch memory for a batch.
func (s *scratch) begin(rows int) {
	s.parts = resize(s.parts, rows)
	clear(s.parts)
	s.problem = nil
}

// allTrue returns a mask of n tokens, all true. It must not be written to.
func (s *scratch) allTrue(n int) []bool {
	for len(s.ones) < n {
		s.ones = append(s.ones, true)
	}
	return s.ones[:n]
}

// fail records a row's error. The error of the lowest row wins, so that which
// one is reported does not depend on who was faster.
func (s *scratch) fail(row int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.problem == nil || row < s.badRow {
		s.badRow, s.problem = row, err
	}
}

// pass is one step of an estimator over independent items, usually rows. It
// must not look at what another item's step writes.
type pass interface {
	do(from, to int)
}

// The slots. An estimator's passes take different ones: two that took turns in
// one slot would be made anew in every call.
const (
	mainSlot = iota
	secondSlot
	whitenSlot
	slots
)

// slot returns the value of type P that is kept under number i, made at its
// first use. Kept on the heap, it can be shared with other goroutines without
// allocating in every call.
func slot[P any](s *scratch, i int) *P {
	if p, ok := s.slots[i].(*P); ok {
		return p
	}
	p := new(P)
	s.slots[i] = p
	return p
}

// each runs the pass over n items that hold so many tokens together, and
// returns the lowest item's error.
func (s *scratch) each(p pass, n, tokens int) error {
	s.crew.run(p, n, tokens)
	return s.problem
}

// tokensPerWorker is the work that is worth a goroutine.
const tokensPerWorker = 1 << 15

// crew spreads a pass over goroutines. They live as long as one run.
type crew struct {
	work    pass
	n       int
	block   int
	next    atomic.Int64
	running sync.WaitGroup
	member  func() // built once: starting a stored function allocates nothing
}

func (c *crew) run(p pass, n, tokens int) {
	workers := min(runtime.GOMAXPROCS(0), tokens/tokensPerWorker, n)
	if workers <= 1 {
		p.do(0, n)
		return
	}
	if c.member == nil {
		c.member = func() {
			defer c.running.Done()
			c.toil()
		}
	}
	c.work, c.n = p, n
	c.block = max(1, n/(8*workers)) // small enough to even out ragged rows
	c.next.Store(0)
	c.running.Add(workers - 1)
	for range workers - 1 {
		go c.member()
	}
	c.toil()
	c.running.Wait()
	c.work = nil
}

// toil works on blocks until none is left.
func (c *crew) toil() {
	for {
		to := int(c.next.Add(int64(c.block)))
		from := to - c.block
		if from >= c.n {
			return
		}
		c.work.do(from, min(to, c.n))
	}
}
