package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/policy"
)

// BenchmarkALiveServer generates responses to 64 prompts at a time, which share no prefix but the
// template's. Prompts have exactly VAGEN_ENGINE_PROMPT tokens (77), responses VAGEN_ENGINE_RESPONSE
// (24): nothing ends them earlier. VAGEN_ENGINE_REQUESTS (64) are sent in each iteration, a
// new one as soon as one of the 64 is answered.
func BenchmarkALiveServer(b *testing.B) {
	f := live(b)
	f.codec.text.End, f.codec.image, f.codec.video = nil, -1, -1 // nothing stops a response
	length, limit, requests := number(b, "VAGEN_ENGINE_PROMPT", 77), number(b, "VAGEN_ENGINE_RESPONSE", 24),
		number(b, "VAGEN_ENGINE_REQUESTS", 64)
	p := NewPolicy(f)
	// a server has the prompts of earlier rounds in its prefix cache
	tokens, sent, round := 0, 0, uint64(time.Now().UnixNano())
	for b.Loop() {
		b.StopTimer()
		prompts := make(chan policy.Prompt, requests)
		for i := range requests {
			prompts <- exactly(b, f.codec, length, rand.New(rand.NewPCG(round, uint64(i))))
		}
		close(prompts)
		round++
		b.StartTimer()
		done := make(chan error, 64)
		for range 64 {
			go func() { done <- exhaust(b.Context(), p, prompts, length, limit) }()
		}
		for range 64 {
			require.NoError(b, <-done)
		}
		tokens += requests * limit
		sent += requests
	}
	b.ReportMetric(float64(sent)/b.Elapsed().Seconds(), "requests/s")
	b.ReportMetric(float64(tokens)/b.Elapsed().Seconds(), "tokens/s")
	require.Zero(b, f.Gauges()["engine_failures"])
}

// number reads a positive number from the environment.
func number(b *testing.B, name string, otherwise int) int {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	require.NoError(b, err, name)
	require.Positive(b, n, name)
	return n
}

// exactly returns a prompt of random letters that the codec renders to so many tokens.
func exactly(b *testing.B, c *Codec, length int, r *rand.Rand) policy.Prompt {
	q := policy.Prompt{Conversation: r.Uint64(), Seed: r.Uint64(), Messages: []policy.Message{{Role: policy.User}}}
	for {
		ids, _, err := c.text.Prompt(nil, q.Messages, nil)
		require.NoError(b, err)
		if len(ids) == length {
			return q
		}
		require.Less(b, len(ids), length, "VAGEN_ENGINE_PROMPT is smaller than the chat template, or no letter is one token")
		q.Messages[0].Text += string(rune('A' + r.IntN(26)))
	}
}

// exhaust sends prompts, one after the other, and checks the lengths of what was read and written.
func exhaust(ctx context.Context, p *Policy, prompts <-chan policy.Prompt, length, limit int) error {
	for q := range prompts {
		out, err := p.Generate(ctx, []policy.Prompt{q}, policy.Sampling{Temperature: 1, MaxTokens: limit})
		if err != nil {
			return err
		}
		if c := out[0]; c.Err != nil {
			return c.Err
		} else if len(c.Context) != length || len(c.Tokens) != limit {
			return fmt.Errorf("prompt of %d tokens and response of %d, must be %d and %d", len(c.Context), len(c.Tokens), length,
				limit)
		}
		p.Forget(q.Conversation)
	}
	return nil
}
