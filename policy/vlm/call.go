package vlm

import (
	"context"
	"fmt"

	"vagen/policy"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/model"
)

// call is one call of Generate on the device.
//
// Each session with requests reads all their contexts at once. Its rows then decode in
// place, including rows that have ended. When so many have ended that a smaller batch is
// worth its cost, the caches of the unfinished rows are copied to a smaller decode batch;
// waiting rows of other sessions can join it. At the end of the call, keys and values are
// copied back to the sessions.
//
// The schedule depends only on the order of the requests and on the tokens, never on
// time, so that a run can be repeated.
type call struct {
	leaf          int            // of its sessions
	waiting       []*decodeBatch // the sessions with requests
	net           *net
	w             *parts
	sampler       model.Sampler
	params        *device.Array
	end           []int32 // tokens that end a response
	recentTokens  int     // length of the recent segments, a multiple of maxTokensPerCall
	tokensPerCall int     // tokens that a program makes
	maxRows       int     // in one batch
	fixed         int     // cost of a step that does not depend on its rows (reading the weights), in rows
}

// newCall starts a call; free ends it.
func newCall(n *net, w *parts, s policy.Sampling, end []int32, o *Options) (*call, error) {
	c := &call{net: n, w: w, end: end, recentTokens: 32, tokensPerCall: o.tokensPerCall(n), maxRows: o.MaxRows, fixed: stepCost(n.dev)}
	c.sampler = model.Sampler{Greedy: s.Temperature == 0, TopK: s.TopK > 0, TopP: s.TopP > 0 && s.TopP < 1, MinP: s.MinP > 0}
	params := make([]float32, model.SampleParams)
	params[model.SampleTemperature] = float32(s.Temperature)
	if c.sampler.Greedy {
		params[model.SampleTemperature] = 1
	}
	params[model.SampleTopK], params[model.SampleTopP], params[model.SampleMinP] = float32(s.TopK), float32(s.TopP), float32(s.MinP)
	var err error
	c.params, err = device.Put(n.dev, params)
	return c, err
}

func (c *call) free() { c.params.Free() }

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

// checkStates refuses several tokens per program where the cache has states.
func (o *Options) checkStates(n *net) error {
	if o.TokensPerCall > 1 && len(n.states()) > 0 {
		return fmt.Errorf("vlm: %w: TokensPerCall is %d, must be 0 or 1 for a model whose layers keep a state", ErrOption, o.TokensPerCall)
	}
	return nil
}

func (o *Options) checkTokensPerCall() error {
	if n := o.TokensPerCall; n < 0 || n > 0 && maxTokensPerCall%n != 0 {
		return fmt.Errorf("TokensPerCall is %d, must be 0, 1, 2, 4 or %d", n, maxTokensPerCall)
	}
	return nil
}

// tokensPerCall is the number of tokens that a program makes. On accelerators, the launch of
// a program with hundreds of inputs and the wait for its result take longer than a small
// batch's step. On CPUs 8 tokens per program halve the time per token of a model with half
// a million parameters and up to 8 rows, but change little with 128 rows or 135 million
// parameters, where up to 7 tokens for nothing cost more. A cache with states allows one only:
// a state cannot be cut back when a row has ended before the last token.
func (o *Options) tokensPerCall(n *net) int {
	switch {
	case o.TokensPerCall > 0:
		return o.TokensPerCall
	case n.dev.Accelerator() && len(n.states()) == 0:
		return maxTokensPerCall
	}
	return 1
}

// newDecodeBatch returns a decode batch for a session, without requests.
func (c *call) newDecodeBatch(s *session) *decodeBatch {
	return &decodeBatch{call: c, session: s, sequences: make([]*sequence, len(s.rows))}
}

// maxRemaining is the largest number of tokens that a row of the batch may still write.
func (f *decodeBatch) maxRemaining() int {
	most := 0
	for _, row := range f.unfinished() {
		most = max(most, f.sequences[row].max-len(f.sequences[row].reply.tokens))
	}
	return most
}

// expectedSteps estimates the remaining steps: as many as the rows have already written,
// because most end early; before the first token, half of the maximum.
func (f *decodeBatch) expectedSteps() int {
	age := 0
	for _, row := range f.unfinished() {
		age = max(age, len(f.sequences[row].reply.tokens))
	}
	if age == 0 {
		return f.maxRemaining() / 2
	}
	return min(f.maxRemaining(), age)
}

func (c *call) cost(rows int) int { return c.fixed + rows }

// switchSteps is the minimal gain of moving rows to another batch, in steps of that batch:
// caches are copied and, the first time, programs are compiled. Responses of about twenty
// tokens end before it pays.
const switchSteps = 10

// shouldShrink reports whether the unfinished rows should move to a smaller batch.
func (c *call) shouldShrink(f *decodeBatch) bool {
	to := rowBucket(len(f.unfinished()))
	return 2*to <= len(f.rows) && f.expectedSteps()*(c.cost(len(f.rows))-c.cost(to)) >= switchSteps*c.cost(len(f.rows))
}

// countToMerge returns how many of the waiting batches, from the first on, should be merged
// with f, which may be nil. Merging shares the fixed cost of a step and uses free rows.
func (c *call) countToMerge(f *decodeBatch, waiting []*decodeBatch) int {
	if len(waiting) == 0 {
		return 0
	}
	first := f
	least := 0
	if f == nil {
		first, least = waiting[0], 1
	}
	best, most := least, 0
	rows, apart, steps := len(first.unfinished()), c.cost(len(first.rows)), first.expectedSteps()
	for n := least; n < len(waiting); n++ {
		w := waiting[n]
		rows, apart, steps = rows+len(w.unfinished()), apart+c.cost(len(w.rows)), min(steps, w.expectedSteps())
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

// run reads the contexts of all requests and samples the responses.
func (c *call) run(ctx context.Context, waiting []*decodeBatch) error {
	longest := 0
	for _, f := range waiting {
		longest = max(longest, f.maxRemaining())
	}
	c.recentTokens = max(maxTokensPerCall, (min(longest, c.recentTokens)+maxTokensPerCall-1)/maxTokensPerCall*maxTokensPerCall)
	var f *decodeBatch
	defer func() { f.release() }()
	for f != nil || len(waiting) > 0 {
		n := c.countToMerge(f, waiting)
		next, err := c.readAndMerge(ctx, f, waiting[:n])
		f, waiting = next, waiting[n:]
		if err != nil {
			return err
		}
		if f == nil {
			continue // all responses ended with their first token
		}
		if err := f.step(ctx, func() bool { return c.countToMerge(f, waiting) > 0 || c.shouldShrink(f) }); err != nil {
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
func (c *call) readAndMerge(ctx context.Context, f *decodeBatch, new []*decodeBatch) (*decodeBatch, error) {
	var all []*decodeBatch
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
	case len(all) > 1 || c.shouldShrink(all[0]):
		return regroup(all...)
	}
	return all[0], nil
}
