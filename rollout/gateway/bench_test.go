package gateway

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"image"
	"image/png"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/policy"
	"vagen/rollout"
	"vagen/rollout/gateway/internal/dialect"
)

// BenchmarkIdle reports the memory of 10,000 episodes that wait for a client.
func BenchmarkIdle(b *testing.B) {
	for b.Loop() {
		idle(b, 10000)
	}
}

func idle(t *testing.B, n int) {
	g, err := New(Settings{})
	require.NoError(t, err)
	r := new(env.Registry)
	r.SetRemote("agent")
	require.NoError(t, r.Register("agent", g.Env))
	p := rollout.Player{Policy: &scripted{}, Envs: r, MaxTurns: 3, Patience: time.Millisecond, UncountedRemote: true}
	used := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapInuse + m.StackInuse
	}
	before := used()
	done := make(chan error)
	go func() {
		episodes := make([]rollout.Episode, n)
		for i := range episodes {
			episodes[i] = rollout.Episode{Env: "agent", Config: map[string]any{"wait": true}}
		}
		_, _, err := p.Play(t.Context(), episodes, 1)
		done <- err
	}()
	require.Eventually(t, func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return len(g.waiting) == n
	}, time.Minute, 10*time.Millisecond)
	t.ReportMetric(float64(used()-before)/1e6, "MB")
	g.Drain()
	require.ErrorIs(t, <-done, rollout.ErrNotStarted)
	require.NoError(t, g.Close())
}

// paced is a policy that takes a given time for a batch.
type paced struct {
	*scripted
	each time.Duration
}

func (p paced) Generate(ctx context.Context, prompts []policy.Prompt, o policy.Sampling) ([]policy.Completion, error) {
	over := time.After(p.each)
	out, err := p.scripted.Generate(ctx, prompts, o)
	<-over
	return out, err
}

// calls is an environment of this process that needs no time: what agents are compared with.
type calls struct{ left int }

func (*calls) System(context.Context) (env.Observation, error) { return env.Observation{}, nil }
func (*calls) Close() error                                    { return nil }

func (c *calls) Reset(context.Context, int64) (env.Observation, error) {
	return env.Observation{Text: "go"}, nil
}

func (c *calls) Step(context.Context, string) (env.Outcome, error) {
	c.left--
	return env.Outcome{Done: c.left == 0, Observation: env.Observation{Text: "go on"}}, nil
}

// BenchmarkAgents: 64 agents at once over HTTP, against 64 episodes of an environment of this process, with a
// policy that takes 0.5 s for a batch, or VAGEN_BATCH.
func BenchmarkAgents(b *testing.B) {
	const n, turns = 64, 10
	p := paced{always("an answer of some words"), 500 * time.Millisecond}
	if s := os.Getenv("VAGEN_BATCH"); s != "" {
		var err error
		p.each, err = time.ParseDuration(s)
		require.NoError(b, err)
	}
	g, err := New(Settings{Agent: func(ctx context.Context, e *Episode) (*Score, error) {
		ms := []object{{"role": "user", "content": "go"}}
		for range turns {
			raw, err := json.Marshal(object{"messages": ms})
			require.NoError(b, err)
			code, _, a := post(b, e.URL+"/v1/chat/completions", "", string(raw))
			require.Equal(b, 200, code)
			ms = append(ms, a["choices"].([]any)[0].(map[string]any)["message"].(map[string]any),
				object{"role": "user", "content": "go on"})
		}
		return &Score{Reward: 1}, nil
	}})
	require.NoError(b, err)
	envs := new(env.Registry)
	envs.SetRemote(Name)
	require.NoError(b, envs.Register(Name, g.Env))
	require.NoError(b, envs.Register("calls", func(map[string]any) (env.Env, error) { return &calls{turns}, nil }))
	http.DefaultTransport.(*http.Transport).MaxIdleConnsPerHost = n // agents keep their connections
	took := map[string]time.Duration{}
	for b.Loop() {
		for _, name := range []string{"calls", Name} {
			player := rollout.Player{Policy: p, Envs: envs, MaxTurns: turns + 1, UncountedRemote: true,
				Sampling: policy.Sampling{MaxTokens: 100, Temperature: 1}}
			episodes := make([]rollout.Episode, n)
			for i := range episodes {
				episodes[i] = rollout.Episode{Env: name, Index: i}
			}
			begin := time.Now()
			ts, _, err := player.Play(b.Context(), episodes, 1)
			took[name] += time.Since(begin)
			require.NoError(b, err)
			require.Len(b, ts[n-1].Turns, turns)
		}
	}
	rounds := float64(b.N * turns)
	b.ReportMetric((took[Name]-took["calls"]).Seconds()*1e3/rounds, "ms/round-more")
	b.ReportMetric(100*(1-took["calls"].Seconds()/took[Name].Seconds()), "%slower")
	b.ReportMetric(float64(b.N*n*turns)/took[Name].Seconds(), "turns/s")
	require.NoError(b, g.Close())
}

// BenchmarkCalls reports the gateway's own time for a call of conversations of ten turns, which are sent whole: of a
// few words, of 2 kB with reasoning and a tool, and with a picture of 100 kB in each turn.
func BenchmarkCalls(b *testing.B) {
	picture := func(turn int) string {
		im := image.NewRGBA(image.Rect(0, 0, 160, 160))
		r := rand.New(rand.NewPCG(7, uint64(turn)))
		for i := range im.Pix {
			im.Pix[i] = byte(r.Uint32() | 0x80)
		}
		var file bytes.Buffer
		require.NoError(b, png.Encode(&file, im))
		return "data:image/png;base64," + base64.StdEncoding.EncodeToString(file.Bytes())
	}
	many := strings.Repeat("Some words that\nsomebody wrote. ", 66)
	tools := []object{{"type": "function", "function": object{"name": "look", "parameters": object{"type": "object"}}}}
	for _, c := range []struct {
		name, answer string
		content      func(turn int) any
		tools        any
	}{
		{"words", "an answer of some words", func(int) any { return "go on" }, nil},
		{"texts", "<think>\n" + many + "</think>\n\n" + many, func(int) any { return many }, tools},
		{"pictures", "an answer of some words", func(turn int) any {
			return []object{{"type": "text", "text": "Look:"}, {"type": "image_url", "image_url": object{"url": picture(turn)}}}
		}, nil},
	} {
		b.Run(c.name, func(b *testing.B) {
			var bodies []string // a call has one more than the one before it
			var ms []object
			for turn := range 10 {
				ms = append(ms, object{"role": "user", "content": c.content(turn)})
				raw, err := json.Marshal(object{"messages": ms, "tools": c.tools})
				require.NoError(b, err)
				bodies = append(bodies, string(raw))
				ms = append(ms, object{"role": "assistant", "content": strings.TrimSpace(dialect.Plain(c.answer))})
			}
			g := unserved(nil)
			h := g.handler()
			b.ReportAllocs()
			for b.Loop() {
				made, err := g.Env(nil)
				require.NoError(b, err)
				e := made.(player).Episode
				require.NoError(b, g.add(e))
				go func() {
					for {
						if o, err := made.(player).proceed(b.Context()); err != nil || o.Done {
							break
						}
						e.give(rollout.Reply{Turn: len(e.turns), Text: c.answer})
					}
				}()
				for turn, body := range bodies {
					w := httptest.NewRecorder()
					r := httptest.NewRequest("POST", "http://127.0.0.1/episodes/"+e.ID+"/v1/chat/completions", strings.NewReader(body))
					h.ServeHTTP(w, r)
					require.Equal(b, 200, w.Code, "%s", w.Body)
					require.Equal(b, turn == 0, e.turns[turn].parent == e.root, "a call continues its row")
				}
				e.end(nil)
				g.remove(e)
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*len(bodies)), "us/call")
		})
	}
}
