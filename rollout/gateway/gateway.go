package gateway

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"reflect"
	"sync"
	"time"

	"vagen/env"
)

// Settings are those of a Gateway that are no options of its environment.
type Settings struct {
	// Agent plays an episode in this program: it sends requests to the episode's URL, and its
	// return ends the episode. A nil Score is no reward. Nil lets episodes wait for clients, unless
	// Options say otherwise.
	Agent func(ctx context.Context, e *Episode) (*Score, error)
	// Score scores episodes instead of their agents; may be nil.
	Score func(ctx context.Context, r Record) (Score, error)
	// Listen, Token and Host are as the options Listen, TokenEnv and Host say; "" of Listen is a
	// free port of 127.0.0.1.
	Listen, Token, Host string
	// MaxBody limits a request in bytes; 0 is 64 MiB.
	MaxBody int64
	Log     *slog.Logger // nil discards
}

// Gateway serves the protocols in front of the policy that plays its episodes. It is opened
// with New and must be closed.
type Gateway struct {
	o        Settings
	base     string // address of the server
	server   *http.Server
	served   chan struct{}
	mu       sync.Mutex
	episodes map[string]*Episode
	keys     map[string]*Episode
	waiting  []*Episode // for clients, in order
	running  int        // agents that were started
	room     chan struct{}
}

// ErrClosed means that a Gateway was closed.
var ErrClosed = errors.New("the gateway is closed")

// New opens a gateway and serves until Close.
func New(o Settings) (*Gateway, error) {
	if o.Listen == "" {
		o.Listen = "127.0.0.1:0"
	}
	if o.MaxBody == 0 {
		o.MaxBody = 64 << 20
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	l, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return nil, fmt.Errorf("gateway: listen: %w", err)
	}
	if at, ok := l.Addr().(*net.TCPAddr); ok && !at.IP.IsLoopback() && o.Token == "" {
		return nil, errors.Join(fmt.Errorf("gateway: listen at %s, which other machines reach: a token is needed",
			l.Addr()), l.Close())
	}
	if o.Host == "" {
		o.Host = l.Addr().String()
	}
	g := &Gateway{
		o: o, base: "http://" + o.Host, episodes: map[string]*Episode{}, keys: map[string]*Episode{},
		served: make(chan struct{}), room: make(chan struct{}, 1),
	}
	g.server = &http.Server{
		Handler: g.handler(), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, MaxHeaderBytes: 64 << 10,
		IdleTimeout: 2 * time.Minute, ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}
	go func() {
		defer close(g.served)
		_ = g.server.Serve(l) // until Close
	}()
	return g, nil
}

// URL returns the address of the server.
func (g *Gateway) URL() string { return g.base }

// Close stops the server. Episodes that are not over fail.
func (g *Gateway) Close() error {
	g.mu.Lock()
	var open []*Episode
	for _, e := range g.episodes {
		open = append(open, e)
	}
	g.episodes, g.waiting = nil, nil
	g.mu.Unlock()
	for _, e := range open {
		e.mu.Lock()
		if e.state.err == nil && !e.state.finished {
			e.state.err = fmt.Errorf("gateway: %w", ErrClosed)
		}
		e.signal()
		e.mu.Unlock()
	}
	err := g.server.Close()
	<-g.served
	return err
}

// Drain lets no further client take an episode: those that wait fail. Episodes that are played go on.
func (g *Gateway) Drain() {
	g.mu.Lock()
	waiting := g.waiting
	g.waiting = nil
	g.mu.Unlock()
	for _, e := range waiting {
		e.finish(ErrClosed)
	}
}

// Env is the factory of the environment whose episodes this gateway serves.
func (g *Gateway) Env(config map[string]any) (env.Env, error) {
	o := DefaultOptions()
	if err := env.Decode(config, &o); err != nil {
		return nil, err
	}
	return g.env(o)
}

func (g *Gateway) env(o Options) (env.Env, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return player{&Episode{gate: g, options: o, Task: o.Task, wake: make(chan struct{}, 1)}}, nil
}

// add makes an episode known under new names.
func (g *Gateway) add(e *Episode) error {
	e.id, e.Key = random(), "ep-"+random()
	e.URL = g.base + "/episodes/" + e.id
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.episodes == nil {
		return fmt.Errorf("gateway: %w", ErrClosed)
	}
	g.episodes[e.id], g.keys[e.Key] = e, e
	if e.agent() == nil { // a client takes it
		g.waiting = append(g.waiting, e)
	}
	return nil
}

func random() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// remove forgets an episode.
func (g *Gateway) remove(e *Episode) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.episodes, e.id)
	delete(g.keys, e.Key)
	for i, w := range g.waiting {
		if w == e {
			g.waiting = append(g.waiting[:i:i], g.waiting[i+1:]...)
			break
		}
	}
}

// claim takes the first waiting episode that a client asks for, nil if there is none.
func (g *Gateway) claim(task any, group *int, seed *int64) *Episode {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, e := range g.waiting {
		if group != nil && *group != e.Group || seed != nil && *seed != e.Seed || task != nil && !sameTask(task, e.Task) {
			continue
		}
		g.waiting = append(g.waiting[:i:i], g.waiting[i+1:]...)
		e.mu.Lock()
		e.state.claimed = true
		e.mu.Unlock()
		return e
	}
	return nil
}

// sameTask compares what a client names with an episode's task: every field of it must be equal, and
// a text is the field "name".
func sameTask(want any, task map[string]any) bool {
	if name, ok := want.(string); ok {
		return task["name"] == name
	}
	fields, ok := want.(map[string]any)
	for k, v := range fields {
		ok = ok && reflect.DeepEqual(plainValue(v), plainValue(task[k]))
	}
	return ok
}

// plainValue makes numbers of YAML and JSON comparable.
func plainValue(v any) any {
	switch v := v.(type) {
	case int:
		return float64(v)
	case int64:
		return float64(v)
	}
	return v
}

// enter waits until fewer than most agents run; 0 is no limit. leave must be called when the agent
// has ended.
func (g *Gateway) enter(ctx context.Context, most int) (leave func(), err error) {
	for {
		g.mu.Lock()
		if most == 0 || g.running < most {
			g.running++
			g.mu.Unlock()
			g.wakeNext() // another may have room, too
			return func() {
				g.mu.Lock()
				g.running--
				g.mu.Unlock()
				g.wakeNext()
			}, nil
		}
		g.mu.Unlock()
		select {
		case <-g.room:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (g *Gateway) wakeNext() {
	select {
	case g.room <- struct{}{}:
	default:
	}
}

// token returns the token that an option names.
func token(variable string) (string, error) {
	if variable == "" {
		return "", nil
	}
	t := os.Getenv(variable)
	if t == "" {
		return "", fmt.Errorf("gateway: option \"token_env\": %w: the environment variable %s is not set", env.ErrOption,
			variable)
	}
	return t, nil
}
