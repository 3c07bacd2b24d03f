package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/internal/golden"
	"vagen/internal/testkit"
	"vagen/policy"
	"vagen/rollout"
	"vagen/rollout/gateway/internal/dialect"
)

// TestPaymentsAreRecordedOnce: what is sent again must be the same, and nothing new is recorded after the end.
func TestPaymentsAreRecordedOnce(t *testing.T) {
	for name, c := range golden.Table[map[string]struct {
		Success bool
		Sent    []struct {
			Path, Body string
			Status     int
		}
	}](t, "payments.yaml") {
		g, err := New(Settings{})
		require.NoError(t, err)
		p, err := g.Env(map[string]any{"wait": true})
		require.NoError(t, err)
		e := p.(player).Episode
		require.NoError(t, g.add(e))
		e.items = map[string]*call{"EPISODES-0": {}}
		for i, s := range c.Sent {
			w := httptest.NewRecorder()
			sendTo(w, e, "/"+s.Path, s.Body)
			require.Equal(t, s.Status, w.Code, "%s: %d: %s", name, i, w.Body)
		}
		require.Equal(t, c.Success, e.success(), name)
		require.NoError(t, g.Close())
	}
}

// TestOpenGatewaysNeedNoOptions: what the client asks for is recorded.
func TestOpenGatewaysNeedNoOptions(t *testing.T) {
	g, err := New(Settings{Open: true, Agent: askOnce})
	require.NoError(t, err)
	defer func() { require.NoError(t, g.Close()) }()
	tr := play(t, g, always("four"), nil)
	require.NoError(t, tr.Err)
	require.Contains(t, tr.Config, "task")
}

// askOnce is an agent that makes one call.
func askOnce(_ context.Context, e *Episode) (*Score, error) {
	sendTo(httptest.NewRecorder(), e, "/v1/chat/completions", question)
	return &Score{Reward: 1}, nil
}

// panicking is an environment that panics at the end.
type panicking struct{ player }

func (panicking) Conclude(*rollout.Trajectory) error { panic("oh") }

// TestWhatCannotBeConcludedFails: an environment that panics at the end, and one whose end a wrapper hides.
func TestWhatCannotBeConcludedFails(t *testing.T) {
	g := opened(t, askOnce)
	r := new(env.Registry)
	err := errors.Join(r.Register("whole", g.Env), r.Register("panics", func(config map[string]any) (env.Env, error) {
		e, err := g.Env(config)
		return panicking{e.(player)}, err
	}), r.RegisterReward("one", func(map[string]any) (env.TurnReward, error) {
		return func(context.Context, string, *env.Outcome) (float64, error) { return 1, nil }, nil
	}))
	require.NoError(t, err)
	p := rollout.Player{Policy: always("four"), Envs: r, MaxTurns: 3}
	ts, _, err := p.Play(t.Context(), []rollout.Episode{{Env: "whole"}, {Env: "panics"},
		{Env: "whole", Config: map[string]any{"rewards": map[string]any{"one": nil}}}}, 1)
	require.NoError(t, err)
	require.NoError(t, ts[0].Err)
	require.Equal(t, rollout.EndContract, ts[1].End)
	require.ErrorContains(t, ts[1].Err, "conclude panicked: oh")
	testkit.Error(t, ts[2].Err, env.ErrOption, "option rewards")
}

// TestGatewaysAreSharedByEqualOptions: each token and host has its own, and a port only one of them.
func TestGatewaysAreSharedByEqualOptions(t *testing.T) {
	p := &pool{open: map[access]*Gateway{}}
	defer func() { require.NoError(t, p.close()) }()
	a := DefaultOptions()
	b := a
	b.Host = "example.org:80"
	first, err := p.gateway(&a)
	require.NoError(t, err)
	second, err := p.gateway(&b)
	require.NoError(t, err)
	require.NotSame(t, first, second)
	require.Equal(t, "http://example.org:80", second.URL())
	for g, status := range map[*Gateway]int{first: 403, second: 200} { // the name that agents get
		for _, url := range []string{"http://example.org:80/", "http://example.org/"} { // not all clients send this port
			w := httptest.NewRecorder()
			g.server.Handler.ServeHTTP(w, httptest.NewRequest("GET", url, nil))
			require.Equal(t, status, w.Code, url)
		}
	}
	again, err := p.gateway(&a)
	require.NoError(t, err)
	require.Same(t, first, again)
	p.open[access{listen: "127.0.0.1:9"}] = first
	b.Listen = "127.0.0.1:9"
	_, err = p.gateway(&b)
	require.ErrorIs(t, err, env.ErrOption)
}

// TestTasksAreComparedByValue: numbers of YAML are those of JSON, inside of lists and objects, too.
func TestTasksAreComparedByValue(t *testing.T) {
	e := &Episode{Task: map[string]any{"a": []any{uint64(1), map[string]any{"b": 2}}}}
	for want, b := range map[bool]float64{true: 2, false: 3} {
		asked := wish{Task: fmt.Appendf(nil, `{"a": [1, {"b": %v}]}`, b)}
		require.Nil(t, asked.readTask())
		require.Equal(t, want, asked.fits(e))
	}
}

// TestATwinIsDiscardedUnlessItIsPaid: of two equal calls the one that is never continued, also if it came later.
func TestATwinIsDiscardedUnlessItIsPaid(t *testing.T) {
	for turns, reward := range map[int]float64{2: 0, 3: 1} {
		g, err := New(Settings{Agent: func(_ context.Context, e *Episode) (*Score, error) {
			const chat = "/v1/chat/completions"
			post(t, e.URL+chat, "", question)
			post(t, e.URL+chat, "", `{"messages": [{"role": "user", "content": "two and two?"},
				{"role": "assistant", "content": "four"}, {"role": "user", "content": "sure?"}]}`)
			_, _, a := post(t, e.URL+chat, "", question)
			if reward > 0 {
				code, _, _ := post(t, e.URL+"/reward", "", `{"reward": 1, "answer": "`+a["id"].(string)+`"}`)
				require.Equal(t, 200, code)
			}
			return &Score{}, nil
		}})
		require.NoError(t, err)
		tr := play(t, g, always("four"), nil)
		require.NoError(t, errors.Join(tr.Err, g.Close()))
		checkRows(t, tr)
		require.Len(t, tr.Turns, turns)
		require.Equal(t, reward, tr.Return())
	}
}

// TestCommandsGetTheirEpisode: each SDK finds the key in a variable that it reads, and a task must fit one.
func TestCommandsGetTheirEpisode(t *testing.T) {
	e := &Episode{Key: "ep-1"}
	vars := e.environ()
	for _, name := range []string{"OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"} {
		require.Contains(t, vars, name+"=ep-1")
	}
	for want, task := range map[string]any{"131083 bytes of JSON": strings.Repeat("x", 128<<10),
		"must be JSON": math.Inf(1)} {
		_, err := unserved(nil).Env(map[string]any{"task": map[string]any{"name": task}, "command": []any{"agent"}})
		testkit.Error(t, err, env.ErrOption, want)
	}
}

// TestCommandsDoNotGetTheToken: it would let them open episodes, and be in what they write.
func TestCommandsDoNotGetTheToken(t *testing.T) {
	t.Setenv("GATE_TOKEN", "secret")
	e := &Episode{Key: "ep-1", options: Options{TokenEnv: "GATE_TOKEN"}}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `echo "[$GATE_TOKEN$PATH]" >&2; exit 3`)
	err := e.run(cmd)
	require.ErrorContains(t, err, "["+os.Getenv("PATH")+"]")
}

// TestPicturesAreCountedOnce: those that every call sends again, and broken ones, use up nothing.
func TestPicturesAreCountedOnce(t *testing.T) {
	var file bytes.Buffer
	require.NoError(t, png.Encode(&file, image.NewGray(image.Rect(0, 0, 4096, 4096))))
	e := &Episode{record: record{images: map[[32]byte]image.Image{}}}
	for range 10 {
		bad := e.decode([]dialect.Message{{Images: []dialect.Image{{Data: file.Bytes()[:33]}}}})
		require.NotContains(t, bad.Error(), "more than")
	}
	file.Reset()
	require.NoError(t, png.Encode(&file, image.NewGray(image.Rect(0, 0, 1, 1))))
	again := make([]dialect.Image, 500)
	again[0].Data = file.Bytes()
	require.Nil(t, e.decode([]dialect.Message{{Images: again}}))
}

// TestErrorsOfServicesHideTheKey: a service may repeat what it was sent.
func TestErrorsOfServicesHideTheKey(t *testing.T) {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = io.Copy(w, r.Body)
	}))
	defer service.Close()
	g, err := New(Settings{})
	require.NoError(t, err)
	tr := play(t, g, &scripted{}, map[string]any{"url": service.URL})
	require.ErrorContains(t, tr.Err, "422")
	require.ErrorContains(t, tr.Err, "[key]")
	require.NotContains(t, tr.Err.Error(), "ep-")
	service.Close()
	tr = play(t, g, &scripted{}, map[string]any{"url": service.URL + "/?key=hidden"})
	require.NoError(t, g.Close())
	require.ErrorContains(t, tr.Err, "url: dial")
	require.NotContains(t, tr.Err.Error(), "hidden")
}

// TestTextsOfAConversation: many users' messages are joined at once, and calls without arguments are shown as calls.
func TestTextsOfAConversation(t *testing.T) {
	ms := []dialect.Message{{Role: dialect.System, Text: "a"}, {Role: dialect.System, Text: "b"}, hello,
		{Role: dialect.Assistant, Calls: []dialect.Call{{Name: "f"}}}, {Role: dialect.Tool, Text: "c"}, hello}
	var got []string
	for _, m := range new(Episode).messages(ms, true) {
		got = append(got, m.Text)
	}
	require.Equal(t, []string{"a\n\nb", "hello", "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>",
		"<tool_response>\nc\n</tool_response>\nhello"}, got)
	picture := dialect.Message{Role: dialect.System, Text: env.ImageMark, Images: make([]dialect.Image, 1)}
	shown := new(Episode).messages(withTools([]dialect.Message{{Role: dialect.System, Text: "a"}, picture}, "{}"), true)
	require.Len(t, shown, 2)
	require.Equal(t, []any{policy.System, policy.User}, []any{shown[0].Role, shown[1].Role}, "templates show it there")
}

// counting is a policy that counts tokens, and knows the limits of the responses that it was asked for.
type counting struct {
	*scripted
	limits []int
}

func (c *counting) Count(q policy.Prompt) (n int, err error) {
	if c.cannotRead(q) {
		return 0, policy.ErrMessages
	}
	for _, m := range q.Messages {
		n += len("[") + len(m.Role) + len("]") + len(m.Text)
	}
	return n + len("[assistant]"), nil
}

func (c *counting) Generate(ctx context.Context, prompts []policy.Prompt, o policy.Sampling) ([]policy.Completion, error) {
	for _, q := range prompts {
		c.limits = append(c.limits, q.MaxTokens)
	}
	return c.scripted.Generate(ctx, prompts, o)
}

// TestABudgetLimitsResponses of agents to what their row has left, also if no other limit on responses is set.
func TestABudgetLimitsResponses(t *testing.T) {
	g, err := New(Settings{Agent: askOnce})
	require.NoError(t, err)
	r := new(env.Registry)
	require.NoError(t, r.Register("agent", g.Env))
	for _, limits := range [][3]int{{0, 0, 71}, {100, 0, 71}, {50, 0, 0}, {100, 50, 50}} {
		c := &counting{scripted: always("four")}
		p := rollout.Player{Policy: c, Envs: r, MaxTurns: 2, Budget: rollout.Budget{Response: 100},
			Sampling: policy.Sampling{MaxTokens: limits[0]}}
		ts, _, err := p.Play(t.Context(), []rollout.Episode{{Env: "agent", MaxTokens: limits[1]}}, 1)
		require.NoError(t, errors.Join(err, ts[0].Err))
		require.Equal(t, []int{limits[2]}, c.limits, limits)
	}
	require.NoError(t, g.Close())
}
