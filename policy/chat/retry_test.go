package chat

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/policy"
)

// script answers requests one after the other and records when they arrived, on the
// clock of the synctest bubble.
func script(o *Options, replies ...func(*http.Request) (*http.Response, error)) *[]time.Duration {
	times, start := &[]time.Duration{}, time.Now()
	o.Transport = tripper(func(r *http.Request) (*http.Response, error) {
		n := len(*times)
		*times = append(*times, time.Since(start))
		return replies[min(n, len(replies)-1)](r)
	})
	return times
}

func reply(status int, body string, header ...string) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) { return response(status, body, header...), nil }
}

var ok = reply(200, fine(OpenAI, "ok"))

// TestRetriesWaitLongerEachTime compares the delays with the formula in Options.
func TestRetriesWaitLongerEachTime(t *testing.T) {
	o := options(t, OpenAI, "http://test")
	o.Retries, o.Backoff, o.MaxDelay, o.JitterSeed = 6, time.Second, 10*time.Second, 5
	synctest.Test(t, func(t *testing.T) {
		times := script(&o, reply(500, ""), reply(429, ""), reply(408, ""), reply(409, ""), reply(529, ""), reply(200, "{"),
			ok)
		m := newModel(t, o)
		require.Equal(t, "ok", one(t, m, prompt(7, user("hi"))).Text)
		jitter := rand.New(rand.NewPCG(5, 7))
		at := 0.0
		require.Len(t, *times, 7)
		for i, got := range *times {
			require.InDelta(t, at, got.Seconds(), 1e-6) // the clock counts nanoseconds
			at += min(10, math.Ldexp(1, i)) * (1 + jitter.Float64()) / 2
		}
		u := m.Usage()
		require.Equal(t, int64(7), u.Requests)
		require.Equal(t, int64(6), u.Retries)
		require.Equal(t, int64(1), u.Uncounted) // the answer that was cut off may have been billed
		require.Equal(t, int64(100), u.PromptTokens)
		require.Zero(t, u.Failures)
	})
}

func TestRetryAfterIsObeyedWithinBounds(t *testing.T) {
	for name, c := range map[string]struct {
		reply func(*http.Request) (*http.Response, error)
		want  float64 // seconds
	}{
		"above MaxDelay":    {reply(429, "", "Retry-After", "60"), 60},
		"seconds":           {reply(429, "", "Retry-After", "7"), 7},
		"body":              {reply(429, `{"error":{"details":[{"retryDelay":"4s"}]}}`), 4},
		"shorter than ours": {reply(429, "", "Retry-After", "0.01"), 0.5},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, OpenAI, "http://test")
			o.Retries, o.Backoff, o.MaxDelay = 1, time.Second, 10*time.Second
			synctest.Test(t, func(t *testing.T) {
				times := script(&o, c.reply, ok)
				one(t, newModel(t, o), prompt(1, user("hi")))
				require.Len(t, *times, 2)
				if got := (*times)[1].Seconds(); c.want == 0.5 { // our own, with jitter
					require.GreaterOrEqual(t, got, 0.5)
					require.Less(t, got, 1.0)
				} else {
					require.Equal(t, c.want, got)
				}
			})
		})
	}
	o := options(t, OpenAI, "http://test")
	o.Retries = 3
	synctest.Test(t, func(t *testing.T) {
		times := script(&o, reply(429, "", "Retry-After", "86400"), ok)
		c := one(t, newModel(t, o), prompt(1, user("hi")))
		require.ErrorIs(t, c.Err, ErrBusy)
		require.Len(t, *times, 1, "a day is not waited for")
		var e *Error
		require.ErrorAs(t, c.Err, &e)
		require.Equal(t, 24*time.Hour, e.RetryAfter)
	})
	synctest.Test(t, func(t *testing.T) {
		times := script(&o, reply(503, "", "Retry-After", "600"), ok)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begin := time.Now()
		_, err := newModel(t, o).Generate(ctx, []policy.Prompt{prompt(1, user("hi"))}, short)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Minute, time.Since(begin))
		require.Len(t, *times, 1)
	})
}

// When the service asks one request to wait, the others wait, too.
func TestAllRequestsWaitWhenTheServiceIsBusy(t *testing.T) {
	o := options(t, OpenAI, "http://test")
	o.Retries, o.Concurrency, o.MaxDelay = 1, 2, time.Minute
	synctest.Test(t, func(t *testing.T) {
		book := &logbook{latency: func(int) time.Duration { return 0 }, body: func(int) string { return fine(OpenAI, "ok") }}
		o.Transport = tripper(func(r *http.Request) (*http.Response, error) {
			a, err := book.RoundTrip(r)
			if book.first() {
				return response(429, "", "Retry-After", "20"), nil
			}
			return a, err
		})
		begin := time.Now()
		m := newModel(t, o)
		done := make(chan policy.Completion)
		go func() {
			out, err := m.Generate(t.Context(), []policy.Prompt{prompt(1, user("a"))}, short)
			if err != nil {
				t.Error(err)
			}
			done <- out[0]
		}()
		time.Sleep(time.Second)
		require.Equal(t, "ok", one(t, m, prompt(2, user("b"))).Text)
		require.Equal(t, "ok", (<-done).Text)
		var times []time.Duration
		for _, at := range book.starts {
			times = append(times, at.Sub(begin))
		}
		require.Equal(t, []time.Duration{0, 20 * time.Second, 20 * time.Second}, times)
	})
}

func TestFinalStatusesAreNotRetried(t *testing.T) {
	for status := 400; status < 500; status++ {
		if status == 408 || status == 409 || status == 429 {
			continue
		}
		o := options(t, OpenAI, "http://test")
		o.Retries = 3
		synctest.Test(t, func(t *testing.T) {
			times := script(&o, reply(status, `{"error":{"message":"no"}}`))
			out, err := asks(newModel(t, o), prompt(1, user("hi")))
			if err == nil {
				err = out[0].Err
			}
			var e *Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, status, e.Status)
			require.Equal(t, "no", e.Detail)
			require.Len(t, *times, 1)
		})
	}
}

// A failure of one conversation does not affect the others; a failure that affects all
// ends the call.
func TestFailuresOfACallAndOfAConversation(t *testing.T) {
	answer := func(status int, body string) func(int, http.ResponseWriter, *http.Request) {
		return func(n int, w http.ResponseWriter, _ *http.Request) {
			if n == 1 {
				w.Header().Set("X-Request-Id", "req-17")
				w.WriteHeader(status)
				_, _ = io.WriteString(w, body)
				return
			}
			_, _ = io.WriteString(w, fine(OpenAI, fmt.Sprint("answer ", n)))
		}
	}
	three := []policy.Prompt{prompt(1, user("a")), prompt(2, user("b")), prompt(3, user("c"))}
	for _, c := range []struct {
		status int
		body   string
		want   error
		all    bool
	}{
		{400, `{"error":{"code":"context_length_exceeded","message":"too long"}}`, policy.ErrNoRoom, false},
		{500, `oops`, ErrServer, false},
		{400, `{"error":{"code":"content_filter"}}`, ErrRefused, false},
		{200, said(OpenAI, "", "content_filter", 1, 1), ErrRefused, false},
		{200, `<html>`, ErrResponse, false},
		{200, `{"error":{"code":429,"message":"slow down"}}`, ErrBusy, false},
		{200, `{"error":{"code":"context_length_exceeded","message":"too long"}}`, policy.ErrNoRoom, false},
		{200, `{"error":{"code":"weird","message":"x"}}`, ErrServer, false},
		{200, `{"error":{"code":"insufficient_quota"}}`, ErrQuota, true},
		{401, `{"error":{"message":"wrong"}}`, ErrKey, true},
		{404, `{"error":{"message":"unknown"}}`, ErrModel, true},
		{400, `{"error":{"message":"bad","param":"temperature"}}`, ErrSetting, true},
	} {
		server := record(t, answer(c.status, c.body))
		o := options(t, OpenAI, server.URL)
		o.Concurrency = 1
		m := newModel(t, o)
		out, err := asks(m, three...)
		if c.all {
			require.ErrorIs(t, err, c.want)
			require.Nil(t, out)
			require.Len(t, server.all(), 2, "nothing is sent after it")
			require.ErrorContains(t, err, "req-17")
			continue
		}
		require.NoError(t, err)
		require.ErrorIs(t, out[1].Err, c.want)
		require.Equal(t, []string{"answer 0", "answer 2"}, []string{out[0].Text, out[2].Text})
		require.Nil(t, out[0].Err)
	}
}

// With every API a request that is refused for its content, not for a setting, is an error
// of its conversation.
func TestRefusedRequestsConcernTheirConversation(t *testing.T) {
	for api := range providers {
		o := options(t, api, "http://test")
		o.Transport = tripper(reply(400,
			`{"error":{"type":"invalid_request_error","message":"messages.0.content.1: the picture cannot be read"}}`))
		err := one(t, newModel(t, o), prompt(1, user("hi"))).Err
		require.ErrorIs(t, err, ErrRequest, api)
		require.ErrorIs(t, err, policy.ErrMessages, "an agent may ask again")
		require.NotContains(t, err.Error(), policy.ErrMessages.Error())
	}
}

// An address that cannot be reached fails the call; a connection that breaks fails its
// conversation.
func TestNetworkFailuresAreRetried(t *testing.T) {
	refused := func(*http.Request) (*http.Response, error) {
		return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	}
	reset := func(*http.Request) (*http.Response, error) {
		return nil, &net.OpError{Op: "read", Err: errors.New("connection reset")}
	}
	for _, c := range []struct {
		fail     func(*http.Request) (*http.Response, error)
		want     error
		requests int64
	}{{refused, ErrUnreachable, 0}, {reset, ErrLost, 3}} {
		o := options(t, OpenAI, "http://test")
		o.Retries = 2
		o.Prices = map[string]Price{o.Model: {Prompt: 1, Completion: 1}}
		synctest.Test(t, func(t *testing.T) {
			times := script(&o, c.fail)
			m := newModel(t, o)
			out, err := asks(m, prompt(1, user("hi")))
			if c.want == ErrLost {
				require.NoError(t, err)
				err = out[0].Err
			}
			testkit.Error(t, err, c.want, "3 attempts")
			require.Len(t, *times, 3)
			require.Equal(t, c.requests, m.Usage().Requests)
			// Four tokens for the message, one for "hi" and 20 for the response, of
			// which may or may not have been billed.
			require.InDelta(t, float64(c.requests)*25e-6, m.Usage().Assumed, 1e-12) // rounding alone
			// The service may have got the message, but it is not in the conversation, which
			// starts again.
			require.Empty(t, m.chats)
		})
	}
}

func TestHangingServicesTimeOut(t *testing.T) {
	hang := func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	slow := func(r *http.Request) (*http.Response, error) { // the header comes, the body does not
		a := response(200, "")
		a.Body = io.NopCloser(readerFunc(func([]byte) (int, error) {
			<-r.Context().Done()
			return 0, r.Context().Err()
		}))
		return a, nil
	}
	o := options(t, OpenAI, "http://test")
	o.Retries, o.Timeout, o.Backoff, o.MaxDelay = 2, 30*time.Second, 0, 0
	synctest.Test(t, func(t *testing.T) {
		times := script(&o, hang, slow, ok)
		require.Equal(t, "ok", one(t, newModel(t, o), prompt(1, user("hi"))).Text)
		require.Equal(t, []time.Duration{0, 30 * time.Second, 60 * time.Second}, *times)
	})
	synctest.Test(t, func(t *testing.T) {
		script(&o, hang)
		c := one(t, newModel(t, o), prompt(1, user("hi")))
		testkit.Error(t, c.Err, ErrLost, "no answer within 30s")
		require.NotErrorIs(t, c.Err, context.DeadlineExceeded, "it is not the caller's deadline")
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestAnswersThatAreTooLargeAreNotRead(t *testing.T) {
	server := record(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n == 2 {
			w.WriteHeader(http.StatusInternalServerError)
		}
		_, _ = io.WriteString(w, fine(OpenAI, strings.Repeat("x", 4000)))
	})
	o := options(t, OpenAI, server.URL)
	o.Retries, o.MaxResponse = 5, 5000
	require.NoError(t, one(t, newModel(t, o), prompt(1, user("hi"))).Err)
	o.MaxResponse = 4000
	c := one(t, newModel(t, o), prompt(1, user("hi")))
	require.ErrorIs(t, c.Err, ErrTooLarge)
	require.Len(t, server.all(), 2, "it would be too large again")
	o.Retries = 0
	c = one(t, newModel(t, o), prompt(1, user("hi")))
	require.ErrorIs(t, c.Err, ErrServer)
	require.Less(t, len(c.Err.Error()), 1000, "messages stay readable")
}

// An answer that a real server does not complete is ErrLost.
func TestIncompleteAnswersAreLost(t *testing.T) {
	server := record(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n == 0 {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, `{"choices":`)
			return
		}
		_, _ = io.WriteString(w, fine(OpenAI, "ok"))
	})
	o := options(t, OpenAI, server.URL)
	require.ErrorIs(t, one(t, newModel(t, o), prompt(1, user("hi"))).Err, ErrLost)
	require.Equal(t, "ok", one(t, newModel(t, o), prompt(1, user("hi"))).Text)
}
