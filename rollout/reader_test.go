package rollout_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"

	"vagen/policy"
)

// reader is a policy without a model whose responses depend on every token and image that
// it has read and written in the conversation, and on the seed. A greedy one ignores the
// seed. Tokens are as the parrot's.
type reader struct {
	greedy bool

	mu      sync.Mutex
	read    map[uint64]*policy.Recorded
	started map[uint64]bool
}

func (r *reader) Generate(
	ctx context.Context, prompts []policy.Prompt, s policy.Sampling,
) ([]policy.Completion, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]policy.Completion, len(prompts))
	for i, p := range prompts {
		c := r.of(p.Conversation)
		if len(p.Messages) == 0 && len(c.Tokens) == 0 {
			return nil, fmt.Errorf("conversation %d has nothing to read", p.Conversation)
		}
		r.started[p.Conversation] = true
		context, images := read(p.Messages)
		c.Tokens, c.Images = slices.Concat(c.Tokens, context), slices.Concat(c.Images, images)
		h := fnv.New64()
		fmt.Fprint(h, c.Tokens)
		for _, im := range c.Images {
			fmt.Fprint(h, im.Hash)
		}
		if !r.greedy {
			fmt.Fprint(h, p.Seed)
		}
		p.Seed, p.Messages = h.Sum64(), nil
		out[i] = complete(p, s)
		out[i].Context, out[i].Images = context, images
		c.Tokens = slices.Concat(c.Tokens, out[i].Tokens)
	}
	return out, ctx.Err()
}

func (r *reader) of(key uint64) *policy.Recorded {
	if r.read == nil {
		r.read, r.started = map[uint64]*policy.Recorded{}, map[uint64]bool{}
	}
	if r.read[key] == nil {
		r.read[key] = &policy.Recorded{}
	}
	return r.read[key]
}

// Resume implements policy.Resumer.
func (r *reader) Resume(conversations ...policy.Recorded) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range conversations {
		if r.started[c.Conversation] {
			return errors.New("the conversation is open")
		}
		*r.of(c.Conversation) = c
	}
	return nil
}

func (r *reader) Forget(keys ...uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, key := range keys {
		delete(r.read, key)
	}
}

// Count implements policy.Counter.
func (r *reader) Count(p policy.Prompt) (int, error) {
	tokens, _ := read(p.Messages)
	return len(tokens), nil
}
