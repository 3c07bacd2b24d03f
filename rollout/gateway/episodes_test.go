package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/policy"
	"vagen/rollout"
)

// TestMain runs the programs of tests: agents and scorers.
func TestMain(m *testing.M) {
	switch {
	case os.Getenv("VAGEN_EPISODE_URL") != "":
		os.Exit(3) // an agent that crashes
	case len(os.Args) > 1 && os.Args[1] == "score":
		var r Record
		if json.NewDecoder(os.Stdin).Decode(&r) != nil || len(r.Turns) != 1 || r.Turns[0].Text != "four" {
			os.Exit(1)
		}
		_, _ = os.Stdout.WriteString(`{"reward": 0.25, "success": true}`)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// post sends JSON and returns the status and the answer.
func post(t testing.TB, url, key, body string) (int, http.Header, map[string]any) {
	t.Helper()
	r, err := http.NewRequest("POST", url, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+key)
	a, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer a.Body.Close()
	raw, err := io.ReadAll(a.Body)
	require.NoError(t, err)
	var out map[string]any
	require.NoError(t, json.Unmarshal(raw, &out), "%s", raw)
	return a.StatusCode, a.Header, out
}

// opened is a gateway with an agent. It is closed when the test ends.
func opened(t testing.TB, agent func(context.Context, *Episode) (*Score, error)) *Gateway {
	t.Helper()
	g, err := New(Settings{Agent: agent})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, g.Close()) })
	return g
}

// paidFor is an agent that gets a reward of 1 for what it does.
func paidFor(do func(e *Episode)) func(context.Context, *Episode) (*Score, error) {
	return func(_ context.Context, e *Episode) (*Score, error) {
		do(e)
		return &Score{Reward: 1}, nil
	}
}

// always is a policy that answers everything alike.
func always(answer string) *scripted {
	return &scripted{next: func(policy.Prompt) string { return answer }}
}

// playedWell plays an episode that must not fail, and checks its rows.
func playedWell(t *testing.T, g *Gateway, answer string) *rollout.Trajectory {
	t.Helper()
	tr := play(t, g, always(answer), nil)
	require.NoError(t, tr.Err)
	checkRows(t, tr)
	return tr
}

const question = `{"messages": [{"role": "user", "content": "two and two?"}]}`

// untimed is an environment that fails if the wait for a client is limited, or what follows is not.
type untimed struct{ player }

func (u untimed) Begin(ctx context.Context, e *rollout.Episode, by policy.Policy) error {
	if _, limited := ctx.Deadline(); limited {
		return errors.New("the wait for a client is limited")
	}
	return u.player.Begin(ctx, e, by)
}

func (u untimed) Reset(ctx context.Context, seed int64) (env.Observation, error) {
	u.mu.Lock()
	waits := !u.state.claimed && !u.state.ended()
	u.mu.Unlock()
	if _, limited := ctx.Deadline(); !limited || waits {
		return env.Observation{}, errors.New("the first call is not limited, or no client has the episode")
	}
	return u.player.Reset(ctx, seed)
}

// TestClientsFromOutsideTakeEpisodes, are told to come back when none waits, and pay rewards once.
func TestClientsFromOutsideTakeEpisodes(t *testing.T) {
	g, err := New(Settings{Token: "secret"})
	require.NoError(t, err)
	defer func() { require.NoError(t, g.Close()) }()
	code, head, _ := post(t, g.URL()+"/episodes", "secret", "")
	require.Equal(t, 429, code)
	require.Equal(t, "1", head.Get("Retry-After"))
	code, _, _ = post(t, g.URL()+"/episodes", "wrong", "")
	require.Equal(t, 401, code)
	code, _, bad := post(t, g.URL()+"/episodes", "secret", `{"seed": 1.5}`)
	require.Equal(t, 400, code)
	require.Contains(t, bad["error"].(object)["message"], "seed: number 1.5 is not allowed, must be an integer")
	r := new(env.Registry)
	r.SetRemote("agent")
	require.NoError(t, r.Register("agent", func(config map[string]any) (env.Env, error) {
		e, err := g.Env(config)
		return untimed{e.(player)}, err
	}))
	p := rollout.Player{
		Policy: always("four"), Envs: r, MaxTurns: 3,
		Patience: time.Millisecond, UncountedRemote: true,
	}
	done := make(chan []*rollout.Trajectory)
	go func() {
		task := map[string]any{"task": map[string]any{"name": "sum"}, "wait": true}
		ts, _, err := p.Play(t.Context(), []rollout.Episode{{Env: "agent", Config: task, Seed: 4}, {Env: "agent",
			Config: task, Seed: 5}}, 1)
		if err != nil {
			ts = nil
		}
		done <- ts
	}()
	var e map[string]any
	require.Eventually(t, func() bool {
		var code int
		code, _, e = post(t, g.URL()+"/episodes", "secret", `{"task": "sum", "seed": 5}`)
		return code == 201
	}, time.Minute, 5*time.Millisecond)
	url, key := e["url"].(string), e["key"].(string)
	code, _, _ = post(t, url+"/v1/chat/completions", "other", question)
	require.Equal(t, 401, code)
	code, _, a := post(t, url+"/v1/chat/completions", key, question)
	require.Equal(t, 200, code)
	for range 2 {
		code, _, _ = post(t, url+"/reward", key, `{"reward": 2, "answer": "`+a["id"].(string)+`"}`)
		require.Equal(t, 200, code)
	}
	code, _, _ = post(t, url+"/reward", key, `{"reward": 3, "answer": "`+a["id"].(string)+`"}`)
	require.Equal(t, 409, code, "another reward for the same turn")
	code, _, _ = post(t, url+"/finish", key, `{"reward": 1}`)
	require.Equal(t, 200, code)
	g.Drain()
	ts := <-done
	require.Len(t, ts, 2)
	require.Equal(t, 3.0, ts[1].Return())
	require.ErrorIs(t, ts[0].Err, ErrClosed, "no client began it")
}

// TestATrialStartsNoAgent: a run that is only checked plays nothing.
func TestATrialStartsNoAgent(t *testing.T) {
	g := opened(t, func(context.Context, *Episode) (*Score, error) { panic("started") })
	r := new(env.Registry)
	require.NoError(t, r.Register(Name, g.Env))
	p := rollout.Player{Policy: &scripted{}, Envs: r, MaxTurns: 1}
	require.NoError(t, p.Try(t.Context(), rollout.Episode{Env: Name}, 1))
}

// bomb is a PNG file of 68 bytes that says that it has 900 million pixels.
const bomb = "iVBORw0KGgoAAAANSUhEUgAAdTAAAHUwCAIAAADpRW/tAAAAC0lEQVR4nGNggAEAAAoAAX+AdF4AAAAASUVORK5CYII="

// TestFailuresCostOneEpisode and are named.
func TestFailuresCostOneEpisode(t *testing.T) {
	asks := func(body string) func(context.Context, *Episode) (*Score, error) {
		return func(_ context.Context, e *Episode) (*Score, error) {
			if code, _, a := post(t, e.URL+"/v1/chat/completions", "", body); code != 200 {
				return nil, errors.New(a["error"].(map[string]any)["message"].(string))
			}
			return nil, nil
		}
	}
	for name, c := range map[string]struct {
		agent  func(context.Context, *Episode) (*Score, error)
		config map[string]any
		want   string
	}{
		"crash":     {nil, map[string]any{"command": []any{os.Args[0]}}, "exit status 3"},
		"exit":      {func(context.Context, *Episode) (*Score, error) { runtime.Goexit(); return nil, nil }, nil, "goroutine"},
		"panic":     {func(context.Context, *Episode) (*Score, error) { panic("oh") }, nil, "panicked: oh"},
		"no reward": {asks(question), nil, ErrNoReward.Error()},
		"no call":   {func(context.Context, *Episode) (*Score, error) { return &Score{}, nil }, nil, ErrNoTurns.Error()},
		"forced tool": {asks(`{"tool_choice": "required", "messages": [{"role": "user", "content": "x"}]}`), nil,
			"tool_choice: the policy samples freely"},
		"custom tool": {asks(`{"tools": [{"type": "custom", "name": "f", "format": {"type": "grammar"}}],
			"messages": [{"role": "user", "content": "x"}]}`), nil, "tools.custom: the policy samples freely"},
		"deep": {asks(`{"messages": ` + strings.Repeat("[", 1000)), nil, "nested more than"},
		"no image": {asks(`{"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}]}`),
			nil, "must be PNG, JPEG or GIF"},
		"image bomb": {asks(`{"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,` + bomb + `"}}]}]}`),
			nil, "30000 by 30000 pixels"},
		"large reward": {func(context.Context, *Episode) (*Score, error) { return &Score{Reward: 1e39}, nil }, nil,
			"fit a float32"},
		"large sum": {func(_ context.Context, e *Episode) (*Score, error) {
			_, _, a := post(t, e.URL+"/v1/chat/completions", "", question)
			code, _, _ := post(t, e.URL+"/reward", "", `{"reward": 3e38, "answer": "`+a["id"].(string)+`"}`)
			require.Equal(t, 200, code)
			return &Score{Reward: 3e38}, nil
		}, nil, "the turn's reward is 6e+38"},
		"program that scores": {asks(question), map[string]any{"reward_command": []any{os.Args[0], "score"}}, ""},
		"no room for the last call": {func(ctx context.Context, e *Episode) (*Score, error) {
			_, _ = asks(question)(ctx, e)
			return asks(`{"messages": [{"role": "user", "content": "`+strings.Repeat("long ", 2000)+`"}]}`)(ctx, e)
		}, map[string]any{"reward_command": []any{os.Args[0], "score"}}, ""},
		"program that scores instead of the agent": {func(_ context.Context, e *Episode) (*Score, error) {
			_, _, a := post(t, e.URL+"/v1/chat/completions", "", question)
			code, _, _ := post(t, e.URL+"/reward", "", `{"reward": 3, "answer": "`+a["id"].(string)+`"}`)
			require.Equal(t, 200, code)
			return &Score{Reward: 5}, nil
		}, map[string]any{"reward_command": []any{os.Args[0], "score"}}, ""},
		"marks of images": {asks(`{"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": [
			{"id": "a", "function": {"name": "f", "arguments": "{\"a\": \"<image>\"}"}}]}, {"role": "tool", "content": "y"}],
			"tools": [{"type": "function", "function": {"name": "f", "description": "shows <image>"}}]}`),
			map[string]any{"reward_command": []any{os.Args[0], "score"}}, ""},
		"program that cannot score": {asks(question), map[string]any{"reward_command": []any{"sh", "-c", "exit 4"}},
			rollout.ErrReward.Error() + ": command \"sh\": exit status 4"},
		"program that takes too long": {asks(question), map[string]any{"reward_timeout": 0.001,
			"reward_command": []any{"sleep", "60"}}, rollout.ErrReward.Error() + ": context deadline exceeded (limit 0.001 s)"},
		"program with children": {asks(question), map[string]any{"reward_command": []any{"sh", "-c",
			`sleep 60 & echo '{"reward": 0.25, "success": true}'`}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := opened(t, c.agent)
			tr := play(t, g, &scripted{next: func(policy.Prompt) string { return "four" }, most: 5000}, c.config)
			if c.want != "" {
				require.ErrorContains(t, tr.Err, c.want)
				require.Equal(t, errors.Is(tr.Err, rollout.ErrReward), tr.End == rollout.EndReward, tr.End)
				return
			}
			require.NoError(t, tr.Err)
			require.Equal(t, 0.25, tr.Return())
			require.True(t, tr.Success)
		})
	}
}

// TestAnAgentThatRepeatsARefusedCallEnds: its calls are no turns, and little time is between them.
func TestAnAgentThatRepeatsARefusedCallEnds(t *testing.T) {
	g, err := New(Settings{Agent: func(ctx context.Context, e *Episode) (*Score, error) {
		post(t, e.URL+"/v1/chat/completions", "", question)
		post(t, e.URL+"/reward", "", `{"reward": 1}`)
		e.mu.Lock()
		e.counts["agent/refused"] = maxRefused - 2
		e.mu.Unlock()
		for ctx.Err() == nil {
			post(t, e.URL+"/v1/chat/completions", "", strings.Replace(question, "two", strings.Repeat("two ", 100), 1))
		}
		return nil, nil
	}})
	require.NoError(t, err)
	tr := play(t, g, &scripted{next: func(policy.Prompt) string { return "four" }, most: 100}, nil)
	require.NoError(t, errors.Join(tr.Err, g.Close()))
	require.Equal(t, []any{rollout.EndNoRoom, 1.0, 1}, []any{tr.End, tr.Return(), len(tr.Turns)})
}
