package chat

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestModelsBehindAGateShareItsLimits: requests at once, requests in a minute, and the budget are
// those of one model, whatever the models' own options say.
func TestModelsBehindAGateShareItsLimits(t *testing.T) {
	o := options(t, OpenAI, "http://test")
	o.RequestsPerMinute, o.Concurrency = 7, 3
	priced(&o, 400)
	synctest.Test(t, func(t *testing.T) {
		book := &logbook{latency: func(n int) time.Duration { return time.Duration(n%3) * 4 * time.Second }, body: cheap}
		l, err := NewLimits(o)
		require.NoError(t, err)
		own := o
		own.Transport, own.Gate, own.RequestsPerMinute, own.Budget = book, l, 1, 1e-6
		errs := make([]error, 3)
		var models []*Model
		var wg sync.WaitGroup
		for i := range errs {
			m := newModel(t, own)
			models = append(models, m)
			wg.Go(func() { _, errs[i] = m.Generate(context.Background(), many(12), short) })
		}
		wg.Wait()
		// 28 are reserved and 13 spent, so that 29 requests fit: 28·13 + 28 ≤ 400 < 29·13 + 28.
		require.Len(t, book.starts, 29)
		require.Equal(t, 7, book.most(func(int) int { return 1 }))
		require.LessOrEqual(t, book.top, 3)
		sum, failed := int64(0), 0
		for i, m := range models {
			sum += m.Usage().Requests
			if errs[i] != nil {
				failed++
				require.ErrorIs(t, errs[i], ErrBudget)
			}
		}
		require.Positive(t, failed)
		u := l.Usage()
		require.Equal(t, []int64{29, 29, 29 * 8, 29 * 5}, []int64{sum, u.Requests, u.PromptTokens, u.CompletionTokens})
		require.InDelta(t, 29*13e-6, u.Cost, 1e-15) // only rounding
		require.Empty(t, l.admitted)
		require.Equal(t, tokens{}, l.ledger.reserved)
		require.Empty(t, l.slots)
	})
}

// TestSettlementsAreChecked: what is abandoned or impossible counts at its estimate, and only once.
func TestSettlementsAreChecked(t *testing.T) {
	o := options(t, OpenAI, "http://test")
	priced(&o, 1000)
	l, err := NewLimits(o)
	require.NoError(t, err)
	admit := func(id string) { require.NoError(t, l.Admit(t.Context(), id, Estimate{8, 20})) }
	admit("a")
	require.Error(t, l.Admit(t.Context(), "a", Estimate{8, 20}), "twice")
	require.Error(t, l.Admit(t.Context(), "b", Estimate{-8, 20}))
	l.Abandon("a")
	l.Abandon("a")
	l.Settle("a", Settlement{Sent: true, Counted: true, Prompt: 5})
	require.InDelta(t, 28e-6, l.Usage().Assumed, 1e-15)
	admit("c")
	l.Settle("c", Settlement{Sent: true, Counted: true, Prompt: -1 << 50})
	require.InDelta(t, 56e-6, l.Usage().Cost, 1e-15)
	admit("d")
	l.Settle("d", Settlement{})
	l.Settle("unknown", Settlement{Sent: true})
	require.Equal(t, int64(2), l.Usage().Requests)
	require.Equal(t, tokens{}, l.ledger.reserved)
	require.Empty(t, l.slots)
	l.Report(Notice{Failed: true})
	require.Equal(t, int64(1), l.Usage().Failures)
	o.Budget = -1
	_, err = NewLimits(o)
	require.Error(t, err)
}

// TestAPauseOfOneModelIsThatOfAll.
func TestAPauseOfOneModelIsThatOfAll(t *testing.T) {
	o := options(t, OpenAI, "http://test")
	synctest.Test(t, func(t *testing.T) {
		l, err := NewLimits(o)
		require.NoError(t, err)
		begin := time.Now()
		l.Report(Notice{Pause: time.Minute})
		require.NoError(t, l.Admit(t.Context(), "a", Estimate{1, 1}))
		require.Equal(t, time.Minute, time.Since(begin))
	})
}
