package nodes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"
)

// Config says which node of a group this process is.
type Config struct {
	Nodes, ID   int
	Coordinator string // host:port of node 0
	// Address is the host:port at which this node expects the others; "" is the coordinator's on
	// node 0, and elsewhere a free port at the address from which node 0 is reached.
	Address string
	Token   string
	// TLS encrypts all connections if its files are set.
	TLS TLS
	// Timeout limits the time until all nodes are there, and the time in which a node must make
	// progress when another one waits for it.
	Timeout time.Duration
	// Facts must be the same on all nodes.
	Facts []Fact
	Log   *slog.Logger
}

// DefaultTimeout is the usual Config.Timeout.
const DefaultTimeout = 10 * time.Minute

// Check returns what is wrong with the settings by themselves, and with the files of TLS.
func (c *Config) Check() error {
	var bad []error
	addf := func(format string, args ...any) { bad = append(bad, fmt.Errorf(format, args...)) }
	if c.Nodes < 2 {
		addf("Nodes is %d, must be at least 2", c.Nodes)
	}
	if c.ID < 0 || c.ID >= c.Nodes {
		addf("ID is %d, must be in [0, %d]", c.ID, c.Nodes-1)
	}
	for name, address := range map[string]string{"Coordinator": c.Coordinator, "Address": c.Address} {
		if name == "Address" && address == "" {
			continue
		}
		if host, port, err := net.SplitHostPort(address); err != nil || host == "" || port == "" {
			addf("%s is %q, must be host:port", name, address)
		}
	}
	if c.Timeout <= 0 {
		addf("Timeout is %v, must be positive", c.Timeout)
	}
	if _, err := c.TLS.load(); err != nil {
		bad = append(bad, err)
	}
	if err := errors.Join(bad...); err != nil {
		return fmt.Errorf("nodes: %w: %w", ErrConfig, err)
	}
	return nil
}

// Join connects this node with all others and compares their facts. Until all are connected, a
// process with the same number as another one replaces it.
func Join(ctx context.Context, c Config) (*Group, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("not all of the %d nodes were there within %v: %w", c.Nodes, c.Timeout, ErrLost))
	defer cancel()
	s, err := newServer(ctx, &c)
	if err != nil {
		return nil, err
	}
	defer s.close()
	var links []*Link
	if c.ID == 0 {
		links, err = s.lead(ctx)
	} else {
		links, err = s.follow(ctx)
	}
	if err != nil {
		if ctx.Err() != nil && !errors.Is(err, ErrConfig) && !errors.Is(err, context.Cause(ctx)) {
			err = errors.Join(context.Cause(ctx), err)
		}
		return nil, fmt.Errorf("nodes: node %d: %w", c.ID, err)
	}
	g := &Group{id: c.ID, links: links}
	for _, l := range links {
		if l != nil {
			l.sent = &g.sent
		}
	}
	return g, nil
}

// member is a process that wants to be a node.
type member struct {
	Instance string // drawn at random: tells processes with the same number apart
	Address  string // host:port at which others reach it
	Host     string // that its certificate names
	Facts    []Fact `json:",omitempty"`
}

// round is sent by node 0 to all members when all nodes are there. Every one answers with the number
// when it is connected with all others. Begin follows after all answers; it is the last message
// before the group works.
type round struct {
	Number  int
	Members []member `json:",omitempty"` // by node; without that of node 0, and without facts
	Begin   bool     `json:",omitempty"`
}

// answer to a round.
type answer struct{ Number int }

// maxMessage limits members, rounds and answers, in bytes.
const maxMessage = 1 << 20
