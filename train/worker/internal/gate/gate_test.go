package gate

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/policy/chat"
)

func options(budget float64) chat.Options {
	o := chat.DefaultOptions(chat.OpenAI, "m")
	o.BaseURL, o.Concurrency, o.Budget = "http://test/v1", 2, budget
	o.Prices = map[string]chat.Price{"m": {Prompt: 1e6, Completion: 1e6}} // one for each token
	return o
}

// wire connects clients with a keeper. Questions that lose is true for are not answered at first.
type wire struct {
	mu     sync.Mutex
	keeper *Keeper
	dead   bool // nothing arrives any more
	lose   int  // answers that are lost
}

func (w *wire) tell(raw []byte) {
	w.mu.Lock()
	k := w.keeper
	if w.dead {
		k = nil
	}
	w.mu.Unlock()
	if k != nil {
		k.Hear(raw, func([]byte) {})
	}
}

func (w *wire) ask(ctx context.Context, raw []byte) ([]byte, error) {
	got := make(chan []byte, 100)
	for {
		w.mu.Lock()
		k := w.keeper
		w.mu.Unlock()
		k.Hear(raw, func(a []byte) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.lose--; w.lose < 0 {
				got <- a
			}
		})
		again := time.NewTimer(5 * time.Second)
		select {
		case a := <-got:
			again.Stop()
			return a, nil
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return nil, context.Cause(ctx)
		}
	}
}

// TestWorkersShareTheLimitsOfTheKeeper: two requests at once whatever is lost on the way; those of
// a worker that ended count at their estimate, and make room after a lease.
func TestWorkersShareTheLimitsOfTheKeeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := chat.NewLimits(options(1000))
		require.NoError(t, err)
		var failed error
		k := Keep(l, 30*time.Second, func(err error) { failed = err })
		lossy, dying := &wire{keeper: k, lose: 1}, &wire{keeper: k}
		a, b := Dial(30*time.Second, lossy.ask, lossy.tell), Dial(30*time.Second, dying.ask, dying.tell)
		begin := time.Now()
		require.NoError(t, a.Admit(t.Context(), "1", chat.Estimate{Prompt: 10, Completion: 10}))
		require.Equal(t, 5*time.Second, time.Since(begin), "the answer was lost once, the question came twice")
		require.NoError(t, b.Admit(t.Context(), "1 of b", chat.Estimate{Prompt: 30, Completion: 10}))
		short, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(t, a.Admit(short, "2", chat.Estimate{Prompt: 1, Completion: 1}), context.DeadlineExceeded, "both live on, so there is no room")
		synctest.Wait()
		require.Len(t, k.requests, 2)
		dying.mu.Lock()
		dying.dead = true
		dying.mu.Unlock()
		begin = time.Now()
		require.NoError(t, a.Admit(t.Context(), "3", chat.Estimate{Prompt: 1, Completion: 1}))
		require.LessOrEqual(t, time.Since(begin), time.Minute, "a lease, and what is left of its intervals")
		require.InDelta(t, 40, l.Usage().Assumed, 1e-9)
		a.Settle("1", chat.Settlement{Sent: true, Counted: true, Prompt: 5, Completion: 5})
		a.Settle("3", chat.Settlement{Sent: true, Counted: true, Prompt: 1, Completion: 1})
		a.Settle("3", chat.Settlement{Sent: true, Counted: true, Prompt: 1, Completion: 1})
		require.InDelta(t, 52, l.Usage().Cost, 1e-9)
		require.Empty(t, k.requests)

		require.NoError(t, failed)
		over, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Error(t, a.Admit(over, "4", chat.Estimate{Prompt: 2000, Completion: 1}))
		require.ErrorIs(t, failed, chat.ErrBudget)
		a.Abort(errors.New("no credit"))
		require.ErrorContains(t, failed, "no credit")
		for _, bad := range []string{"", "{", "7", `{"Admit":{"Prompt":-1},"ID":"x"}`, `{"Settle":{},"ID":"y"}`} {
			k.Hear([]byte(bad), func([]byte) { t.Error(bad) })
		}
		synctest.Wait()
		require.Empty(t, k.requests)
		a.Close()
		b.Close()
		k.Close()
	})
}
