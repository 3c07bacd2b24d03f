package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/internal/retry"
	"vagen/reward"
	"vagen/reward/judge"
)

const secret = "sk-proj-4f9a81c2e77d40b0"

// stub is a service of OpenAI's form. fault answers a request itself and returns true, or
// returns false for a right answer.
type stub struct {
	*httptest.Server
	requests atomic.Int64
	fault    func(n int64, prompt string, w http.ResponseWriter, r *http.Request) bool
}

func newStub(t *testing.T, fault func(n int64, prompt string, w http.ResponseWriter, r *http.Request) bool) *stub {
	s := &stub{fault: fault}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct{ Messages []struct{ Content string } }
		raw, _ := io.ReadAll(r.Body)
		if json.Unmarshal(raw, &in) != nil || len(in.Messages) != 1 {
			t.Errorf("request %s", raw)
		}
		n := s.requests.Add(1)
		if s.fault != nil && s.fault(n, in.Messages[0].Content, w, r) {
			return
		}
		reply(w, rightAnswer)
	}))
	t.Cleanup(s.Close)
	return s
}

const rightAnswer = `[{"object_id": "box", "vertical_relation": "below", "horizontal_relation": "left"}]`

func reply(w http.ResponseWriter, content string) {
	text, _ := json.Marshal(content)
	_, _ = io.WriteString(w, `{"choices":[{"message":{"role":"assistant","content":`+string(text)+
		`},"finish_reason":"stop"}]}`)
}

// settings returns a block for a stub, with delays of a test.
func settings(url string, change func(*judge.Service)) *judge.StateReward {
	b := judge.DefaultStateReward()
	b.JudgeURL, b.JudgeModel, b.Base = url+"/v1", "m", 0
	if change != nil {
		change(&b.Service)
	}
	return &b
}

func open(t *testing.T, b *judge.StateReward, log *slog.Logger) (*judge.Model, *Client) {
	t.Helper()
	c, err := New(b, log)
	require.NoError(t, err)
	c.backoff = retry.Doubling(time.Millisecond, 5*time.Millisecond)
	return &judge.Model{Complete: c.Complete}, c
}

// claimOf is a true claim that no other has.
func claimOf(i int) reward.Claim {
	return reward.Claim{Section: reward.SectionObservation, Env: "sokoban", Weight: 1,
		Text:  fmt.Sprintf("<claim %d> the box is below me on the left", i),
		Truth: []reward.Relation{reward.Relate("box", 1, -1)}}
}

// safe is a buffer for a log.
type safe struct {
	mu sync.Mutex
	bytes.Buffer
}

func (s *safe) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Buffer.Write(p)
}

// Of 1,000 true claims, each is scored 1 or has no score and is counted, though one request
// in twenty fails, each time in another way, and some claims never get an answer. None scores
// 0, and the key, which the service repeats in its errors, appears nowhere.
func TestAThousandClaimsAreScoredOrCountedThoughTheServiceFails(t *testing.T) {
	t.Setenv("JUDGE_KEY", secret)
	never := func(prompt string) bool {
		for i := 0; i < 1000; i += 125 {
			if strings.Contains(prompt, fmt.Sprintf("<claim %d>", i)) {
				return true
			}
		}
		return false
	}
	s := newStub(t, func(n int64, prompt string, w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") != "Bearer "+secret {
			t.Error("the key is not sent")
		}
		kind := n / 20 % 9
		if never(prompt) {
			kind = n % 9
		} else if n%20 != 7 {
			return false
		}
		switch kind {
		case 0: // no answer in time
			<-r.Context().Done()
		case 1:
			http.Error(w, `{"error": {"message": "internal, key `+secret+`"}}`, http.StatusInternalServerError)
		case 2:
			w.Header().Set("Retry-After", "0.01")
			http.Error(w, `{"error": {"message": "slow down `+secret+`"}}`, http.StatusTooManyRequests)
		case 3:
			c, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				c.Close()
			}
		case 4: // broken JSON
			_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"[{\"object_id\"`)
		case 5: // another schema of the protocol
			_, _ = io.WriteString(w, `{"output": "`+secret+`", "choices": []}`)
		case 6: // other schemas of the answer
			reply(w, `{"relations": [], "note": "`+secret+`"}`)
		case 7:
			reply(w, `[{"name": "box", "position": "below"}]`)
		case 8:
			reply(w, []string{`[1, 2, 3]`, `I see no box.`,
				`[{"object_id": "box", "vertical_relation": "south", "horizontal_relation": "left"}]`, ""}[n%4])
		}
		return true
	})
	var log safe
	dir := t.TempDir()
	m, _ := open(t, settings(s.URL, func(o *judge.Service) {
		o.KeyEnv, o.Timeout, o.Cache, o.Retries, o.BreakerFailures = "JUDGE_KEY", 0.25, dir, 2, 0
	}), slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	ctx, meter := WithMeter(t.Context())
	scores := make([]float64, 1000)
	var wg sync.WaitGroup
	for first := 0; first < 1000; first += 2 { // two claims per turn
		wg.Go(func() {
			got, err := m.Score(ctx, []reward.Claim{claimOf(first), claimOf(first + 1)})
			if err != nil {
				t.Errorf("%v", err)
				return
			}
			copy(scores[first:], got)
		})
	}
	wg.Wait()
	missing := 0
	for i, x := range scores {
		if math.IsNaN(x) {
			missing++
		} else if x != 1 {
			t.Errorf("claim %d, which is true, scores %v", i, x)
		}
	}
	u := meter.Usage()
	require.Equal(t, 1000, u.Claims)
	require.Equal(t, missing, u.Missing(), "each claim without a score is counted: %v", u.Unscored)
	require.GreaterOrEqual(t, missing, 8, "those that never get an answer")
	require.Less(t, missing, 30, "a claim whose first attempt fails is asked about again: %v", u.Unscored)
	metrics := map[string]float64{}
	u.Write(metrics, "judge/")
	require.InDelta(t, float64(missing)/1000, metrics["judge/unscored"], 1e-12)

	all := log.String() + fmt.Sprint(u) + fmt.Sprint(metrics)
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		all += path + string(raw)
		return err
	}))
	for i := range len(secret) - 8 {
		require.NotContains(t, all, secret[i:i+8], "the key is hidden, and so are parts of it")
	}
	require.Contains(t, log.String(), "no score")
}

func TestAnswersOfAWrongFormAreNoAnswers(t *testing.T) {
	var prompts [2]string
	m := &judge.Model{Complete: func(_ context.Context, p []string) ([]string, []error, error) {
		copy(prompts[:], p)
		return []string{"", ""}, []error{nil, nil}, nil
	}}
	of := claimOf(0)
	number := of
	number.State, number.Truth = "{}", nil
	_, err := m.Score(t.Context(), []reward.Claim{of, number})
	require.NoError(t, err)
	for answer, want := range map[string][2]bool{
		rightAnswer: {true, false}, "[]": {true, false}, "Here:\n```json\n[]\n```": {true, false},
		"<answer>YES</answer>": {false, true}, "No: <answer>no</answer>": {false, true}, "": {}, "null": {}, "{}": {},
		`{"a": []}`: {}, "[1]": {}, `[[]]`: {},
		"<answer>YES</answer> or <answer>NO</answer>": {}, "YES": {},
		`[{"object_id": "box"}]`: {}, `[{"object_id": 1, "vertical_relation": "above"}]`: {},
		`[{"object_id": "box", "vertical_relation": "above"}]`:                                 {true, false},
		`[{"object_id": "box", "vertical_relation": null, "horizontal_relation": "left"}]`:     {true, false},
		`[{"object_id": "box", "vertical_relation": 3, "horizontal_relation": "left"}]`:        {},
		`[{"object_id": "box", "vertical_relation": "left", "horizontal_relation": "left"}]`:   {},
		`[{"object_id": "box", "vertical_relation": "above"}, {"vertical_relation": "above"}]`: {},
	} {
		for k, p := range prompts {
			err := judge.CheckAnswer(p, answer)
			require.Equal(t, want[k], err == nil, "%q: %v", answer, err)
			if err != nil {
				require.ErrorIs(t, err, judge.ErrAnswer)
			}
		}
	}
}

// A judge that refuses connections costs a step a few attempts, not one delay per turn.
func TestAJudgeThatIsDownIsNotAskedAgainForAWhile(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	m, _ := open(t, settings(gone.URL, func(o *judge.Service) { o.BreakerFailures = 3 }), nil)
	ctx, meter := WithMeter(t.Context())
	for i := range 200 {
		scores, err := m.Score(ctx, []reward.Claim{claimOf(i)})
		require.NoError(t, err)
		require.True(t, math.IsNaN(scores[0]))
	}
	u := meter.Usage()
	require.Equal(t, 3, u.Attempts)
	require.Equal(t, map[Cause]int{Breaker: 200}, u.Unscored, "the first claim's third attempt opens the breaker")
}

func TestTheBreakerLetsOneRequestTestTheService(t *testing.T) {
	now := time.Unix(0, 0)
	b := breaker{failures: 2, pause: time.Minute, now: func() time.Time { return now }}
	require.True(t, b.allow())
	b.report(failed)
	b.report(worked)
	b.report(failed)
	require.True(t, b.allow(), "a success in between starts the count again")
	opened, _ := b.report(failed)
	require.True(t, opened)
	require.False(t, b.allow())
	now = now.Add(2 * time.Minute)
	require.True(t, b.allow())
	require.False(t, b.allow(), "one at a time")
	b.report(unknown)
	require.True(t, b.allow(), "a test that was given up is repeated")
	b.report(failed)
	require.False(t, b.allow())
	now = now.Add(2 * time.Minute)
	require.True(t, b.allow())
	_, closed := b.report(worked)
	require.True(t, closed)
	require.True(t, b.allow())
	require.True(t, b.allow())
}

// A step waits for its judge no longer than its budget, however many turns ask; then claims
// are counted at once. Another step has a budget of its own.
func TestAStepWaitsNoLongerThanItsBudget(t *testing.T) {
	s := newStub(t, func(_ int64, prompt string, _ http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(prompt, "<claim 7>") {
			return false
		}
		<-r.Context().Done()
		return true
	})
	m, _ := open(t, settings(s.URL, func(o *judge.Service) { o.StepBudget = 0.2 }), nil)
	ctx, meter := WithMeter(t.Context())
	for turn := range 50 {
		scores, err := m.Score(ctx, []reward.Claim{claimOf(100 + turn), claimOf(200 + turn)})
		require.NoError(t, err)
		require.True(t, math.IsNaN(scores[0]) && math.IsNaN(scores[1]))
	}
	u := meter.Usage()
	require.Equal(t, map[Cause]int{Budget: 100}, u.Unscored)
	require.GreaterOrEqual(t, u.Waited, 200*time.Millisecond)
	require.LessOrEqual(t, u.Attempts, 2, "nothing is sent after the budget")
	ctx, meter = WithMeter(t.Context())
	scores, err := m.Score(ctx, []reward.Claim{claimOf(7)})
	require.NoError(t, err)
	require.Equal(t, []float64{1}, scores)
	require.Zero(t, meter.Usage().Missing())
}

// A claim is given up before the time limit of its turn, which would end the episode; a run
// that is interrupted gets an error.
func TestAHangingJudgeCostsNoEpisode(t *testing.T) {
	s := newStub(t, func(_ int64, _ string, _ http.ResponseWriter, r *http.Request) bool {
		<-r.Context().Done()
		return true
	})
	m, _ := open(t, settings(s.URL, nil), nil)
	ctx, meter := WithMeter(t.Context())
	turn, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	scores, err := m.Score(turn, []reward.Claim{claimOf(0)})
	require.NoError(t, err)
	require.True(t, math.IsNaN(scores[0]))
	require.Equal(t, map[Cause]int{Timeout: 1}, meter.Usage().Unscored)

	turn, cancel = context.WithCancel(ctx)
	time.AfterFunc(20*time.Millisecond, cancel)
	_, err = m.Score(turn, []reward.Claim{claimOf(0)})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 1, meter.Usage().Missing(), "an interruption is no failure of the judge")
}

func TestCausesAreTold(t *testing.T) {
	status := func(code int, body string) func(int64, string, http.ResponseWriter, *http.Request) bool {
		return func(_ int64, _ string, w http.ResponseWriter, _ *http.Request) bool {
			http.Error(w, body, code)
			return true
		}
	}
	for _, c := range []struct {
		want     Cause
		requests int64
		fault    func(int64, string, http.ResponseWriter, *http.Request) bool
	}{
		{Server, 3, status(503, "overloaded")}, {Key, 1, status(401, "who?")}, {Unreachable, 1, status(404, "no such model")},
		{Busy, 3, status(429, "later")},
		{Refused, 1, status(400, `{"error": {"message": "x", "code": "content_filter"}}`)},
		{Lost, 3, status(200, "nonsense")},
		{Answer, 3, func(_ int64, _ string, w http.ResponseWriter, _ *http.Request) bool { reply(w, "Sorry."); return true }},
	} {
		s := newStub(t, c.fault)
		m, _ := open(t, settings(s.URL, func(o *judge.Service) { o.Retries = 2 }), nil)
		ctx, meter := WithMeter(t.Context())
		scores, err := m.Score(ctx, []reward.Claim{claimOf(0)})
		require.NoError(t, err)
		require.True(t, math.IsNaN(scores[0]))
		require.Equal(t, map[Cause]int{c.want: 1}, meter.Usage().Unscored)
		require.Equal(t, c.requests, s.requests.Load(), c.want)
	}
	for _, c := range Causes() {
		require.NotEmpty(t, (&Error{Cause: c}).Error())
	}
}

func TestKeysAreNamesOfVariables(t *testing.T) {
	b := settings("http://h", func(o *judge.Service) { o.KeyEnv = secret })
	_, err := New(b, nil)
	require.Error(t, err)
	require.NotContains(t, err.Error(), secret)
	for _, block := range []map[string]any{{"judge": map[string]any{"key_env": secret}},
		{"judge_base_url": "http://u:" + secret + "@h/v1"}, {"judge_base_url": "http://h/v1?key=" + secret}} {
		block["state_estimation"], block["judge_model"] = map[string]any{"enable": true}, "m"
		if block["judge_base_url"] == nil {
			block["judge_base_url"] = "http://h/v1"
		}
		_, _, err = judge.TakeStateReward(map[string]any{judge.Key: block})
		require.ErrorContains(t, err, "key_env")
		require.NotContains(t, err.Error(), secret)
	}
	_, err = New(settings("http://h", func(o *judge.Service) { o.KeyEnv = "VAGEN_NO_SUCH_KEY" }), nil)
	require.ErrorContains(t, err, "VAGEN_NO_SUCH_KEY")
}

// TestAPartCountsInTheWholeAndSharesItsTime.
func TestAPartCountsInTheWholeAndSharesItsTime(t *testing.T) {
	_, whole := WithMeter(t.Context())
	one, first := WithPart(t.Context(), whole)
	_, second := WithPart(t.Context(), whole)
	first.add(Usage{Claims: 2})
	second.add(Usage{Unscored: map[Cause]int{Answer: 1}})
	require.Equal(t, []int{2, 0, 2}, []int{first.Usage().Claims, second.Usage().Claims, whole.Usage().Claims})
	require.Equal(t, map[Cause]int{Answer: 1}, whole.Usage().Unscored)
	whole.add(Usage{Waited: time.Hour})
	within, done := first.wait(one, time.Minute)
	defer done()
	<-within.Done()
	require.ErrorIs(t, context.Cause(within), errBudget, "the other parts have used the time")
}
