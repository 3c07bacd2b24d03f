package nodes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	"vagen/policy/vlm/internal/keyvalue"
)

// Config says which node of a group this process is.
type Config struct {
	Nodes, ID   int
	Coordinator string // host:port of node 0
	// Address is the host:port at which this node expects the others; "" is the coordinator's on
	// node 0, and elsewhere a free port at the address from which node 0 is reached.
	Address string
	Token   string
	// Timeout limits the time until all nodes are there, and the time in which a node must make
	// progress when another one waits for it.
	Timeout time.Duration
	// Facts must be the same on all nodes.
	Facts []Fact
	Log   *slog.Logger
}

// Fact is a setting that must be the same on all nodes.
type Fact struct{ Name, Value string }

// DefaultTimeout is the usual Config.Timeout.
const DefaultTimeout = 10 * time.Minute

// Check returns what is wrong with the settings by themselves.
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
	if err := errors.Join(bad...); err != nil {
		return fmt.Errorf("nodes: %w: %w", ErrConfig, err)
	}
	return nil
}

// record is what a node publishes.
type record struct {
	Address string
	Facts   []Fact
}

// Join connects this node with all others and compares their facts.
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
	links, err := s.connect(ctx)
	if err != nil {
		for _, l := range links {
			if l != nil {
				l.conn.Close()
			}
		}
		if ctx.Err() != nil && !errors.Is(err, ErrConfig) {
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

// server accepts connections until all nodes are connected.
type server struct {
	*Config
	store    keyvalue.Store
	http     *http.Server
	client   *http.Client
	served   chan error
	accepted chan *Link
	address  string
}

func (s *server) close() {
	s.http.Close()
	s.client.CloseIdleConnections()
	<-s.served
	for {
		select {
		case l := <-s.accepted: // more than were needed
			l.conn.Close()
		default:
			return
		}
	}
}

func key(node int) string { return "node/" + strconv.Itoa(node) }

// connect returns a link to each other node.
func (s *server) connect(ctx context.Context) ([]*Link, error) {
	links := make([]*Link, s.Nodes)
	own := record{Address: s.address, Facts: s.allFacts()}
	records, err := s.meet(ctx, own)
	if err != nil {
		return links, err
	}
	// Node 0 last: it serves the records until all nodes are connected to it, and must not end
	// before the others have read them.
	for node := s.ID - 1; node >= 0; node-- {
		address := records[node].Address
		if node == 0 {
			address = s.Coordinator
		}
		if links[node], err = s.dial(ctx, node, address); err != nil {
			return links, err
		}
	}
	for missing := s.Nodes - 1 - s.ID; missing > 0; missing-- {
		select {
		case l := <-s.accepted:
			if links[l.node] != nil {
				l.conn.Close()
				return links, fmt.Errorf("node %d has connected twice: %w", l.node, ErrConfig)
			}
			links[l.node] = l
		case <-ctx.Done():
			return links, context.Cause(ctx)
		}
	}
	return links, nil
}

// meet publishes this node's record and returns all, after comparing their facts.
func (s *server) meet(ctx context.Context, own record) ([]record, error) {
	records := make([]record, s.Nodes)
	records[s.ID] = own
	raw, err := json.Marshal(own)
	if err != nil {
		return nil, err
	}
	put := func() error {
		err := s.store.Put(ctx, key(s.ID), raw)
		if errors.Is(err, keyvalue.ErrExists) {
			err = fmt.Errorf("%w: another process has already joined as node %d: %w", ErrConfig, s.ID, err)
		}
		return err
	}
	if s.ID == 0 {
		if err := put(); err != nil {
			return nil, err
		}
	}
	for node := range records {
		if node == s.ID {
			continue
		}
		var raw []byte
		err := s.retry(ctx, func() (err error) { raw, err = s.store.Get(ctx, key(node)); return err })
		if err != nil {
			return nil, fmt.Errorf("waiting for node %d: %w", node, err)
		}
		if err := json.Unmarshal(raw, &records[node]); err != nil {
			return nil, fmt.Errorf("record of node %d: %w", node, err)
		}
		if s.ID != 0 && node == 0 { // after reading node 0's record, which then may end because of this one's
			if err := put(); err != nil {
				return nil, err
			}
		}
		if err := compare(records[node].Facts, own.Facts, node, s.ID); err != nil {
			return nil, err
		}
		s.Log.Info("another node is there", "node", node, "address", records[node].Address)
	}
	return records, nil
}

// allFacts are the facts of the group beside the caller's.
func (s *server) allFacts() []Fact {
	return append([]Fact{{"protocol", "1 " + byteOrder()}, {"number of nodes", strconv.Itoa(s.Nodes)}}, s.Facts...)
}

func byteOrder() string {
	if floatBytes([]float32{1})[3] == 0x3f {
		return "little-endian"
	}
	return "big-endian"
}

// compare lists the facts in which nodes differ.
func compare(theirs, ours []Fact, them, us int) error {
	values := map[string]string{}
	for _, f := range theirs {
		values[f.Name] = f.Value
	}
	var bad []error
	for _, f := range ours {
		value, ok := values[f.Name]
		if !ok {
			value = "nothing"
		}
		if value != f.Value {
			bad = append(bad, fmt.Errorf("%s is %s on node %d and %s on node %d, must be the same", f.Name, f.Value, us, value, them))
		}
	}
	if err := errors.Join(bad...); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return nil
}
