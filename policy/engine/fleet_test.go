package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/internal/enginestub"
	"vagen/internal/testkit"
	"vagen/policy"
)

// TestAFleetThatCannotTrainIsRefused before anything is generated, with every problem.
func TestAFleetThatCannotTrainIsRefused(t *testing.T) {
	forbidden := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, `{"error":{"message":"forbidden"}}`, http.StatusForbidden)
	}))
	defer forbidden.Close()
	for _, kind := range kinds {
		for name, test := range map[string]struct {
			change func(*Options, []*enginestub.Stub)
			is     error
			says   string
		}{
			"unreachable": {func(o *Options, _ []*enginestub.Stub) { o.Addresses[1] = "http://127.0.0.1:1" }, ErrServer,
				"http://127.0.0.1:1: health"},
			"forbidden": {func(o *Options, _ []*enginestub.Stub) {
				o.Addresses[1] = forbidden.URL
			}, ErrAccess, "status 403: forbidden"},
			"wrong key": {func(o *Options, s []*enginestub.Stub) {
				s[0].Key = "right"
				o.Key = "hunter2hunter2"
			}, ErrAccess, "401"},
			"half-upgraded": {func(o *Options, s []*enginestub.Stub) { s[1].SetVersion("new") }, ErrModel,
				"has weights of version new"},
			"other model": {func(o *Options, s []*enginestub.Stub) { s[1].Name = "other" }, ErrModel, "serves other"},
			"tokenizer":   {func(o *Options, s []*enginestub.Stub) { s[1].Model.(*fake).wrong = true }, ErrModel, ""},
			"vocabulary": {func(o *Options, s []*enginestub.Stub) { s[1].Vocab = 900 }, ErrModel,
				"the last of our vocabulary"},
		} {
			c, all, addresses := stubs(t, kind, 2)
			o := testOptions(kind, addresses...)
			test.change(&o, all)
			_, err := Open(t.Context(), c, o)
			require.ErrorIs(t, err, test.is, "%s %s", kind, name)
			require.ErrorContains(t, err, test.says, "%s %s", kind, name)
			require.NotContains(t, err.Error(), "hunter2")
		}
	}
}

// TestAFirstAnswerWithoutTokensIsRefused: a server that is shutting down aborts the request by
// which its vocabulary is checked.
func TestAFirstAnswerWithoutTokensIsRefused(t *testing.T) {
	c, all, _ := stubs(t, SGLang, 1)
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/generate" {
			all[0].ServeHTTP(w, r)
			return
		}
		var asked sglangRequest
		_ = json.NewDecoder(r.Body).Decode(&asked)
		fmt.Fprintf(w, `{"text": "bye", "output_ids": [], "meta_info": {"finish_reason": {"type": "abort"}, "prompt_tokens": %d, "output_token_logprobs": []}}`, len(asked.Tokens))
	}))
	defer h.Close()
	_, err := Open(t.Context(), c, testOptions(SGLang, h.URL))
	testkit.Error(t, err, ErrAborted, "the first request")
}

func TestTheServedModelMustBeNamedIfThereAreSeveral(t *testing.T) {
	c, all, addresses := stubs(t, VLLM, 1)
	o := testOptions(VLLM, addresses...)
	o.Model = "another"
	_, err := Open(t.Context(), c, o)
	testkit.Error(t, err, ErrModel, `["policy"]`)
	all[0].Name = "another"
	f, err := Open(t.Context(), c, o)
	require.NoError(t, err)
	require.Equal(t, "another", f.Model())
	require.NoError(t, f.Close())
}

// TestFaultsLoseNoEpisode: of every twentieth request a response is missing, broken, late,
// aborted or by other weights, and servers lose their weights; every conversation still gets
// all its responses, the same as without faults, and none by other weights. A slow machine
// also lets requests exceed the time limit, hence the many attempts.
func TestFaultsLoseNoEpisode(t *testing.T) {
	const episodes, turns = 40, 3
	play := func(f *Fleet) (rows [][]policy.Completion) {
		p := NewPolicy(f)
		rows = make([][]policy.Completion, episodes)
		for turn := range turns {
			var prompts []policy.Prompt
			for i := range episodes {
				q := following(uint64(i+1), fmt.Sprint("turn ", turn, " of ", i))
				if turn == 0 {
					q = opening(uint64(i+1), fmt.Sprint("start ", i), drawn(28+i%2*28, 56, uint8(i)))
				}
				prompts = append(prompts, q)
			}
			for i, c := range ask(t, p, prompts...) {
				require.NoError(t, c.Err)
				rows[i] = append(rows[i], c)
			}
		}
		return rows
	}
	names := []string{"engine_failures", "engine_retries", "engine_aborts", "engine_ejections", "engine_mixed_responses"}
	total := map[string]float64{} // which faults a single fleet meets depends on the order of its requests
	for _, kind := range kinds {
		for _, adapter := range []bool{false, true} {
			clean, _ := opened(t, kind, 1, nil)
			v := Version{Name: "w1", Path: "/weights/1", Adapter: adapter}
			require.NoError(t, clean.Publish(t.Context(), v))
			want := play(clean)
			f, all := opened(t, kind, 3, func(o *Options) { o.Timeout, o.InFlight, o.Attempts = time.Second, 32, 50 })
			require.NoError(t, f.Publish(t.Context(), v))
			for _, s := range all {
				s.SetFaults(enginestub.Faults{Error: 0.01, Reset: 0.01, Garbage: 0.01, Hang: 0.02, Hangs: 1, Abort: 0.015,
					Forget: 0.01, Mix: 0.01})
			}
			require.Equal(t, want, play(f), "%s, adapter %v", kind, adapter)
			g := f.Gauges()
			for _, name := range names {
				total[name] += g[name]
			}
			require.Zero(t, g["engine_lost"])
			t.Logf("%s, adapter %v: %v requests for %v responses, %v ejections, %v of other weights",
				kind, adapter, g["engine_requests"], g["engine_responses"], g["engine_ejections"], g["engine_mixed_responses"])
		}
	}
	for _, name := range names {
		require.Positive(t, total[name], name)
	}
}

// TestResponsesOfOtherWeightsAreHandledAsConfigured: another program gives the only server
// other weights.
func TestResponsesOfOtherWeightsAreHandledAsConfigured(t *testing.T) {
	for _, kind := range kinds {
		for _, mixed := range []Mixed{MixedDrop, MixedKeep, MixedCorrect} {
			f, all := opened(t, kind, 1, func(o *Options) { o.Mixed = mixed })
			require.NoError(t, f.Publish(t.Context(), Version{Name: "w1", Path: "/w/1"}))
			all[0].SetVersion("foreign")
			c := ask(t, NewPolicy(f), opening(1, "x"))[0]
			require.NoError(t, c.Err)
			g := f.Gauges()
			require.Equal(t, 1.0, g["engine_mixed_responses"])
			require.Equal(t, float64(len(c.Tokens)), g["engine_mixed_tokens"])
			again := 0.0
			if mixed == MixedDrop {
				again = 1
			}
			require.Equal(t, again, g["engine_retries"], mixed)
			// In every case the server gets its weights back before it is used again.
			require.NoError(t, ask(t, NewPolicy(f), opening(2, "y"))[0].Err)
			require.Equal(t, "w1", all[0].Version())
			require.Equal(t, 1.0, f.Gauges()["engine_mixed_responses"])
		}
	}
}

// TestAnAdapterIsANewNameForEachVersion: the one before is unloaded, and what a server that
// was down meanwhile misses is brought to it.
func TestAnAdapterIsANewNameForEachVersion(t *testing.T) {
	f, all := opened(t, VLLM, 2, nil)
	names := []string{}
	for i := range 3 {
		names = append(names, f.NewName(i))
		all[1].SetDown(i == 1)
		require.NoError(t, f.Publish(t.Context(), Version{Name: names[i], Path: fmt.Sprint("/a/", i), Adapter: true}))
		require.Equal(t, []string{names[i]}, all[0].Adapters())
		require.NoError(t, ask(t, NewPolicy(f), opening(1, "x"))[0].Err)
	}
	require.Eventually(t, func() bool { n, _ := f.Healthy(); return n == 2 }, 10*time.Second, time.Millisecond)
	require.Equal(t, []string{names[2]}, all[1].Adapters(), "the one from before the server was down is unloaded, too")
	v, ok := f.Current()
	require.True(t, ok)
	require.Equal(t, names[2], v.Name)
	require.ErrorIs(t, f.Publish(t.Context(), Version{Name: "all"}), ErrOption)
}

// TestPublishEndsWithItsContext although a probe is loading weights on the server, which may take
// ten minutes.
func TestPublishEndsWithItsContext(t *testing.T) {
	loading, release := make(chan struct{}), make(chan struct{})
	var calls atomic.Int32
	f, s := behind(t, VLLM, func(o *Options) { o.Mixed = MixedKeep },
		func(_ *enginestub.Stub, _ http.ResponseWriter, path string) bool {
			if path == "/collective_rpc" && calls.Add(1) == 2 {
				close(loading)
				<-release
			}
			return false
		})
	defer close(release)
	require.NoError(t, f.Publish(t.Context(), Version{Name: "w1", Path: "/w/1"}))
	s.SetVersion("foreign")
	require.NoError(t, ask(t, NewPolicy(f), opening(1, "x"))[0].Err)
	<-loading // the probe
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- f.Publish(ctx, Version{Name: "w2", Path: "/w/2"}) }()
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
}

// TestCallsThatWaitForEachOtherEndWithTheirContexts: responses and scores wait until weights are published, and
// publishing until responses have ended.
func TestCallsThatWaitForEachOtherEndWithTheirContexts(t *testing.T) {
	loading, release := make(chan struct{}), make(chan struct{})
	f, s := behind(t, VLLM, nil, func(_ *enginestub.Stub, _ http.ResponseWriter, path string) bool {
		if path == "/collective_rpc" {
			close(loading)
			<-release
		}
		return false
	})
	published := make(chan error)
	go func() { published <- f.Publish(t.Context(), Version{Name: "w1", Path: "/w/1"}) }()
	<-loading
	p := NewPolicy(f)
	reason := errors.New("enough")
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(reason)
	_, err := p.Generate(ended, repeat(2), policy.Sampling{MaxTokens: 4})
	require.Equal(t, reason, err)
	_, err = f.Score(ended, &policy.Rows{Offsets: []int{0, 2}, Tokens: []int32{5, 6}}, []bool{false, true}, 0)
	require.Equal(t, reason, err)
	require.Equal(t, reason, f.Publish(ended, Version{Name: "w2", Path: "/w/2"}))
	close(release)
	require.NoError(t, <-published)

	s.SetFaults(enginestub.Faults{Hang: 1, Hangs: 1})
	hung, stop := context.WithCancel(t.Context())
	go func() {
		_, err := p.Generate(hung, repeat(1), policy.Sampling{MaxTokens: 4})
		published <- err
	}()
	require.Eventually(t, func() bool { return s.Calls()["/inference/v1/generate"] > 1 }, 10*time.Second,
		time.Millisecond) // one is that of Open
	require.Equal(t, reason, f.Publish(ended, Version{Name: "w3", Path: "/w/3"}))
	stop()
	require.ErrorIs(t, <-published, context.Canceled)
	require.NoError(t, ask(t, p, opening(1, "x"))[0].Err, "neither waits for a call that has ended")
	v, _ := f.Current()
	require.Equal(t, "w1", v.Name)
}

// TestWeightsThatReachNoServerEndTheCall with the reason of every server.
func TestWeightsThatReachNoServerEndTheCall(t *testing.T) {
	for _, kind := range kinds {
		for _, adapter := range []bool{false, true} {
			f, _ := opened(t, kind, 2, nil)
			err := f.Publish(t.Context(), Version{Name: "w1", Path: "/missing", Adapter: adapter})
			testkit.Error(t, err, ErrNoServer, "no folder /missing")
		}
	}
}

// TestAnOutageEndsTheCallAfterAWhile, and conversations continue when it was shorter.
func TestAnOutageEndsTheCallAfterAWhile(t *testing.T) {
	f, all := opened(t, VLLM, 2, func(o *Options) { o.Outage, o.EjectAfter, o.Attempts = 100*time.Millisecond, 1, 9 })
	for _, s := range all {
		s.SetDown(true)
	}
	p := NewPolicy(f)
	_, err := p.Generate(t.Context(), repeat(3), policy.Sampling{MaxTokens: 4})
	testkit.Error(t, err, ErrNoServer, "status 503: down")
	require.Empty(t, p.chats)
	all[1].SetDown(false)
	require.Eventually(t, func() bool { n, _ := f.Healthy(); return n == 1 }, 10*time.Second, time.Millisecond)
	for _, c := range ask(t, p, repeat(3)...) {
		require.NoError(t, c.Err)
	}
}

// TestAPromptThatWasReadDifferentlyEndsTheCall, for instance because the server's image
// processor has other limits.
func TestAPromptThatWasReadDifferentlyEndsTheCall(t *testing.T) {
	f, all := opened(t, VLLM, 1, nil)
	all[0].Model = doubled{all[0].Model.(*fake)}
	_, err := NewPolicy(f).Generate(t.Context(), []policy.Prompt{opening(1, "x", drawn(96, 96, 1))},
		policy.Sampling{MaxTokens: 4})
	testkit.Error(t, err, ErrPrompt, "they differ from token", "min_pixels")
}

// doubled is a model that expands each image to one placeholder too many.
type doubled struct{ *fake }

func TestACanceledCallEndsItsConversations(t *testing.T) {
	f, all := opened(t, VLLM, 1, nil)
	all[0].SetFaults(enginestub.Faults{Hang: 1})
	p := NewPolicy(f)
	ctx, cancel := contextAfter(t, 50*time.Millisecond)
	defer cancel()
	_, err := p.Generate(ctx, repeat(2), policy.Sampling{MaxTokens: 4})
	require.ErrorIs(t, err, ctx.Err())
	require.Empty(t, p.chats)
	require.Eventually(t, func() bool { return all[0].Calls()["/abort_requests"] == 2 }, 10*time.Second, time.Millisecond)
}

// TestAServerThatIsStartingIsWaitedFor: one that answers that it is not ready becomes ready; one that never is
// costs at most Startup, and nothing once the context has ended. Other answers are errors at once.
func TestAServerThatIsStartingIsWaitedFor(t *testing.T) {
	c, all, _ := stubs(t, VLLM, 1)
	var asked atomic.Int32
	var ready atomic.Int32 // the request from which on it answers
	onRequest := func() {}
	status := http.StatusServiceUnavailable
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if onRequest(); asked.Add(1) < ready.Load() {
			w.WriteHeader(status)
			return
		}
		all[0].ServeHTTP(w, r)
	}))
	defer h.Close()
	o := testOptions(VLLM, h.URL)
	ready.Store(6)
	_, err := Open(t.Context(), c, o)
	require.ErrorIs(t, err, ErrServer, "without Startup it is asked once")
	require.EqualValues(t, 1, asked.Load())

	o.Startup = time.Hour
	f, err := Open(t.Context(), c, o)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.Greater(t, asked.Load(), int32(6))

	ready.Store(math.MaxInt32)
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("the run was stopped")
	asked.Store(0)
	onRequest = func() {
		if asked.Load() == 3 {
			cancel(reason)
		}
	}
	_, err = Open(ctx, c, o)
	require.ErrorIs(t, err, reason)

	onRequest = func() {}
	o.Startup = 30 * time.Millisecond
	_, err = Open(t.Context(), c, o)
	testkit.Error(t, err, ErrServer, "it was asked")

	o.Startup, status = time.Hour, http.StatusUnauthorized
	asked.Store(0)
	_, err = Open(t.Context(), c, o)
	require.ErrorIs(t, err, ErrAccess)
	require.EqualValues(t, 1, asked.Load(), "a refused key is not waited for")
}
