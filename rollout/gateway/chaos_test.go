package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/policy"
	"vagen/rollout"
)

// playMany plays n episodes at once, whose agents run on their own time.
func playMany(t testing.TB, g *Gateway, p policy.Policy, n int, config map[string]any) []*rollout.Trajectory {
	t.Helper()
	return playWithin(t, g, p, n, config, rollout.Budget{})
}

// playWithin is playMany with a budget.
func playWithin(
	t testing.TB, g *Gateway, p policy.Policy, n int, config map[string]any, budget rollout.Budget,
) []*rollout.Trajectory {
	t.Helper()
	r := new(env.Registry)
	r.SetRemote(Name)
	require.NoError(t, r.Register(Name, g.Env))
	player := rollout.Player{Policy: p, Envs: r, MaxTurns: 100, UncountedRemote: true, Patience: time.Millisecond,
		Budget: budget, Sampling: policy.Sampling{MaxTokens: 1000, Temperature: 1}}
	episodes := make([]rollout.Episode, n)
	for i := range episodes {
		episodes[i] = rollout.Episode{Env: Name, Config: config, Seed: int64(i), Index: i}
	}
	ts, _, err := player.Play(t.Context(), episodes, 1)
	if err != nil {
		require.ErrorIs(t, err, rollout.ErrNotStarted)
	}
	return ts
}

var errDropped = errors.New("the connection was dropped")

// flaky is an agent on a network that loses one in twenty requests: before it is sent, while the policy
// answers, or with the answer. It asks again, and says so if it is marked.
type flaky struct {
	r      *rand.Rand
	e      *Episode
	marked bool
	got    []string // answers that arrived, by turn
	lost   int      // requests whose answer was not read
}

func (f *flaky) try(ctx context.Context, path string, body any, n int) (map[string]any, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, f.e.URL+path, bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	if f.marked {
		r.Header.Set("X-Stainless-Retry-Count", fmt.Sprint(n))
	}
	lost := f.r.IntN(60)
	if lost == 0 {
		return nil, errDropped
	}
	if lost == 1 {
		time.AfterFunc(time.Duration(f.r.IntN(60))*time.Millisecond, cancel)
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		f.lost++
		return nil, errDropped
	}
	defer a.Body.Close()
	raw, err = io.ReadAll(a.Body)
	if err != nil || lost == 2 {
		f.lost++
		return nil, errDropped
	}
	var out map[string]any
	if err = json.Unmarshal(raw, &out); a.StatusCode != 200 {
		err = fmt.Errorf("status %d: %s", a.StatusCode, raw)
	}
	return out, err
}

func (f *flaky) send(ctx context.Context, path string, body any) (map[string]any, error) {
	for n := 0; ; n++ {
		out, err := f.try(ctx, path, body, n)
		if !errors.Is(err, errDropped) || ctx.Err() != nil {
			return out, err
		}
	}
}

// play makes four calls and returns the id of the last answer.
func (f *flaky) play(ctx context.Context) (id string, err error) {
	ms := []object{{"role": "user", "content": "go"}}
	for range 4 {
		a, err := f.send(ctx, "/v1/chat/completions", object{"messages": ms})
		if err != nil {
			return "", err
		}
		m := a["choices"].([]any)[0].(map[string]any)["message"].(map[string]any)
		f.got = append(f.got, m["content"].(string))
		id = a["id"].(string)
		ms = append(ms, m, object{"role": "user", "content": "go on"})
	}
	return id, nil
}

// TestEveryEpisodeIsTrainedOnceOrCountedWithItsCause on a network that loses requests, with agents that are
// killed, and with rewards that are sent twice or never.
func TestEveryEpisodeIsTrainedOnceOrCountedWithItsCause(t *testing.T) {
	const n = 200
	agents := make([]*flaky, n)
	g, err := New(Settings{Agent: func(ctx context.Context, e *Episode) (*Score, error) {
		f := &flaky{r: rand.New(rand.NewPCG(uint64(e.Seed), 5)), e: e, marked: e.Seed%2 == 0}
		agents[e.Seed] = f
		id, err := f.play(ctx)
		if err != nil {
			return nil, err
		}
		pay := func(body object) {
			for range 2 {
				_, again := f.send(ctx, "/reward", body)
				err = errors.Join(err, again)
			}
		}
		switch e.Seed % 10 {
		case 0:
			return nil, nil // without a reward
		case 1:
			return nil, errors.New("killed")
		case 2:
			panic("killed")
		case 3:
			pay(object{"reward": 1})
		case 4:
			pay(object{"reward": 0.25, "answer": id})
			return &Score{Reward: 0.75}, err
		default:
			return &Score{Reward: 1}, nil
		}
		return nil, err
	}})
	require.NoError(t, err)
	var number atomic.Int64
	s := &scripted{next: func(policy.Prompt) string { return fmt.Sprintf("answer %d.", number.Add(1)) }}
	ts := playMany(t, g, paced{s, 5 * time.Millisecond}, n, nil)
	require.NoError(t, g.Close())
	lost := 0
	for i, tr := range ts {
		lost += agents[i].lost
		switch i % 10 {
		case 0:
			require.ErrorIs(t, tr.Err, ErrNoReward)
		case 1, 2:
			require.ErrorIs(t, tr.Err, ErrAgent)
		default:
			require.NoError(t, tr.Err, "episode %d", i)
			require.Equal(t, 1.0, tr.Return(), "episode %d", i)
			checkRows(t, tr)
			agents[i].check(t, tr)
		}
	}
	require.Positive(t, lost)
	require.Empty(t, g.episodes)
}

// check compares the answers that the agent used with the turns.
func (f *flaky) check(t *testing.T, tr *rollout.Trajectory) {
	kept := map[string]bool{}
	for _, turn := range tr.Turns {
		require.False(t, kept[turn.Response], "twice")
		kept[turn.Response] = true
	}
	for _, answer := range f.got {
		require.True(t, kept[answer], "%s is not trained", answer)
	}
	// An answer to the last call that was lost on the way is not known to be lost.
	require.LessOrEqual(t, len(tr.Turns), len(f.got)+2)
}

// long is a policy whose answers fill the buffers of a connection.
type long struct{}

func (long) Forget(...uint64) {}

func (long) Generate(_ context.Context, prompts []policy.Prompt, _ policy.Sampling) ([]policy.Completion, error) {
	out := make([]policy.Completion, len(prompts))
	for i := range out {
		out[i] = policy.Completion{Text: "short", Stop: policy.StopEnd}
		if strings.Contains(prompts[i].Messages[0].Text, "long") {
			out[i].Text = strings.Repeat("word ", 8<<20)
		}
	}
	return out, nil
}

// TestAClientThatReadsNothingCostsOneEpisode: the others are answered while its answer waits. Neither does
// one that sends without end.
func TestAClientThatReadsNothingCostsOneEpisode(t *testing.T) {
	var g *Gateway
	var others atomic.Int64
	answered, done := make(chan struct{}), make(chan struct{})
	g, err := New(Settings{MaxBody: 1 << 20, Agent: func(ctx context.Context, e *Episode) (*Score, error) {
		if e.Seed == 0 {
			c, err := net.Dial("tcp", strings.TrimPrefix(g.URL(), "http://"))
			if err != nil {
				return nil, err
			}
			defer c.Close()
			body := `{"stream": true, "messages": [{"role": "user", "content": "long"}]}`
			fmt.Fprintf(c, "POST /episodes/%s/v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n"+
				"Content-Length: %d\r\n\r\n%s", e.ID, len(body), body)
			for n := 0; n == 0; time.Sleep(time.Millisecond) {
				e.mu.Lock()
				n = len(e.turns)
				e.mu.Unlock()
			}
			close(answered)
			<-done
			return nil, errors.New("it was slow")
		}
		<-answered
		if e.Seed == 1 {
			code := 0
			if a, err := http.Post(e.URL+"/v1/chat/completions", "", io.LimitReader(endless{}, 1<<40)); err == nil {
				code = a.StatusCode
				_ = a.Body.Close()
			}
			require.Contains(t, []int{0, 413}, code)
		}
		for range 3 {
			if code, _, a := post(t, e.URL+"/v1/chat/completions", "", question); code != 200 {
				return nil, fmt.Errorf("%v", a)
			}
		}
		if others.Add(1) == 3 {
			close(done)
		}
		return &Score{Reward: 1}, nil
	}})
	require.NoError(t, err)
	ts := playMany(t, g, long{}, 4, nil)
	require.NoError(t, g.Close())
	require.ErrorContains(t, ts[0].Err, "it was slow")
	for _, tr := range ts[1:] {
		require.NoError(t, tr.Err)
	}
}

// endless is a body without end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// TestWhatClientsSendFirst is answered in the form that they expect, and pages of browsers are refused.
func TestWhatClientsSendFirst(t *testing.T) {
	var g *Gateway
	g, err := New(Settings{Agent: func(_ context.Context, e *Episode) (*Score, error) {
		at := "/episodes/" + e.ID
		for _, c := range []struct {
			method, path, origin string
			status               int
			body                 string
		}{
			{"HEAD", "/", "", 200, ""},
			{"GET", "/", "", 200, "gateway"},
			{"HEAD", at, "", 200, ""},
			{"GET", at + "/v1", "", 200, `"policy"`},
			{"GET", at + "/v1/models/", "", 200, `"policy"`},
			{"GET", at + "/v1/models/gpt", "", 200, `"policy"`},
			{"GET", at + "/v1/models/Qwen/Qwen3-4B", "", 200, `"policy"`},
			{"GET", "/v1/models", "", 200, `"policy"`}, // by key
			{"POST", at + "/v1/messages/count_tokens", "", 200, `"input_tokens"`},
			{"POST", at + "/v1/embeddings", "", 404, `"code":"no_route"`},
			{"POST", at + "/v1/messages/batches", "", 404, `"type":"error"`},
			{"POST", "/episodes/none/v1/chat/completions", "", 404, `"code":"no_episode"`},
			{"OPTIONS", at + "/v1/chat/completions", "https://page.example", 403, "web pages"},
			{"POST", at + "/v1/chat/completions", "https://page.example", 403, "web pages"},
		} {
			r, err := http.NewRequest(c.method, g.URL()+c.path, strings.NewReader("{}"))
			require.NoError(t, err)
			r.Header.Set("X-Api-Key", e.Key)
			if c.origin != "" {
				r.Header.Set("Origin", c.origin)
			}
			a, err := http.DefaultClient.Do(r)
			require.NoError(t, err)
			raw, err := io.ReadAll(a.Body)
			require.NoError(t, errors.Join(err, a.Body.Close()))
			require.Equal(t, c.status, a.StatusCode, "%s %s", c.method, c.path)
			require.Contains(t, string(raw), c.body, "%s %s", c.method, c.path)
			require.Empty(t, a.Header.Get("Access-Control-Allow-Origin"))
		}
		r, err := http.NewRequest("GET", g.URL()+"/v1/models", nil)
		require.NoError(t, err)
		r.Header.Set("X-Api-Key", "that of the environment") // anthropic-python sends both
		r.Header.Set("Authorization", "bearer "+e.Key)
		a, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, a.Body.Close())
		require.Equal(t, 200, a.StatusCode)
		const count = "/v1/messages/count_tokens"
		code, _, _ := post(t, e.URL+count, "", "{bad")
		require.Equal(t, 400, code)
		_, _, counted := post(t, e.URL+count, "", `{"messages": [{"role": "user", "content": [
			{"type": "image", "source": {"type": "base64", "data": "`+strings.Repeat("AAAA", 10_000)+`"}}]}]}`)
		require.InDelta(t, imageTokens, counted["input_tokens"], 100)
		return &Score{}, nil
	}})
	require.NoError(t, err)
	require.ErrorIs(t, play(t, g, &scripted{}, nil).Err, ErrNoTurns, "none of these is a call")
	require.NoError(t, g.Close())
}
