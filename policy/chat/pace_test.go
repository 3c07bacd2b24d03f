package chat

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/internal/clock"
	"vagen/policy"
)

// many are prompts of conversations 1 to n.
func many(n int) []policy.Prompt {
	out := make([]policy.Prompt, n)
	for i := range out {
		out[i] = prompt(uint64(i+1), user(fmt.Sprint("question ", i+1)))
	}
	return out
}

// logbook is a transport that answers after a delay and records when requests start.
type logbook struct {
	mu       sync.Mutex
	starts   []time.Time
	now, top int // requests at once
	latency  func(n int) time.Duration
	body     func(n int) string
}

func (l *logbook) RoundTrip(r *http.Request) (*http.Response, error) {
	l.mu.Lock()
	n := len(l.starts)
	l.starts = append(l.starts, time.Now())
	l.now++
	l.top = max(l.top, l.now)
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		l.now--
		l.mu.Unlock()
	}()
	if clock.Wait(r.Context(), l.latency(n)) != nil {
		return nil, r.Context().Err()
	}
	return response(200, l.body(n)), nil
}

// first reports whether there has been one request.
func (l *logbook) first() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.starts) == 1
}

// most is the largest number of requests within any window.
func (l *logbook) most() (top int) {
	for i, from := range l.starts {
		n := 0
		for _, at := range l.starts[i:] {
			if at.Sub(from) < window {
				n++
			}
		}
		top = max(top, n)
	}
	return top
}

func TestNoMinuteHoldsMoreRequestsThanAllowed(t *testing.T) {
	o := options(t, OpenAI, "http://test")
	o.RequestsPerMinute, o.Concurrency = 7, 3
	synctest.Test(t, func(t *testing.T) {
		book := &logbook{latency: func(n int) time.Duration { return time.Duration(n%5) * 4 * time.Second },
			body: func(int) string { return fine(OpenAI, "ok") }}
		o.Transport = book
		begin := time.Now()
		_, err := asks(newModel(t, o), many(40)...)
		require.NoError(t, err)
		require.Len(t, book.starts, 40)
		require.Equal(t, 7, book.most())
		require.Equal(t, 3, book.top, "requests at once")
		// 40 requests need five full windows before the last five of them.
		require.Equal(t, 5*time.Minute, book.starts[35].Sub(begin), "the limit is reached")
	})
}

// paced asks questions of a service that gives one answer after a delay, and returns when it was asked.
func paced(t *testing.T, o Options, questions int, answer string, latency time.Duration) (book *logbook) {
	synctest.Test(t, func(t *testing.T) {
		book = &logbook{latency: func(int) time.Duration { return latency }, body: func(int) string { return answer }}
		o.Transport = book
		_, err := asks(newModel(t, o), many(questions)...)
		require.NoError(t, err)
	})
	return book
}

func TestNoMinuteHoldsMoreTokensThanAllowed(t *testing.T) {
	o := options(t, OpenAI, "http://test")
	o.TokensPerMinute, o.Concurrency = 100, 100
	// The estimate of each is 4+4+20 tokens; three of them fit into a minute. The
	// service counts 50, from the next request on.
	var at []int
	book := paced(t, o, 9, said(OpenAI, "ok", "stop", 40, 10), time.Second)
	for _, s := range book.starts {
		at = append(at, int(s.Sub(book.starts[0]).Seconds()))
	}
	// The first three start because of their estimates and have 150 tokens.
	// When all have left the window, the same happens again.
	require.Equal(t, []int{0, 0, 0, 60, 60, 60, 120, 120, 120}, at)
	o.Concurrency = 1
	// Ten tokens each: eight have gone and the ninth's 28 make 108.
	require.Equal(t, 8, paced(t, o, 20, said(OpenAI, "ok", "stop", 8, 2), time.Second).most())
	// Requests that wait for tokens start at once when the service counts fewer.
	o.TokensPerMinute, o.Concurrency = 50, 2
	book = paced(t, o, 2, said(OpenAI, "ok", "stop", 8, 2), time.Second)
	require.Equal(t, time.Second, book.starts[1].Sub(book.starts[0]))
	o.TokensPerMinute = 5
	require.Equal(t, 1, paced(t, o, 3, fine(OpenAI, "ok"), 0).most(), "a request above the limit runs alone")
}

// TestOrderDoesNotDependOnConcurrency: the answers arrive in any order.
func TestOrderDoesNotDependOnConcurrency(t *testing.T) {
	o := options(t, OpenAI, "http://test")
	var want []policy.Completion
	for _, concurrency := range []int{1, 3, 64} {
		o.Concurrency = concurrency
		synctest.Test(t, func(t *testing.T) {
			o.Transport = tripper(func(r *http.Request) (*http.Response, error) {
				raw := make([]byte, 1<<12)
				n, _ := r.Body.Read(raw)
				sum := 0
				for _, c := range raw[:n] {
					sum = (sum*31 + int(c)) % 1009
				}
				time.Sleep(time.Duration(sum) * time.Millisecond)
				if sum%5 == 0 {
					return response(400, `{"error":{"message":"bad luck"}}`), nil
				}
				return response(200, fine(OpenAI, fmt.Sprint(sum))), nil
			})
			m := newModel(t, o)
			got, err := asks(m, many(50)...)
			require.NoError(t, err)
			if want == nil {
				want = got
			}
			require.Equal(t, want, got)
		})
	}
	failures := 0
	for _, c := range want {
		if c.Err != nil {
			failures++
		}
	}
	require.NotZero(t, failures)
	require.Less(t, failures, 50)
}

// TestCancellationEndsTheCall cancels calls in each of the places where they
// wait. The bubble fails the test if a goroutine is left behind.
func TestCancellationEndsTheCall(t *testing.T) {
	hang := tripper(func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	})
	for name, change := range map[string]func(o *Options){
		"answer":  func(o *Options) {},
		"last":    func(o *Options) { o.Retries = 0 },
		"slot":    func(o *Options) { o.Concurrency = 1 },
		"minute":  func(o *Options) { o.RequestsPerMinute = 1 },
		"budget":  func(o *Options) { o.Budget, o.Prices = 30e-6, map[string]Price{o.Model: {Prompt: 1, Completion: 1}} },
		"backoff": func(o *Options) { o.Transport = tripper(reply(500, "")) },
		"pause":   func(o *Options) { o.Transport, o.Concurrency = tripper(reply(429, "", "Retry-After", "1000")), 1 },
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, OpenAI, "http://test")
			o.Timeout, o.Transport, o.Retries = time.Hour, hang, 5
			o.Backoff, o.MaxDelay = time.Hour, time.Hour
			change(&o)
			synctest.Test(t, func(t *testing.T) {
				m := newModel(t, o)
				ctx, cancel := context.WithCancelCause(t.Context())
				reason := errors.New("enough")
				begin := time.Now()
				time.AfterFunc(10*time.Second, func() { cancel(reason) })
				out, err := m.Generate(ctx, many(5), short)
				require.ErrorIs(t, err, reason)
				require.Nil(t, out)
				require.Equal(t, 10*time.Second, time.Since(begin))
				require.Empty(t, m.chats)
				require.Empty(t, m.slots)
				require.Zero(t, m.Usage().Failures, "no request failed")
				require.Equal(t, tokens{}, m.ledger.reserved)
				// The model can still be used.
				m.http.Transport = tripper(ok)
				m.ledger.budget, m.pace.requests, m.pace.paused = 0, 0, time.Time{}
				require.Equal(t, "ok", one(t, m, prompt(1, user("hi"))).Text)
			})
		})
	}
}
