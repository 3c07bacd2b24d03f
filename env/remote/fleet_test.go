package remote_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/remote"
	"vagen/env/remote/hosts"
	"vagen/policy"
	"vagen/reward"
	"vagen/rollout"
)

// walk is a small world: it shows the seed and the turn, and pays for the length of responses.
type walk struct {
	seed   int64
	turn   int
	onStep func()
}

func (w *walk) System(context.Context) (env.Observation, error) {
	return env.Observation{Text: "walk"}, nil
}

func (w *walk) Reset(_ context.Context, seed int64) (env.Observation, error) {
	w.seed, w.turn = seed, 0
	return env.Observation{Text: fmt.Sprintf("at %d", seed)}, nil
}

func (w *walk) Step(_ context.Context, response string) (env.Outcome, error) {
	if w.onStep != nil {
		w.onStep()
	}
	w.turn++
	return env.Outcome{
		Observation: env.Observation{Text: fmt.Sprintf("at %d after %d", w.seed, w.turn)},
		Reward:      reward.Parts{{Name: "walk", Value: float64(len(response)) / 8}},
		Done:        w.turn == 3, Response: reward.Response{Raw: response},
	}, nil
}

func (w *walk) Close() error { return nil }

// answers answers each prompt by a text that depends on the last observation.
type answers struct{}

func (answers) Generate(_ context.Context, prompts []policy.Prompt, _ policy.Sampling) ([]policy.Completion, error) {
	out := make([]policy.Completion, len(prompts))
	for i, p := range prompts {
		seen := p.Messages[len(p.Messages)-1].Text
		out[i] = policy.Completion{Text: strings.Repeat("x", 1+len(seen)%5), Stop: policy.StopEnd}
	}
	return out, nil
}

func (answers) Forget(...uint64) {}

// fleet is one server under many host names. Its connections are in memory.
type fleet struct {
	conns chan net.Conn
	end   chan struct{}

	mu   sync.Mutex
	dead map[string]bool
	open map[string][]net.Conn
}

func (f *fleet) Accept() (net.Conn, error) {
	select {
	case c := <-f.conns:
		return c, nil
	case <-f.end:
		return nil, net.ErrClosed
	}
}

func (f *fleet) Close() error   { close(f.end); return nil }
func (f *fleet) Addr() net.Addr { return &net.UnixAddr{Name: "fleet", Net: "unix"} }

func (f *fleet) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	host, _, _ := net.SplitHostPort(addr)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dead[host] {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	}
	ours, theirs := net.Pipe()
	select {
	case f.conns <- theirs:
		f.open[host] = append(f.open[host], theirs)
		return ours, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// kill makes a host refuse connections and breaks those that are open.
func (f *fleet) kill(host string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dead[host] = true
	for _, c := range f.open[host] {
		c.Close()
	}
}

// 800 episodes on 200 hosts, 20 of which are dead from the start; 20 more are killed
// in the middle, 10 at a time, so that some episodes lose two sessions.
func TestFleetOfHostsLosesNoEpisode(t *testing.T) {
	services, dead := 200, 20
	if raceDetector { // which needs a megabyte for each session
		services, dead = 100, 10
	}
	sessions := 4 * services
	for _, wire := range []string{"lite", "legacy"} {
		t.Run(wire, func(t *testing.T) {
			f := &fleet{conns: make(chan net.Conn, sessions), end: make(chan struct{}), dead: map[string]bool{},
				open: map[string][]net.Conn{}}
			name := func(i int) string { return fmt.Sprintf("host%d.test", i) }
			var list strings.Builder
			for i := range services {
				fmt.Fprintf(&list, "http://%s:80\n", name(i))
				if i%10 == 0 {
					f.dead[name(i)] = true
				}
			}
			known := hosts.New(hosts.DefaultOptions())
			defer known.Close()
			var steps atomic.Int64
			var atStart []hosts.Status
			onStep := func() {
				switch int(steps.Add(1)) {
				case 1: // all environments are open
					atStart = known.Status()
				case sessions * 3 / 2:
					for i := range dead / 2 {
						f.kill(name(20*i + 1))
					}
				case sessions * 5 / 2:
					for i := range dead / 2 {
						f.kill(name(20*i + 11))
					}
				}
			}
			hosted := func(map[string]any) (env.Env, error) { return &walk{onStep: onStep}, nil }
			so := remote.DefaultServerOptions()
			so.Lite, so.Legacy, so.APIKey = hosted, new(env.Registry), "key" // with a key all host names are served
			require.NoError(t, so.Legacy.Register("walk", hosted))
			s, err := remote.NewServer(so)
			require.NoError(t, err)
			web := &http.Server{Handler: s}
			served := make(chan error, 1)
			go func() { served <- web.Serve(f) }()
			defer func() {
				require.NoError(t, web.Close())
				require.ErrorIs(t, <-served, http.ErrServerClosed)
				require.NoError(t, s.Close(context.Background()))
			}()

			o := remote.DefaultClientOptions()
			transport := &http.Transport{DialContext: f.dial, MaxIdleConnsPerHost: sessions}
			defer transport.CloseIdleConnections()
			o.Transport, o.Hosts, o.Token, o.LogRetries = transport, known, "key", false
			o.Backoff, o.MaxDelay = time.Millisecond, 10*time.Millisecond
			envs := new(env.Registry)
			config := map[string]any{"base_urls": list.String()}
			if wire == "lite" {
				require.NoError(t, envs.Register("walk", remote.Factory(o)))
			} else {
				config["env_name"] = "walk"
				require.NoError(t, envs.Register("walk", remote.LegacyFactory(o)))
			}
			envs.SetRemote("walk")
			require.NoError(t, envs.Register("here", func(map[string]any) (env.Env, error) { return &walk{}, nil }))

			play := func(kind string, config map[string]any) []*rollout.Trajectory {
				p := rollout.Player{Policy: answers{}, Envs: envs, MaxTurns: 5, Retry: rollout.DefaultRetry()}
				p.Retry.Backoff.Min, p.Retry.Backoff.Max = time.Millisecond, 10*time.Millisecond
				p.SetWorkers(0)
				episodes := make([]rollout.Episode, sessions)
				for i := range episodes {
					episodes[i] = rollout.Episode{Env: kind, Config: config, Seed: int64(i), Group: i / 8, Index: i % 8}
				}
				ts, _, err := p.Play(t.Context(), episodes, 5)
				require.NoError(t, err)
				return ts
			}
			got, want := play("walk", config), play("here", nil)
			again := 0 // episodes whose session died
			for i, e := range got {
				require.Equal(t, rollout.EndDone, e.End, "episode %d: %v", i, e.Err)
				require.Equal(t, texts(want[i]), texts(e), "episode %d", i)
				require.Equal(t, want[i].Return(), e.Return(), "episode %d", i)
				again += min(e.Attempt, 1)
			}
			require.Greater(t, again, dead*(sessions/services)/2, "sessions died with their hosts and were played again")

			most, least, ejected := 0, sessions, 0
			for _, h := range atStart {
				if h.Ejected {
					ejected++
					continue
				}
				most, least = max(most, h.Sessions), min(least, h.Sessions)
			}
			require.Equal(t, dead, ejected)
			require.Equal(t, []int{4, 5}, []int{least, most}, "four sessions for each host, a tenth of which is dead")
			require.Eventually(t, func() bool { // a player does not wait long for an environment that is closing
				open := 0
				for _, h := range known.Status() {
					open += h.Sessions
				}
				return open == 0
			}, time.Minute, time.Millisecond, "all sessions are closed")
		})
	}
}

// texts returns what an episode's turns showed and answered.
func texts(e *rollout.Trajectory) (out []string) {
	for _, turn := range e.Turns {
		out = append(out, turn.Observation.Text, turn.Response)
	}
	return out
}
