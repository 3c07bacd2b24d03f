package generate

import (
	"context"
	"fmt"
	"slices"

	"vagen/policy"
)

// Batcher decodes the responses of calls that overlap in time. Rows join those that decode already, and a call is
// answered when its own responses are complete, whatever the others still write.
//
// Each conversation has a session of one row, into which its contexts are read. A row that decodes is in the batcher's
// batch, and its session has no prefix meanwhile. Which rows share a batch depends on the time at which calls arrive,
// so that log-probs repeat up to rounding only.
type Batcher struct {
	g       *Generator
	c       *Scheduler      // nil before the first call
	sampled policy.Sampling // of c
	waiting []*Call         // that have not begun
	calls   []*Call         // that have begun and are not answered
	queue   []*DecodeBatch  // their rows whose contexts have not been read
	batch   *DecodeBatch    // the rows that decode; nil if there are none
	ended   []uint64        // conversations to forget after their calls
}

// Call is a call of Generate that a batcher answers.
type Call struct {
	Context  context.Context
	Prompts  []policy.Prompt
	Sampling policy.Sampling
	Watch    func(prompt int, token int32)            // as in Stream; may be nil
	Done     func(out []policy.Completion, err error) // is called once, between two tokens

	turns     []*Turn
	sequences []*Sequence // by prompt; nil where there is none to wait for
}

// NewBatcher returns a batcher without calls, of a generator with Settings.Continuous. Close ends it.
func (g *Generator) NewBatcher() *Batcher { return &Batcher{g: g} }

// Add adds a call, which begins with the next Step.
func (f *Batcher) Add(c *Call) { f.waiting = append(f.waiting, c) }

// Idle reports whether every call has been answered.
func (f *Batcher) Idle() bool { return len(f.waiting)+len(f.calls) == 0 }

// Close frees what the batcher holds apart from its conversations. f may be nil.
func (f *Batcher) Close() {
	if f == nil {
		return
	}
	f.empty()
	if f.c != nil {
		f.c.Free()
		f.c = nil
	}
}

// empty frees the batch.
func (f *Batcher) empty() {
	if f.batch != nil {
		f.batch.release()
		f.batch.Free()
		f.batch = nil
	}
}

// Step begins waiting calls, reads the contexts for which there is room, and decodes a token of each row.
func (f *Batcher) Step() {
	f.cancel()
	for len(f.waiting) > 0 && (len(f.calls) == 0 || f.fits(f.waiting[0])) {
		c := f.waiting[0]
		f.waiting = f.waiting[1:]
		if err := f.begin(c); err != nil {
			c.Done(nil, err)
			continue
		}
		f.calls = append(f.calls, c)
	}
	if err := f.decode(); err != nil { // the device failed: caches may be partly written
		f.empty()
		f.queue = nil
		for _, c := range f.calls {
			f.g.endConversations(c.Prompts)
			c.Done(nil, err)
		}
		f.calls = nil
	}
	f.answer()
}

// decode is the part of Step that uses the device.
func (f *Batcher) decode() error {
	err := f.admit()
	if err == nil && f.batch != nil {
		err = f.batch.step(context.Background(), func() bool { return false })
	}
	if err == nil {
		err = f.writeBack()
	}
	return err
}

// fits reports whether a call can decode beside the present ones: its tokens are drawn alike, and it continues none of
// their conversations.
func (f *Batcher) fits(c *Call) bool {
	s, t := c.Sampling, f.sampled
	return s.Temperature == t.Temperature && s.TopK == t.TopK && s.TopP == t.TopP && s.MinP == t.MinP &&
		!slices.ContainsFunc(c.Prompts, func(p policy.Prompt) bool { return f.has(p.Conversation) })
}

// has reports whether a present call continues a conversation.
func (f *Batcher) has(key uint64) bool {
	return slices.ContainsFunc(f.calls, func(c *Call) bool {
		return slices.ContainsFunc(c.Prompts, func(p policy.Prompt) bool { return p.Conversation == key })
	})
}

// Forget is Generator.Forget. Conversations of calls that are not answered end after these.
func (f *Batcher) Forget(keys ...uint64) {
	for _, key := range keys {
		if f.has(key) {
			f.ended = append(f.ended, key)
		} else {
			f.g.Forget(key)
		}
	}
}

// cancel answers calls whose context has ended, and ends the conversations of those that have begun.
func (f *Batcher) cancel() {
	for _, calls := range []*[]*Call{&f.waiting, &f.calls} {
		*calls = slices.DeleteFunc(*calls, func(c *Call) bool {
			if c.Context.Err() == nil {
				return false
			}
			if c.sequences != nil {
				f.remove(c)
				f.g.endConversations(c.Prompts)
			}
			c.Done(nil, c.Context.Err())
			return true
		})
	}
}

// remove takes the rows of a call out of the queue and the batch.
func (f *Batcher) remove(c *Call) {
	f.queue = slices.DeleteFunc(f.queue, func(b *DecodeBatch) bool {
		return slices.Contains(c.sequences, b.Sequences[0])
	})
	if f.batch == nil {
		return
	}
	for row, p := range f.batch.Sequences {
		if p != nil && slices.Contains(c.sequences, p) {
			f.batch.Sequences[row] = nil
		}
	}
	if len(f.batch.unfinished()) == 0 {
		f.empty()
	}
}

// begin reads the prompts of a call and queues their rows.
func (f *Batcher) begin(c *Call) (err error) {
	g := f.g
	if err := c.Sampling.Check(); err != nil {
		return fmt.Errorf("vlm: %w", err)
	}
	if f.c == nil || !f.fits(c) { // no call is present
		f.Close()
		var made []*Scheduler
		if f.c, err = g.schedulerOf(&made, 0, c.Sampling); err != nil {
			return err
		}
		f.sampled = c.Sampling
	}
	if c.turns, err = g.open(c.Prompts, c.Sampling); err != nil {
		return err
	}
	c.sequences = make([]*Sequence, len(c.Prompts))
	for i, p := range c.Prompts {
		if c.turns[i].refused != nil {
			continue
		}
		b := f.c.NewDecodeBatch(g.Chats[p.Conversation].Batch)
		c.sequences[i] = b.assign(0, c.turns[i], i, c.Watch)
		f.queue = append(f.queue, b)
	}
	return nil
}

// answer answers the calls whose responses are complete.
func (f *Batcher) answer() {
	f.calls = slices.DeleteFunc(f.calls, func(c *Call) bool {
		if slices.ContainsFunc(c.sequences, func(p *Sequence) bool { return p != nil && !p.ended() }) {
			return false
		}
		c.Done(f.g.completions(c.Prompts, c.turns, c.sequences), nil)
		return true
	})
	ended := f.ended
	f.ended = nil
	f.Forget(ended...)
	if f.c != nil {
		f.g.learnFrom([]*Scheduler{f.c})
		f.c.fed, f.c.passes = 0, 0
	}
}
