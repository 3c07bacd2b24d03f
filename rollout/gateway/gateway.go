package gateway

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"vagen/env"
	"vagen/internal/field"
	"vagen/internal/jsontext"
	"vagen/internal/origin"
	"vagen/internal/silent"
	"vagen/internal/slots"
	"vagen/rollout/gateway/internal/dialect"
)

// Settings are those of a Gateway that are no options of its environment.
type Settings struct {
	// Agent plays an episode in this program: it sends requests to the episode's URL, and its
	// return ends the episode. A nil Score is no reward. Nil lets episodes wait for clients, unless
	// Options say otherwise.
	Agent func(ctx context.Context, e *Episode) (*Score, error)
	// Score scores episodes instead of their agents, whose rewards do not count then; may be nil.
	Score func(ctx context.Context, r Record) (Score, error)
	// Listen, Token and Host are as the options Listen, TokenEnv and Host say; "" of Listen is a
	// free port of 127.0.0.1.
	Listen, Token, Host string
	// Open lets clients that take an episode say what its task, seed and group are. Otherwise they get one
	// that has those that they name.
	Open bool
	// Idle is how long an agent may make no call before its episode fails; 0 is no limit. The time until a
	// client takes an episode does not count.
	Idle time.Duration `least:"0"`
	// MaxBody limits a request in bytes; 0 is 64 MiB.
	MaxBody int64        `least:"0"`
	Log     *slog.Logger // nil discards
}

// Gateway serves the protocols in front of the policy that plays its episodes. It is opened
// with New and must be closed.
type Gateway struct {
	o        Settings
	base     string // address of the server
	server   *http.Server
	serving  sync.WaitGroup
	mu       sync.Mutex
	episodes map[string]*Episode // by id and by key
	waiting  []*Episode          // for clients, in order
	drained  bool                // no further episode waits for clients
	rooms    sync.Map            // slots of agents that run, by the option processes
	bodies   slots.Slots         // of large bodies
}

// Errors of New and of episodes.
var (
	// ErrClosed means that a Gateway was closed, or drained before a client took the episode.
	ErrClosed = errors.New("the gateway is closed")
	// ErrToken means that other machines reach the address, but that there is no token.
	ErrToken = errors.New("a token is needed where other machines reach the address")
)

// New opens a gateway and serves until Close.
func New(o Settings) (*Gateway, error) {
	if o.Listen == "" {
		o.Listen = "127.0.0.1:0"
	}
	f := field.Options("gateway", nil)
	f.Struct(&o, "")
	if err := f.Err(); err != nil {
		return nil, err
	}
	if o.MaxBody == 0 {
		o.MaxBody = 64 << 20
	}
	o.Log = silent.Log(o.Log)
	l, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return nil, fmt.Errorf("gateway: listen: %w", err)
	}
	if !origin.Local(l.Addr()) && o.Token == "" {
		return nil, errors.Join(fmt.Errorf("gateway: listen at %s: %w", l.Addr(), ErrToken), l.Close())
	}
	if o.Host == "" {
		o.Host = l.Addr().String()
	}
	g := &Gateway{o: o, base: "http://" + o.Host, episodes: map[string]*Episode{}, bodies: slots.ForBodies()}
	g.server = origin.Server(g.handler(), o.Log)
	g.server.ReadTimeout = readTime
	g.serving.Go(func() { _ = g.server.Serve(l) }) // until Close
	return g, nil
}

// URL returns the address of the server.
func (g *Gateway) URL() string { return g.base }

// Close stops the server. Episodes that are not over fail.
func (g *Gateway) Close() error {
	g.mu.Lock()
	open := g.episodes
	g.episodes, g.waiting = nil, nil
	g.mu.Unlock()
	for _, e := range open {
		e.end(ErrClosed)
	}
	if g.server == nil {
		return nil
	}
	err := g.server.Close()
	g.serving.Wait()
	return err
}

// Drain lets no further client take an episode: those that wait, now or later, fail. Episodes that are
// played go on.
func (g *Gateway) Drain() {
	g.mu.Lock()
	waiting := g.waiting
	g.waiting, g.drained = nil, true
	g.mu.Unlock()
	for _, e := range waiting {
		e.end(ErrClosed)
	}
}

// Env is the factory of the environment whose episodes this gateway serves.
func (g *Gateway) Env(config map[string]any) (env.Env, error) {
	return newPlayer(config, &Episode{gate: g})
}

// newPlayer returns an episode with the options of a configuration, as an environment.
func newPlayer(config map[string]any, e *Episode) (env.Env, error) {
	e.options = DefaultOptions()
	o := &e.options
	if err := env.Decode(config, o); err != nil {
		return nil, err
	}
	err := o.Validate()
	if e.gate == nil && len(o.Command) == 0 && o.URL == "" && !o.Wait {
		err = errors.Join(err, errNoAgent)
	}
	if err != nil {
		return nil, err
	}
	e.Task, e.wake, e.body = o.Task, make(chan struct{}, 1), make(slots.Slots, 1)
	e.root, e.images, e.items = &call{turn: -1}, map[[32]byte]image.Image{}, map[string]*call{}
	e.counts, e.rewards = env.Metrics{}, map[*call]*float64{}
	return player{e}, nil
}

// add makes an episode known under new names.
func (g *Gateway) add(e *Episode) error {
	e.ID, e.Key = rand.Text(), "ep-"+rand.Text()
	e.URL = g.base + "/episodes/" + e.ID
	e.BaseURL = e.URL + "/v1"
	g.mu.Lock()
	defer g.mu.Unlock()
	waits := e.agent() == nil // for a client
	if g.episodes == nil || waits && g.drained {
		return fmt.Errorf("gateway: %w", ErrClosed)
	}
	g.episodes[e.ID], g.episodes[e.Key] = e, e
	if waits {
		g.waiting = append(g.waiting, e)
	}
	return nil
}

// remove forgets an episode.
func (g *Gateway) remove(e *Episode) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.episodes, e.ID)
	delete(g.episodes, e.Key)
	g.waiting = slices.DeleteFunc(g.waiting, func(w *Episode) bool { return w == e })
}

// wish is what a client asks for that takes an episode.
type wish struct {
	Task  json.RawMessage `json:"task"`
	Group *int            `json:"group"`
	Seed  *int64          `json:"seed"`

	fields map[string]any // of Task; a text is the field "name"
}

// claim takes the first waiting episode that fits a client, nil if there is none.
func (g *Gateway) claim(q wish) *Episode {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.IndexFunc(g.waiting, func(e *Episode) bool { return g.o.Open || q.fits(e) })
	if i < 0 {
		return nil
	}
	e := g.waiting[i]
	g.waiting = slices.Delete(g.waiting, i, i+1)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.claimed = true; g.o.Open {
		q.set(e)
	}
	e.signal() // it is idle from now on
	return e
}

// set makes an episode what the client asks for.
func (q wish) set(e *Episode) {
	if q.fields != nil {
		e.Task = q.fields
	}
	if q.Group != nil {
		e.Group = *q.Group
	}
	if q.Seed != nil {
		e.Seed = *q.Seed
	}
}

// readTask sets the fields. Their numbers have the types of a configuration's.
func (q *wish) readTask() (err error) {
	if name, ok := jsontext.Text(q.Task); ok {
		q.fields = map[string]any{"name": name}
	} else if len(q.Task) > 0 {
		q.fields, err = jsontext.Tree[map[string]any](string(q.Task), jsontext.Whole)
	}
	return dialect.Undecoded(err, "task")
}

// fits reports whether an episode is what a client asks for: every field of its task that the client names
// must be equal.
func (q wish) fits(e *Episode) bool {
	if q.Group != nil && *q.Group != e.Group || q.Seed != nil && *q.Seed != e.Seed {
		return false
	}
	for k, v := range q.fields {
		asked, _ := json.Marshal(v) // lists and numbers of a program may have other types
		has, _ := json.Marshal(e.Task[k])
		if !bytes.Equal(asked, has) {
			return false
		}
	}
	return true
}
