package chat

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"vagen/internal/transport"
	"vagen/policy"
)

// job is one prompt of a call.
type job struct {
	prompt    policy.Prompt
	chat      *conversation
	limit     int // longest response
	additions additions
	images    int64 // in the whole conversation
	body      []byte
	estimate  tokens
	answer    *answer
	err       error // error of this conversation
}

// Generate implements policy.Policy. Requests are admitted in the order of the
// prompts and wait for a free slot, for the limits per minute and for the budget.
// All have returned when Generate returns. Each prompt's last message must be the
// user's. Its StopStrings, unlike those of the sampling, are not sent: they cut the answer.
func (m *Model) Generate(ctx context.Context, prompts []policy.Prompt, s policy.Sampling) ([]policy.Completion, error) {
	if m.http == nil {
		return nil, errZero
	}
	if err := m.dialect.check(s); err != nil {
		return nil, fmt.Errorf("chat: %w", err)
	}
	for _, stop := range s.StopStrings {
		if !slices.Contains(m.o.Stop, stop) {
			return nil, fmt.Errorf("chat: %w: stop string %q is not in Options.Stop, only those are allowed",
				policy.ErrSampling, stop)
		}
	}
	jobs, err := m.begin(prompts, s)
	if err != nil {
		return nil, err
	}
	defer m.end(jobs)
	if err := m.run(ctx, jobs, s); err != nil {
		return nil, err
	}
	out := make([]policy.Completion, len(jobs))
	for i, j := range jobs {
		out[i] = m.complete(j)
	}
	return out, nil
}

// begin checks the prompts and locks their conversations.
func (m *Model) begin(prompts []policy.Prompt, s policy.Sampling) ([]*job, error) {
	limits, err := s.Limits(prompts)
	if err != nil {
		return nil, fmt.Errorf("chat: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	jobs := make([]*job, len(prompts))
	for i, p := range prompts {
		c := m.chats[p.Conversation]
		if c == nil {
			c = &conversation{}
		}
		if c.busy {
			return nil, fmt.Errorf("chat: prompt %d: conversation %d is in use by another call", i, p.Conversation)
		}
		if err := checkRoles(c.opens(), p.Messages); err != nil {
			return nil, fmt.Errorf("chat: prompt %d: %w", i, err)
		}
		jobs[i] = &job{prompt: p, chat: c, limit: limits[i]}
	}
	for _, j := range jobs {
		j.chat.busy = true
		m.chats[j.prompt.Conversation] = j.chat
	}
	return jobs, nil
}

// end unlocks the conversations. Empty ones are deleted.
func (m *Model) end(jobs []*job) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, j := range jobs {
		j.chat.busy = false
		if key := j.prompt.Conversation; j.chat.opens() && m.chats[key] == j.chat {
			delete(m.chats, key)
		}
	}
}

// run sends all requests. It returns only errors of the whole call.
func (m *Model) run(ctx context.Context, jobs []*job, s policy.Sampling) error {
	run, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for _, j := range jobs {
		if err := m.prepare(j, s); err != nil {
			j.err = fmt.Errorf("chat: conversation %d: %w: %w", j.prompt.Conversation, err, policy.ErrMessages)
			m.ledger.failed()
			continue
		}
		start, err := m.waitForSlot(run, j)
		if err != nil {
			cancel(err)
			break
		}
		wg.Go(func() {
			defer func() { <-m.slots }()
			if err := m.sendWithRetries(run, j, start); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("chat: %w", context.Cause(ctx))
	case run.Err() != nil:
		return context.Cause(run)
	}
	return nil
}

// waitForSlot waits until a job has a slot and may be sent.
func (m *Model) waitForSlot(ctx context.Context, j *job) (*event, error) {
	select {
	case m.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	start, err := m.admit(ctx, j.estimate)
	if err != nil {
		<-m.slots
	}
	return start, err
}

// admit waits for the budget and the limits per minute.
func (m *Model) admit(ctx context.Context, estimate tokens) (*event, error) {
	if err := m.ledger.reserve(ctx, estimate); err != nil {
		return nil, err
	}
	start, err := m.pace.wait(ctx, estimate.prompt+estimate.completion)
	if err != nil {
		m.ledger.commit(estimate, tokens{}, unsent, 0, false)
	}
	return start, err
}

// prepare encodes a job's request.
func (m *Model) prepare(j *job, s policy.Sampling) error {
	var err error
	if j.additions, err = m.read(slices.Concat(j.chat.unanswered, j.prompt.Messages)); err != nil {
		return err
	}
	system := j.chat.system
	if len(j.additions.system) > 0 {
		system = j.additions.system
	}
	seed := j.prompt.Seed
	q := request{
		model: m.o.Model, system: system, messages: slices.Concat(j.chat.messages, j.additions.messages), extra: m.o.Extra,
		params: m.dialect.nest(m.dialect.params(&m.o, sampling{
			temperature: s.Temperature, topP: s.TopP, topK: s.TopK, minP: s.MinP, limit: j.limit,
			seed: int64((seed ^ seed>>32) & (1<<31 - 1)), // 31 bits, which every service accepts
		})),
	}
	j.images = j.chat.images + j.additions.images
	j.estimate = m.ledger.estimate(j.chat.tokens+j.additions.tokens, int64(j.limit))
	j.body, err = m.api.body(&q)
	return err
}

// complete converts an answer to a completion and adds it to the conversation.
func (m *Model) complete(j *job) policy.Completion {
	a := j.answer
	switch {
	case j.err != nil:
		return policy.Completion{Err: j.err}
	case a.stop == policy.StopFilter && strings.TrimSpace(a.text) == "":
		return policy.Completion{
			Stop: policy.StopFilter,
			Err: fmt.Errorf("chat: conversation %d: %w: %w: %s", j.prompt.Conversation, policy.ErrMessages, ErrRefused,
				transport.Clip(m.key.hide(a.refusal), 200)),
		}
	}
	a.text = m.key.strip(a.text)
	for _, stop := range j.prompt.StopStrings {
		if before, _, found := strings.Cut(a.text, stop); found {
			a.text, a.stop, a.logProbs = before+stop, policy.StopString, nil
		}
	}
	m.accept(j.chat, j.prompt.Messages, j.additions, a) // without the reasoning, which services do not read again
	c := policy.Completion{Text: a.text, Reasoning: m.key.strip(a.reasoning), LogProbs: a.logProbs, Stop: a.stop}
	if c.Reasoning == "" && !strings.HasPrefix(strings.TrimSpace(c.Text), strings.TrimSpace(m.o.Opened)) {
		c.Text = m.o.Opened + c.Text
	}
	if a.counted {
		c.Usage = policy.Usage{PromptTokens: a.used.prompt, CompletionTokens: a.used.completion,
			Cost: m.ledger.price.cost(a.used)}
	}
	return c
}
