package nodes

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"vagen/policy/vlm/internal/keyvalue"
)

// Limits on clients that have not shown the token.
const (
	maxClients = 256
	maxHeader  = 8 << 10
	headerTime = 10 * time.Second
)

const (
	storePath = "/keys"
	linkPath  = "/link"
	upgrade   = "vagen-nodes"
)

// keepAlive notices hosts that have vanished after about a minute.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 15 * time.Second, Count: 3}

func newServer(ctx context.Context, c *Config) (*server, error) {
	s := &server{Config: c, served: make(chan error, 1), accepted: make(chan *Link, c.Nodes), client: &http.Client{Transport: &http.Transport{}}}
	listen, err := s.listenAddress(ctx)
	if err != nil {
		return nil, err
	}
	at, err := net.ResolveTCPAddr("tcp", listen)
	if err != nil {
		return nil, fmt.Errorf("nodes: node %d: address %q: %w: %w", c.ID, listen, ErrConfig, err)
	}
	if c.Token == "" && !at.IP.IsLoopback() {
		return nil, fmt.Errorf("nodes: node %d: %w: other machines can reach %v, so a token is needed: without one, strangers could join and read the weights", c.ID, ErrConfig, at)
	}
	l, err := (&net.ListenConfig{KeepAliveConfig: keepAlive}).Listen(ctx, "tcp", at.String())
	if err != nil {
		return nil, fmt.Errorf("nodes: node %d: %w", c.ID, err)
	}
	if s.address = l.Addr().String(); at.IP.IsUnspecified() && c.ID != 0 {
		host, err := s.route(ctx)
		if err != nil {
			l.Close()
			return nil, err
		}
		s.address = net.JoinHostPort(host, strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	}
	mux := http.NewServeMux()
	mux.Handle(linkPath, keyvalue.Authorized(c.Token, http.HandlerFunc(s.accept)))
	if c.ID == 0 {
		memory := keyvalue.NewMemory()
		s.store = memory
		mux.Handle(storePath, keyvalue.Handler(memory, c.Token))
	} else {
		s.store = &keyvalue.Client{URL: "http://" + c.Coordinator + storePath, Token: c.Token, HTTP: s.client}
	}
	var clients atomic.Int64
	s.http = &http.Server{
		Handler: mux, ReadHeaderTimeout: headerTime, ReadTimeout: time.Minute, IdleTimeout: time.Minute, MaxHeaderBytes: maxHeader,
		ConnState: func(conn net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				if clients.Add(1) > maxClients {
					conn.Close()
				}
			case http.StateClosed, http.StateHijacked:
				clients.Add(-1)
			}
		},
	}
	go func() { s.served <- s.http.Serve(l) }()
	return s, nil
}

// listenAddress is the address at which this node expects the others.
func (s *server) listenAddress(ctx context.Context) (string, error) {
	switch {
	case s.Address != "":
		return s.Address, nil
	case s.ID == 0:
		return s.Coordinator, nil
	}
	host, err := s.route(ctx)
	return net.JoinHostPort(host, "0"), err
}

// route is the address of this host from which node 0 is reached.
func (s *server) route(ctx context.Context) (host string, err error) {
	err = s.retry(ctx, func() error {
		// Connecting a UDP socket sends nothing; it only selects the route.
		conn, err := (&net.Dialer{}).DialContext(ctx, "udp", s.Coordinator)
		if err != nil {
			return err
		}
		defer conn.Close()
		host, _, err = net.SplitHostPort(conn.LocalAddr().String())
		return err
	})
	if err != nil {
		err = fmt.Errorf("nodes: node %d: Coordinator is %q: %w", s.ID, s.Coordinator, err)
	}
	return host, err
}

// retry calls f until it fails otherwise than because node 0 cannot be reached: it may start
// later, and its name may be unknown until then.
func (s *server) retry(ctx context.Context, f func() error) error {
	const pause = 200 * time.Millisecond
	for logged := false; ; logged = true {
		err := f()
		var refused *net.OpError
		if err == nil || ctx.Err() != nil || !errors.As(err, &refused) {
			return err
		}
		if !logged {
			s.Log.Info("node 0 cannot be reached yet", "coordinator", s.Coordinator, "err", err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// accept makes a link of a node's request.
func (s *server) accept(w http.ResponseWriter, r *http.Request) {
	node, err := strconv.Atoi(r.URL.Query().Get("node"))
	if err != nil || node <= s.ID || node >= s.Nodes || r.Header.Get("Upgrade") != upgrade {
		http.Error(w, "not a node that connects to this one", http.StatusBadRequest)
		return
	}
	h, ok := w.(http.Hijacker)
	if !ok {
		http.Error(w, "cannot upgrade", http.StatusHTTPVersionNotSupported)
		return
	}
	conn, rw, err := h.Hijack()
	if err != nil {
		return
	}
	conn.SetDeadline(time.Now().Add(headerTime))
	if _, err := io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+upgrade+"\r\n\r\n"); err != nil {
		conn.Close()
		return
	}
	select {
	case s.accepted <- s.newLink(node, conn, rw.Reader):
	default:
		conn.Close()
	}
}

func (s *server) newLink(node int, conn net.Conn, in *bufio.Reader) *Link {
	conn.SetDeadline(time.Time{})
	l := &Link{node: node, conn: conn, in: in, wrote: counter{Conn: conn}, timeout: s.Timeout}
	l.out = bufio.NewWriterSize(&l.wrote, 64<<10)
	return l
}

// dial connects to another node.
func (s *server) dial(ctx context.Context, node int, address string) (l *Link, err error) {
	conn, err := (&net.Dialer{KeepAliveConfig: keepAlive}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connecting to node %d: %w", node, err)
	}
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer func() {
		if stop(); err != nil {
			conn.Close()
			err = fmt.Errorf("connecting to node %d at %s: %w", node, address, err)
		}
	}()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+linkPath+"?node="+strconv.Itoa(s.ID), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", upgrade)
	r.Header.Set("Authorization", "Bearer "+s.Token)
	if err := r.Write(conn); err != nil {
		return nil, err
	}
	in := bufio.NewReaderSize(conn, 64<<10)
	answer, err := http.ReadResponse(in, r)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusSwitchingProtocols {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, maxText))
		answer.Body.Close()
		return nil, errors.New(answer.Status + ": " + string(text))
	}
	return s.newLink(node, conn, in), nil
}
