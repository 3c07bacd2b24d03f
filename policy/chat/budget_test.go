package chat

import (
	"bytes"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
)

// Every request below is estimated at 4+4 prompt tokens and 20 of the response,
// and costs 8 and 5: at one unit per token 28 millionths are reserved and 13 are
// spent.
func priced(o *Options, budget float64) {
	o.Prices = map[string]Price{o.Model: {Prompt: 1, Completion: 1}}
	o.Budget = budget * 1e-6
}

func cheap(int) string { return said(OpenAI, "ok", "stop", 8, 5) }

// TestTheBudgetIsNeverExceeded finds the number of requests that a budget allows,
// which must not depend on how many run at once, or on how long they take.
func TestTheBudgetIsNeverExceeded(t *testing.T) {
	for _, c := range []struct {
		budget float64
		want   int // requests
	}{{27.9, 0}, {28.1, 1}, {40.9, 1}, {41.1, 2}, {100.1, 6}, {145.1, 10}} {
		for _, concurrency := range []int{1, 2, 50} {
			o := options(t, OpenAI, "http://test")
			o.Concurrency = concurrency
			priced(&o, c.budget)
			synctest.Test(t, func(t *testing.T) {
				book := &logbook{latency: func(n int) time.Duration { return time.Duration(n*7%5) * time.Second }, body: cheap}
				o.Transport = book
				m := newModel(t, o)
				out, err := asks(m, many(10)...)
				require.Len(t, book.starts, c.want, "budget %v, %d at once", c.budget, concurrency)
				require.LessOrEqual(t, m.Usage().Cost, o.Budget)
				require.InDelta(t, float64(c.want)*13e-6, m.Usage().Cost, 1e-15) // only rounding
				if c.want == 10 {
					require.NoError(t, err)
					require.Len(t, out, 10)
					return
				}
				require.ErrorIs(t, err, ErrBudget)
				require.Empty(t, m.chats, "the call leaves no conversation")
			})
		}
	}
}

func TestCostFollowsThePriceTable(t *testing.T) {
	p := Price{Prompt: 3, Completion: 15, CacheRead: 0.5, CacheWrite: 4}
	used := tokens{prompt: 1000, cacheRead: 600, cacheWrite: 100, completion: 50}
	require.InDelta(t, (300*3+600*0.5+100*4+50*15)/1e6, p.cost(used), 1e-18) // rounding alone
	p.CacheRead, p.CacheWrite = 0, 0
	require.InDelta(t, (1000*3+50*15)/1e6, p.cost(used), 1e-18)
}

// TestUsageIsCounted sends a picture three times, as the conversation is sent
// again in every turn.
func TestUsageIsCounted(t *testing.T) {
	o := options(t, Gemini, "http://test")
	o.Prices = map[string]Price{o.Model: {Prompt: 2, Completion: 10}}
	o.Transport = tripper(reply(200, `{"candidates":[{"content":{"parts":[{"text":"ok"}]},"finishReason":"STOP"}],"usageMetadata":{
		"promptTokenCount":300,"candidatesTokenCount":5,"thoughtsTokenCount":15,"cachedContentTokenCount":100,
		"promptTokensDetails":[{"modality":"IMAGE","tokenCount":258}]}}`))
	m := newModel(t, o)
	one(t, m, prompt(1, user("<image>", painted(red))))
	one(t, m, prompt(1, user("and")))
	one(t, m, prompt(1, user("now")))
	u := m.Usage()
	require.InDelta(t, (900*2+60*10)/1e6, u.Cost, 1e-15) // only rounding
	u.Cost = 0
	require.Equal(t, Usage{
		Requests: 3, Images: 3, PromptTokens: 900, CacheReadTokens: 300, ImageTokens: 774, CompletionTokens: 60,
		ReasoningTokens: 45,
	}, u)
	var b bytes.Buffer
	slog.New(slog.NewTextHandler(&b, nil)).Info("done", "usage", m.Usage())
	require.Contains(t, b.String(), "usage.prompt_tokens=900")
}

// For a service that reports no token counts the estimate is the cost.
func TestUncountedAnswersAreEstimated(t *testing.T) {
	o := options(t, OpenAI, "http://test")
	o.Prices = map[string]Price{o.Model: {Prompt: 1, Completion: 100}}
	o.ImageTokens = 50
	o.Transport = tripper(reply(200, `{"choices":[{"message":{"content":"123456"},"finish_reason":"stop"}]}`))
	m := newModel(t, o)
	one(t, m, prompt(1, user("123<image>", painted(red)))) // 4+1+50 tokens, answered with 4+2
	u := m.Usage()
	require.Equal(t, int64(1), u.Uncounted)
	require.Zero(t, u.PromptTokens)
	require.InDelta(t, (55+600)/1e6, u.Assumed, 1e-15) // rounding alone
	require.Equal(t, u.Assumed, u.Cost)
	require.Equal(t, int64(61), m.chats[1].tokens)
}

// Token counts of the service replace the estimate of a conversation: the second
// request is estimated at 1000+10+4+1 tokens of prompt and 20 of response.
func TestEstimatesFollowTheCountOfTheService(t *testing.T) {
	for budget, fits := range map[float64]bool{1010 + 1034.9: false, 1010 + 1035.1: true} {
		o := options(t, OpenAI, "http://test")
		priced(&o, budget)
		o.Transport = tripper(reply(200, said(OpenAI, "ok", "stop", 1000, 10)))
		m := newModel(t, o)
		one(t, m, prompt(1, user("a")))
		_, err := asks(m, prompt(1, user("b")))
		if fits {
			require.NoError(t, err)
			continue
		}
		testkit.Error(t, err, ErrBudget, "0.00101 of 0.0020449 spent, and the next request may cost 0.001035")
	}
}

// Where the service charges for writing to its cache, the whole prompt may be written.
// Reasoning tokens are not sent again.
func TestEstimatesKnowCacheAndReasoning(t *testing.T) {
	o := options(t, OpenAI, "http://test")
	o.Prices = map[string]Price{o.Model: {Prompt: 1, CacheWrite: 2, Completion: 1}}
	o.Budget = 35.9e-6 // 8 tokens of prompt at 2, 20 of response at 1
	o.Transport = tripper(reply(200, `{"choices":[{"message":{"content":"ok"},"finish_reason":"stop"}],
		"usage":{"prompt_tokens":8,"completion_tokens":12,"completion_tokens_details":{"reasoning_tokens":9}}}`))
	_, err := asks(newModel(t, o), many(1)...)
	require.ErrorIs(t, err, ErrBudget)
	o.Budget = 36.1e-6
	m := newModel(t, o)
	_, err = asks(m, many(1)...)
	require.NoError(t, err)
	require.Equal(t, int64(11), m.chats[1].tokens)
}
