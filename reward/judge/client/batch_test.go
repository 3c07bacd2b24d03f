package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/reward"
	"vagen/reward/judge"
)

// scripted is a policy of this process whose answers a function writes; it counts its calls.
type scripted struct {
	answer func(ctx context.Context, prompt string) (string, error)
	begun  chan int // receives the size of each call, if it is not nil

	mu   sync.Mutex
	open map[uint64]bool
	most int
}

func (p *scripted) Generate(
	ctx context.Context, prompts []policy.Prompt, s policy.Sampling,
) ([]policy.Completion, error) {
	p.mu.Lock()
	for _, q := range prompts {
		if p.open[q.Conversation] || s.Temperature != 0 {
			panic("a conversation is used twice, or answers are drawn")
		}
		p.open[q.Conversation] = true
	}
	p.most = max(p.most, len(prompts))
	p.mu.Unlock()
	if p.begun != nil {
		p.begun <- len(prompts)
	}
	out := make([]policy.Completion, len(prompts))
	for i, q := range prompts {
		text, err := p.answer(ctx, q.Messages[0].Text)
		if err != nil {
			return nil, err
		}
		out[i] = policy.Completion{Text: text, Context: make([]int32, 3), Tokens: make([]int32, 2)}
	}
	return out, nil
}

func (p *scripted) Forget(keys ...uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range keys {
		delete(p.open, k)
	}
}

func over(t *testing.T, p *scripted, change func(*judge.Service)) (*judge.Model, *Batches) {
	p.open = map[uint64]bool{}
	b := judge.DefaultStateReward()
	b.Service.Model = "folder"
	change(&b.Service)
	c, batches, err := Over(p, "identity", &b, nil)
	require.NoError(t, err)
	return &judge.Model{Complete: c.Complete}, batches
}

func TestClaimsThatWaitTogetherAreOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		p := &scripted{begun: make(chan int, 99), answer: func(context.Context, string) (string, error) {
			<-release
			return "<think>[] or <answer>NO</answer>?</think>" + rightAnswer, nil
		}}
		m, batches := over(t, p, func(s *judge.Service) { s.Concurrency = 4 })
		ctx, meter := WithMeter(t.Context())
		var wg sync.WaitGroup
		for i := range 9 {
			wg.Go(func() {
				scores, err := m.Score(ctx, []reward.Claim{claimOf(i)})
				if err != nil || len(scores) != 1 || scores[0] != 1 {
					t.Errorf("claim %d: %v, %v", i, scores, err)
				}
			})
			synctest.Wait() // the first one is being answered while the others arrive
		}
		close(release)
		wg.Wait()
		batches.Close()
		close(p.begun)
		var sizes []int
		for n := range p.begun {
			sizes = append(sizes, n)
		}
		require.Equal(t, []int{1, 4, 4}, sizes)
		require.Empty(t, p.open, "conversations are forgotten")
		u := meter.Usage()
		require.Equal(t, []int64{9, 27, 18}, []int64{int64(u.Claims), u.PromptTokens, u.CompletionTokens})
	})
}

func TestAnswersWithoutAVerdictAndFailuresAreCounted(t *testing.T) {
	for want, answer := range map[Cause]func(context.Context, string) (string, error){
		Answer: func(context.Context, string) (string, error) { return "<think>" + rightAnswer, nil }, // it never ends
		Server: func(context.Context, string) (string, error) { return "", errors.New("no memory") },
		Budget: func(ctx context.Context, _ string) (string, error) { <-ctx.Done(); return "", ctx.Err() },
	} {
		m, batches := over(t, &scripted{answer: answer}, func(s *judge.Service) { s.StepBudget = 0.05 })
		ctx, meter := WithMeter(t.Context())
		scores, err := m.Score(ctx, []reward.Claim{claimOf(1), claimOf(2)})
		require.NoError(t, err)
		require.Equal(t, "[NaN NaN]", fmt.Sprint(scores))
		require.Equal(t, map[Cause]int{want: 2}, meter.Usage().Unscored)
		batches.Close() // a call that nobody waits for ends
	}
}

func TestACallEndsWhenNobodyWaits(t *testing.T) {
	ended := make(chan struct{})
	p := &scripted{begun: make(chan int, 1), answer: func(ctx context.Context, _ string) (string, error) {
		<-ctx.Done()
		close(ended)
		return "", ctx.Err()
	}}
	m, batches := over(t, p, func(*judge.Service) {})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := m.Score(ctx, []reward.Claim{claimOf(1)})
		done <- err
	}()
	<-p.begun
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	<-ended
	batches.Close()
}
