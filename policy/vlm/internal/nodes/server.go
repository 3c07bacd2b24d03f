package nodes

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Limits on clients that have not shown the token.
const (
	maxClients = 256
	maxHeader  = 8 << 10
	headerTime = 10 * time.Second
)

const (
	linkPath = "/link"
	upgrade  = "vagen-nodes"
)

// keepAlive notices hosts that have vanished after about a minute.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 15 * time.Second, Count: 3}

// server accepts connections until all nodes are connected.
type server struct {
	*Config
	self     member
	secure   *tls.Config // nil without TLS
	http     *http.Server
	served   chan error
	accepted chan *Link
	attempts atomic.Int64 // to connect to others
}

// authorized passes only requests that carry the token; an empty token passes all.
func authorized(token string, next http.Handler) http.Handler {
	want := sha256.Sum256([]byte("Bearer " + token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := sha256.Sum256([]byte(r.Header.Get("Authorization")))
		if token != "" && subtle.ConstantTimeCompare(want[:], got[:]) == 0 {
			http.Error(w, "wrong token", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func newServer(ctx context.Context, c *Config) (*server, error) {
	s := &server{Config: c, served: make(chan error, 1), accepted: make(chan *Link, maxClients)}
	s.self.Instance, s.self.Facts = rand.Text(), s.allFacts()
	var err error
	if s.secure, err = c.TLS.load(); err != nil {
		return nil, fmt.Errorf("nodes: node %d: %w: %w", c.ID, ErrConfig, err)
	}
	l, err := s.listen(ctx)
	if err != nil {
		return nil, fmt.Errorf("nodes: node %d: %w", c.ID, err)
	}
	if err := s.checkHost(); err != nil {
		l.Close()
		return nil, fmt.Errorf("nodes: node %d: %w", c.ID, err)
	}
	if s.secure != nil {
		l = tls.NewListener(l, s.secure)
	}
	mux := http.NewServeMux()
	mux.Handle(linkPath, authorized(c.Token, http.HandlerFunc(s.accept)))
	var clients atomic.Int64
	s.http = &http.Server{
		Handler: mux, ReadHeaderTimeout: headerTime, ReadTimeout: time.Minute, IdleTimeout: time.Minute, MaxHeaderBytes: maxHeader,
		ErrorLog: log.New(&refused{s}, "", 0),
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

// refused logs connections that are refused before a request, such as those without a certificate.
type refused struct{ *server }

func (r *refused) Write(text []byte) (int, error) {
	r.Log.Warn("a connection was refused", "node", r.ID, "why", strings.TrimSpace(string(text)))
	return len(text), nil
}

// listen opens the port, and sets how others reach it.
func (s *server) listen(ctx context.Context) (net.Listener, error) {
	address, err := s.listenAddress(ctx)
	if err != nil {
		return nil, err
	}
	at, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("address %q: %w: %w", address, ErrConfig, err)
	}
	if s.Token == "" && !at.IP.IsLoopback() {
		return nil, fmt.Errorf("%w: other machines can reach %v, so a token is needed: without one, strangers could join and read the weights", ErrConfig, at)
	}
	l, err := (&net.ListenConfig{KeepAliveConfig: keepAlive}).Listen(ctx, "tcp", at.String())
	if err != nil {
		return nil, err
	}
	s.self.Address = l.Addr().String()
	s.self.Host, _, err = net.SplitHostPort(address)
	switch {
	case s.ID == 0: // others use the coordinator's address
		s.self.Host, _, err = net.SplitHostPort(s.Coordinator)
	case err == nil && at.IP.IsUnspecified():
		s.self.Host, err = s.route(ctx)
		s.self.Address = net.JoinHostPort(s.self.Host, strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
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
	err = s.retry(ctx, 0, func() error {
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
		err = fmt.Errorf("route to Coordinator %q: %w", s.Coordinator, err)
	}
	return host, err
}

func (s *server) close() {
	s.http.Close()
	<-s.served
	for {
		select {
		case l := <-s.accepted: // more than were needed
			l.hangUp()
		default:
			return
		}
	}
}

// accept makes a link of a node's request.
func (s *server) accept(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	node, err := strconv.Atoi(query.Get("node"))
	if err != nil || r.Header.Get("Upgrade") != upgrade {
		http.Error(w, "not a node", http.StatusBadRequest)
		return
	}
	if node <= s.ID || node >= s.Nodes {
		http.Error(w, fmt.Sprintf("node %d of %d expects nodes %d to %d", s.ID, s.Nodes, s.ID+1, s.Nodes-1), http.StatusBadRequest)
		return
	}
	if s.ID != 0 && query.Get("to") != s.self.Instance {
		http.Error(w, "this is another process than the expected one", http.StatusConflict)
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
	l := s.newLink(node, query.Get("instance"), conn, rw.Reader)
	l.attempt, _ = strconv.Atoi(query.Get("attempt"))
	// First the link, so that it is there when the other node knows that it is connected. The answer
	// fits into the buffers of an unused connection, so that writing needs no limit.
	select {
	case s.accepted <- l:
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+upgrade+"\r\n\r\n")
	default:
		l.hangUp()
	}
}

func (s *server) newLink(node int, instance string, conn net.Conn, in *bufio.Reader) *Link {
	l := &Link{node: node, instance: instance, conn: conn, in: in, wrote: counter{Conn: conn}, timeout: s.Timeout}
	l.out = bufio.NewWriterSize(&l.wrote, 64<<10)
	return l
}

var (
	errOther = errors.New("another process listens there")
	errToken = errors.New("it does not accept the token")
)

// dial connects to another node.
func (s *server) dial(ctx context.Context, node int, m member) (l *Link, err error) {
	conn, err := (&net.Dialer{KeepAliveConfig: keepAlive}).DialContext(ctx, "tcp", m.Address)
	if err != nil {
		return nil, fmt.Errorf("connecting to node %d: %w", node, err)
	}
	if s.secure != nil {
		c := s.secure.Clone()
		c.ServerName = m.Host
		conn = tls.Client(conn, c)
	}
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer func() {
		if stop(); err != nil {
			hangUp(conn)
			err = fmt.Errorf("connecting to node %d at %s: %w", node, m.Address, s.explainTLS(err))
		}
	}()
	conn.SetDeadline(time.Now().Add(headerTime))
	if ctx.Err() != nil { // the deadline is not to replace that of stop
		return nil, context.Cause(ctx)
	}
	in, err := s.request(ctx, conn, m)
	if err != nil {
		return nil, err
	}
	conn.SetDeadline(time.Time{})
	return s.newLink(node, m.Instance, conn, in), ctx.Err()
}

// request asks the node at the other end of a connection for a link.
func (s *server) request(ctx context.Context, conn net.Conn, m member) (*bufio.Reader, error) {
	if secure, ok := conn.(*tls.Conn); ok {
		if err := secure.HandshakeContext(ctx); err != nil {
			return nil, err
		}
	}
	url := fmt.Sprintf("http://%s%s?node=%d&instance=%s&attempt=%d&to=%s", m.Address, linkPath, s.ID, s.self.Instance, s.attempts.Add(1), m.Instance)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", upgrade)
	r.Header.Set("Authorization", "Bearer "+s.Token)
	wrote := r.Write(conn)
	// A server that does not accept a certificate says so before it closes, even if it has not read
	// the request.
	in := bufio.NewReaderSize(conn, 64<<10)
	a, err := http.ReadResponse(in, r)
	switch {
	case err != nil && wrote != nil:
		return nil, errors.Join(err, wrote)
	case err != nil:
		return nil, err
	case a.StatusCode == http.StatusSwitchingProtocols:
		return in, nil
	}
	raw, _ := io.ReadAll(io.LimitReader(a.Body, maxText))
	a.Body.Close()
	text := strings.TrimSpace(string(raw))
	switch {
	case a.StatusCode == http.StatusConflict:
		return nil, errOther
	case a.StatusCode == http.StatusUnauthorized:
		return nil, fmt.Errorf("%w: %w", ErrConfig, errToken)
	case s.secure == nil && strings.Contains(text, "HTTPS"): // the answer of net/http to a request without TLS
		return nil, fmt.Errorf("%w: it uses TLS, but this node does not: Cert, CertKey and CA must be set on all nodes, or on none", ErrCertificate)
	}
	return nil, fmt.Errorf("%w: %s: %s", ErrConfig, a.Status, text)
}

// retry calls f until it fails otherwise than because a node cannot be reached: it may start
// later, and its name may be unknown until then. The last error is returned with that of ctx.
func (s *server) retry(ctx context.Context, node int, f func() error) error {
	const pause = 200 * time.Millisecond
	for logged := false; ; logged = true {
		err := f()
		if err == nil || !passing(err) {
			return err
		}
		if ctx.Err() != nil {
			return errors.Join(context.Cause(ctx), err)
		}
		if !logged {
			s.Log.Info("a node cannot be reached yet", "node", node, "err", err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// passing reports whether another attempt to connect may succeed.
func passing(err error) bool {
	var network *net.OpError
	return !errors.Is(err, ErrCertificate) &&
		(errors.As(err, &network) || errors.Is(err, errOther) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF))
}
