package advantage

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// scratch is memory that calls reuse, and the worker pool for rows.
type scratch struct {
	parts []Moments  // of the advantages, one per row
	ones  []bool     // all true
	slots [slots]any // pass values, see slot
	pool  workerPool

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

// fail records a row's error. The error of the lowest row is kept, so that the result does
// not depend on timing.
func (s *scratch) fail(row int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.problem == nil || row < s.badRow {
		s.badRow, s.problem = row, err
	}
}

// pass is one step of an estimator over independent items, usually rows. It must not read
// what the pass over another item writes.
type pass interface {
	do(from, to int)
}

// The slots. Passes of one estimator use different slots; in a shared slot each would be
// allocated again in every call.
const (
	mainSlot = iota
	secondSlot
	whitenSlot
	slots
)

// slot returns the value of type P in slot i, which it creates on first use. It is on the
// heap, so that sharing it with goroutines does not allocate in every call.
func slot[P any](s *scratch, i int) *P {
	if p, ok := s.slots[i].(*P); ok {
		return p
	}
	p := new(P)
	s.slots[i] = p
	return p
}

// each runs the pass over n items, which have the given number of tokens in total, and
// returns the error of the lowest item.
func (s *scratch) each(p pass, n, tokens int) error {
	s.pool.run(p, n, tokens)
	return s.problem
}

// tokensPerWorker is the smallest number of tokens for which another goroutine is used.
const tokensPerWorker = 1 << 15

// workerPool runs a pass on several goroutines, which end with the run.
type workerPool struct {
	work    pass
	n       int
	block   int
	next    atomic.Int64
	running sync.WaitGroup
	member  func() // stored, because starting a stored function does not allocate
}

func (c *workerPool) run(p pass, n, tokens int) {
	workers := min(runtime.GOMAXPROCS(0), tokens/tokensPerWorker, n)
	if workers <= 1 {
		p.do(0, n)
		return
	}
	if c.member == nil {
		c.member = func() {
			defer c.running.Done()
			c.processBlocks()
		}
	}
	c.work, c.n = p, n
	c.block = max(1, n/(8*workers)) // small, to balance rows of different length
	c.next.Store(0)
	c.running.Add(workers - 1)
	for range workers - 1 {
		go c.member()
	}
	c.processBlocks()
	c.running.Wait()
	c.work = nil
}

// processBlocks processes blocks until none is left.
func (c *workerPool) processBlocks() {
	for {
		to := int(c.next.Add(int64(c.block)))
		from := to - c.block
		if from >= c.n {
			return
		}
		c.work.do(from, min(to, c.n))
	}
}
