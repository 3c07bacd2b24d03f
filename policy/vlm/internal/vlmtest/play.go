package vlmtest

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/loss"
	"vagen/policy/vlm/internal/learn"
	"vagen/policy/vlm/internal/net"
)

// Asks are four prompts: short, long, with an image, with two.
func Asks() []policy.Prompt {
	return []policy.Prompt{
		{Conversation: 1, Messages: Say("go left"), Seed: 11},
		{Conversation: 2, Messages: Say("look <image> and <image>", Drawing(1, 24, 16), Drawing(2, 8, 8)), Seed: 12},
		{Conversation: 3, Messages: Say("where is the goal, and what is in the box?"), Seed: 13},
		{Conversation: 4, Messages: Say("<image>", Drawing(3, 16, 16)), Seed: 14},
	}
}

// KeysOf are the conversations of prompts.
func KeysOf(prompts []policy.Prompt) (keys []uint64) {
	for _, p := range prompts {
		keys = append(keys, p.Conversation)
	}
	return keys
}

// Ask generates for prompts in one call after another, forgets, and returns the
// completions by conversation.
func Ask(t testing.TB, m policy.Policy, o policy.Sampling, calls ...[]policy.Prompt) map[uint64]policy.Completion {
	t.Helper()
	out := map[uint64]policy.Completion{}
	for _, prompts := range calls {
		got, err := m.Generate(t.Context(), prompts, o)
		require.NoError(t, err)
		for i, p := range prompts {
			require.NoError(t, got[i].Err)
			out[p.Conversation] = got[i]
		}
	}
	for key := range out {
		m.Forget(key)
	}
	return out
}

// PlayOn continues conversations of different lengths in turns, some of them paused:
// caches grow, have gaps, and contain a response that is longer than their recent
// segment.
func PlayOn(t testing.TB, m policy.Policy, images bool, o policy.Sampling) Stories {
	t.Helper()
	prompt := func(key uint64, limit int, text string, size int) policy.Prompt {
		p := policy.Prompt{Conversation: key, Seed: 100*key + uint64(limit), MaxTokens: limit, Messages: Say(text)}
		if size > 0 && images {
			p.Messages = Say(text+"<image>", Drawing(key+uint64(limit), size, 8))
		}
		return p
	}
	played := Stories{}
	for _, round := range [][]policy.Prompt{
		{prompt(1, 5, "left", 0), prompt(2, 9, "go to the goal and then ", 16), prompt(3, 2, "box?", 8)},
		{prompt(3, 41, "right of the box there is", 8), prompt(1, 7, "on", 0)},
		{prompt(4, 3, "new", 0), prompt(2, 3, "and", 0), prompt(1, 6, "once more ", 24), prompt(3, 4, "end", 0)},
	} {
		for _, c := range played.Play(t, m, round, o) {
			require.NoError(t, c.Err)
		}
	}
	return played
}

// Train takes n steps with policy, critic and all terms.
func (p *Model) Train(t testing.TB, n int) {
	t.Helper()
	rows, want := p.FourRows(t)
	b := &policy.Batch{Rows: rows, Weight: Evenly(want), Advantages: make([]float32, len(want)),
		OldLogProbs: make([]float32, len(want))}
	o := policy.Objective{Temperature: 1, Policy: loss.PPO{Low: 1, High: 10, Clamp: true}, EntropyCoef: 0.01}
	if p.Sets.CriticOptions.Kind != learn.NoCritic {
		b.ValueWeight, b.Returns, o.ValueCoef = b.Weight, make([]float32, len(want)), 0.5
	}
	for i := range want {
		b.Advantages[i], b.OldLogProbs[i] = float32(i%5)-2, -5
		if b.Returns != nil {
			b.Returns[i] = float32(i % 3)
		}
	}
	opt := policy.DefaultOptimizer()
	opt.Rate, opt.CriticRate = 1e-3, 2e-3
	for range n {
		s, err := p.Update(t.Context(), b, o, opt)
		require.NoError(t, err)
		require.False(t, s.Skipped)
	}
}

// Countdown returns a context that ends after its error has been read a number of times.
func Countdown(ctx context.Context, times int) context.Context { return &countdown{ctx, times} }

type countdown struct {
	context.Context
	left int
}

func (c *countdown) Err() error {
	if c.left == 0 {
		return context.Canceled
	}
	c.left--
	return nil
}

// Crowd are conversations with responses of up to short tokens, some of up to long tokens.
// With their seeds the responses reach these lengths.
func Crowd(t testing.TB, m policy.Policy, images bool, n, short, long int, isLong func(i int) bool) []policy.Prompt {
	t.Helper()
	prompts := make([]policy.Prompt, n)
	for i := range prompts {
		p := policy.Prompt{Conversation: uint64(i), Messages: Say(strings.Repeat("go ", 1+i%3)), MaxTokens: short,
			Seed: uint64(1000 * i)}
		if isLong(i) {
			p.MaxTokens = long
		}
		if images && i%2 == 1 {
			p.Messages = Say("look <image>", Drawing(uint64(i), 16, 8))
		}
		for len(Ask(t, m, policy.Sampling{Temperature: 1, MaxTokens: 1},
			[]policy.Prompt{p})[p.Conversation].Tokens) < p.MaxTokens {
			p.Seed++
		}
		prompts[i] = p
	}
	return prompts
}

// Regrouped reports whether rows moved to another batch.
func Regrouped(n *net.Net) bool {
	for name := range n.Programs {
		if strings.HasPrefix(name, "gather rows ") && name != "gather rows 0 false" { // that one copies rows of one batch
			return true
		}
	}
	return false
}
