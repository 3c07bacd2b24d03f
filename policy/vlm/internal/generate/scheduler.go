package generate

import (
	"context"
	"fmt"

	"vagen/policy"
	"vagen/policy/vlm/internal/backend"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/net"
)

// Scheduler decides which rows of one call of Generate decode together on a device.
//
// Each session with requests reads all their contexts at once. Its rows then decode in
// place, including rows that have ended. When so many have ended that a smaller batch is
// worth its cost, the caches of the unfinished rows are copied to a smaller decode batch;
// waiting rows of other sessions can join it. At the end of the call, keys and values are
// copied back to the sessions.
//
// The schedule depends only on the order of the requests and on the tokens, never on
// time, so that a run can be repeated.
type Scheduler struct {
	leaf         int            // of its sessions
	waiting      []*DecodeBatch // the sessions with requests
	net          Programs
	w            *net.Parts // with which contexts are read
	decoding     *net.Parts // with which tokens are decoded
	sampler      model.Sampler
	params       *device.Array
	end          []int32 // tokens that end a response
	RecentTokens int     // length of the recent segments, a multiple of maxTokensPerCall
	heard        []int32 // text of other conversations, for guesses
	fed, passes  int     // decoded tokens, and for how many rows there was a pass
	Fixed        int     // cost of a step that does not depend on its rows (reading the weights), in rows
	Settings             // with the TokensPerCall that was chosen
}

// NewScheduler starts a call; Free ends it.
func NewScheduler(n Programs, w *net.Parts, s policy.Sampling, end []int32, o *Settings) (*Scheduler, error) {
	c := &Scheduler{net: n, w: w, decoding: w, end: end, RecentTokens: 32, Fixed: stepCost(n.Dev), Settings: *o}
	c.TokensPerCall = TokensPerCall(o.TokensPerCall, n)
	c.sampler = model.Sampler{Greedy: s.Temperature == 0, TopK: s.TopK > 0, TopP: s.TopP > 0 && s.TopP < 1,
		MinP: s.MinP > 0}
	params := make([]float32, model.SampleParams)
	params[model.SampleTemperature] = float32(s.Temperature)
	if c.sampler.Greedy {
		params[model.SampleTemperature] = 1
	}
	params[model.SampleTopK], params[model.SampleTopP], params[model.SampleMinP] = float32(s.TopK), float32(s.TopP),
		float32(s.MinP)
	var err error
	c.params, err = device.Put(n.Dev, params)
	return c, err
}

func (c *Scheduler) Free() { c.params.Free() }

// stepCost is the part of a decoding step's time that does not depend on the rows, in
// rows. With a 135M model on a CPU, 1, 8 and 32 rows take 18, 31 and 135 ms, which gives
// 4; smaller models have a larger part. On an H100, 1, 32 and 128 rows take 5.0, 4.9 and
// 6.1.
func stepCost(d *device.Device) int {
	if d.Accelerator() {
		return 512
	}
	return 8
}

// maxTokensPerCall is the largest TokensPerCall, a multiple of all others.
const maxTokensPerCall = 8

// CheckStates refuses several tokens per program for a model whose cache has states.
func CheckStates(tokensPerCall int, c *model.Config) error {
	if tokensPerCall > 1 && c.KeepsState() {
		return fmt.Errorf("vlm: %w: TokensPerCall is %d, must be 0 or 1 for a model whose layers keep a state",
			backend.ErrOption, tokensPerCall)
	}
	return nil
}

func CheckTokensPerCall(n int) error {
	if n < 0 || n > 0 && maxTokensPerCall%n != 0 {
		return fmt.Errorf("TokensPerCall is %d, must be 0, 1, 2, 4 or %d", n, maxTokensPerCall)
	}
	return nil
}

// TokensPerCall is the number of tokens that a program makes. On accelerators, the launch of
// a program with hundreds of inputs and the wait for its result take longer than a small
// batch's step. On CPUs 8 tokens per program halve the time per token of a model with half
// a million parameters and up to 8 rows, but change little with 128 rows or 135 million
// parameters, where up to 7 tokens for nothing cost more. A cache with states allows one only:
// a state cannot be cut back when a row has ended before the last token.
func TokensPerCall(want int, n Programs) int {
	switch {
	case want > 0:
		return want
	case n.Dev.Accelerator() && len(n.states()) == 0:
		return maxTokensPerCall
	}
	return 1
}

// NewDecodeBatch returns a decode batch for a session, without requests.
func (c *Scheduler) NewDecodeBatch(s *Session) *DecodeBatch {
	return &DecodeBatch{scheduler: c, Session: s, Sequences: make([]*Sequence, len(s.Rows))}
}

// maxRemaining is the largest number of tokens that a row of the batch may still write.
func (f *DecodeBatch) maxRemaining() int {
	most := 0
	for _, row := range f.unfinished() {
		most = max(most, f.Sequences[row].Max-len(f.Sequences[row].Reply.Tokens))
	}
	return most
}

// ExpectedSteps estimates the remaining steps: as many as the rows have already written,
// because most end early; before the first token, half of the maximum.
func (f *DecodeBatch) ExpectedSteps() int {
	age := 0
	for _, row := range f.unfinished() {
		age = max(age, len(f.Sequences[row].Reply.Tokens))
	}
	if age == 0 {
		return f.maxRemaining() / 2
	}
	return min(f.maxRemaining(), age)
}

func (c *Scheduler) cost(rows int) int { return c.Fixed + rows }

// switchSteps is the minimal gain of moving rows to another batch, in steps of that batch:
// caches are copied and, the first time, programs are compiled. Responses of about twenty
// tokens end before it pays.
const switchSteps = 10

// ShouldShrink reports whether the unfinished rows should move to a smaller batch.
func (c *Scheduler) ShouldShrink(f *DecodeBatch) bool {
	to := RowBucket(len(f.unfinished()))
	return 2*to <= len(f.Rows) && f.ExpectedSteps()*(c.cost(len(f.Rows))-c.cost(to)) >= switchSteps*c.cost(len(f.Rows))
}

// CountToMerge returns how many of the waiting batches, from the first on, should be merged
// with f, which may be nil. Merging shares the fixed cost of a step and uses free rows.
func (c *Scheduler) CountToMerge(f *DecodeBatch, waiting []*DecodeBatch) int {
	if len(waiting) == 0 {
		return 0
	}
	first := f
	least := 0
	if f == nil {
		first, least = waiting[0], 1
	}
	best, most := least, 0
	rows, apart, steps := len(first.unfinished()), c.cost(len(first.Rows)), first.ExpectedSteps()
	for n := least; n < len(waiting); n++ {
		w := waiting[n]
		rows, apart, steps = rows+len(w.unfinished()), apart+c.cost(len(w.Rows)), min(steps, w.ExpectedSteps())
		if rows > c.MaxRows {
			break
		}
		together := c.cost(RowBucket(rows))
		if gain := steps * (apart - together); gain > most && gain >= switchSteps*together {
			best, most = n+1, gain
		}
	}
	return best
}

// Run reads the contexts of all requests and samples the responses.
func (c *Scheduler) Run(ctx context.Context, waiting []*DecodeBatch) error {
	longest := 0
	for _, f := range waiting {
		longest = max(longest, f.maxRemaining())
	}
	c.RecentTokens = max(maxTokensPerCall,
		(min(longest, c.RecentTokens)+maxTokensPerCall-1)/maxTokensPerCall*maxTokensPerCall)
	var f *DecodeBatch
	defer func() { f.release() }()
	for f != nil || len(waiting) > 0 {
		n := c.CountToMerge(f, waiting)
		next, err := c.readAndMerge(ctx, f, waiting[:n])
		f, waiting = next, waiting[n:]
		if err != nil {
			return err
		}
		if f == nil {
			continue // all responses ended with their first token
		}
		if err := f.step(ctx, func() bool { return c.CountToMerge(f, waiting) > 0 || c.ShouldShrink(f) }); err != nil {
			return err
		}
		if len(f.unfinished()) == 0 {
			last := f
			f = nil
			if err := last.finish(); err != nil {
				return err
			}
		}
	}
	return nil
}

// readAndMerge reads the contexts of the new batches and returns the batch of all unfinished
// rows: f, which may be nil, or one that replaces it.
func (c *Scheduler) readAndMerge(ctx context.Context, f *DecodeBatch, new []*DecodeBatch) (*DecodeBatch, error) {
	var all []*DecodeBatch
	if f != nil {
		all = append(all, f)
	}
	for _, g := range new {
		if err := g.readContexts(ctx); err != nil {
			return f, err
		}
		if len(g.unfinished()) > 0 {
			all = append(all, g)
		}
	}
	switch {
	case len(all) == 0:
		return nil, nil
	case len(all) > 1 || c.ShouldShrink(all[0]):
		return regroup(all...)
	}
	return all[0], nil
}
