package client

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"vagen/internal/unmade"
	"vagen/policy"
	"vagen/policy/chat"
)

// Batches asks a policy of this process: prompts that wait at the same time are one call of it, of at
// most a number of prompts. A prompt whose context has ended is left out; a call is cancelled
// when the contexts of all its prompts have ended.
type Batches struct {
	policy policy.Policy
	most   int

	calls sync.WaitGroup
	key   uint64 // of conversations; used by one call at a time

	mu    sync.Mutex
	queue []*question
	busy  bool
}

// question is a prompt that waits for its answer.
type question struct {
	ctx    context.Context
	prompt string
	answer policy.Completion
	err    error
	done   chan struct{}
}

// Complete is a judge.Completer.
func (b *Batches) Complete(ctx context.Context, prompts []string) (answers []string, errs []error, err error) {
	if b.policy == nil || b.most < 1 {
		return nil, nil, unmade.Error("client.Batches", "Over")
	}
	all := make([]*question, len(prompts))
	b.mu.Lock()
	for i, p := range prompts {
		all[i] = &question{ctx: ctx, prompt: p, done: make(chan struct{})}
	}
	b.queue = append(b.queue, all...)
	if !b.busy {
		b.busy = true
		b.calls.Go(b.run)
	}
	b.mu.Unlock()
	answers, errs = make([]string, len(all)), make([]error, len(all))
	meter, _ := meterOf(ctx)
	for i, q := range all {
		select {
		case <-q.done:
			answers[i], errs[i] = q.answer.Text, q.err
			meter.add(Usage{PromptTokens: int64(len(q.answer.Context)), CompletionTokens: int64(len(q.answer.Tokens))})
		case <-ctx.Done():
			errs[i] = context.Cause(ctx)
		}
	}
	return answers, errs, nil
}

// Close waits for the end of a running call, which ends when those who asked no longer wait.
func (b *Batches) Close() { b.calls.Wait() }

// run calls the policy until no prompt waits.
func (b *Batches) run() {
	for {
		b.mu.Lock()
		var batch []*question
		for len(b.queue) > 0 && len(batch) < b.most {
			if b.queue[0].ctx.Err() == nil {
				batch = append(batch, b.queue[0])
			}
			b.queue = b.queue[1:]
		}
		b.busy = len(batch) > 0
		b.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		b.ask(batch)
	}
}

// ask answers some questions.
func (b *Batches) ask(batch []*question) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var waiting atomic.Int64
	waiting.Store(int64(len(batch)))
	prompts, keys := make([]policy.Prompt, len(batch)), make([]uint64, len(batch))
	for i, q := range batch {
		defer context.AfterFunc(q.ctx, func() {
			if waiting.Add(-1) == 0 {
				cancel()
			}
		})()
		b.key++
		keys[i] = b.key
		prompts[i] = policy.Prompt{Conversation: b.key, Messages: []policy.Message{{Role: policy.User, Text: q.prompt}}}
	}
	out, err := b.policy.Generate(ctx, prompts, sampling)
	b.policy.Forget(keys...)
	if err == nil && len(out) != len(batch) {
		err = fmt.Errorf("%d answers to %d prompts", len(out), len(batch))
	}
	for i, q := range batch {
		if q.err = err; err != nil {
			q.err = fmt.Errorf("client: %w: %w", chat.ErrServer, err)
		} else {
			q.answer, q.err = out[i], out[i].Err
		}
		close(q.done)
	}
}
