package gateway

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"vagen/env"
	"vagen/internal/keyenv"
)

// The environment's name, and what happens there.
const (
	Name  = "agent"
	About = "programs that ask a language model, through a gateway"
)

// Register adds the environment agent to a registry. Its gateways open with the first episode, one for
// each address, token and host in the options, and serve until the registry is closed; a later
// episode opens them again.
func Register(r *env.Registry, log *slog.Logger) error {
	if r == nil {
		return errors.New("gateway: register: the registry is nil")
	}
	p := &pool{log: log, open: map[access]*Gateway{}}
	r.OnClose(p.close)
	r.SetRemote(Name)
	return r.Register(Name, p.env, About)
}

// pool opens gateways.
type pool struct {
	log  *slog.Logger
	mu   sync.Mutex
	open map[access]*Gateway
}

// access are the options that a gateway is opened with.
type access struct{ listen, tokenEnv, host string }

func (p *pool) env(config map[string]any) (env.Env, error) {
	return newPlayer(config, &Episode{opener: p})
}

// gateway returns the gateway that is opened with the options. Two cannot have the same port.
func (p *pool) gateway(o *Options) (*Gateway, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := access{o.Listen, o.TokenEnv, o.Host}
	if g := p.open[key]; g != nil {
		return g, nil
	}
	for other := range p.open {
		if other.listen == o.Listen && !strings.HasSuffix(o.Listen, ":0") {
			return nil, fmt.Errorf("gateway: option \"listen\": %w: %s is in use with token_env %q and host %q, must be "+
				"another address, or these must be the same", env.ErrOption, o.Listen, other.tokenEnv, other.host)
		}
	}
	t := ""
	if o.TokenEnv != "" {
		var err error
		if t, err = keyenv.Read(o.TokenEnv); err != nil {
			return nil, fmt.Errorf("gateway: option \"token_env\": %w: %w", env.ErrOption, err)
		}
	}
	g, err := New(Settings{Listen: o.Listen, Token: t, Host: o.Host, Log: p.log})
	if err == nil {
		p.open[key] = g
	}
	return g, err
}

func (p *pool) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var err error
	for _, g := range p.open {
		err = errors.Join(err, g.Close())
	}
	clear(p.open)
	return err
}
