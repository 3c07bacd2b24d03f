package queue

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"vagen/internal/natsurl"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// maxPayload is the largest message of an embedded server. Results that are larger go to the
// object store.
const maxPayload = 8 << 20

// startTimeout limits the start of an embedded server, which may have to read its files.
const startTimeout = time.Minute

// embedded is a server in this process. nil is none.
type embedded struct {
	*server.Server
	words *said
	key   string // the file with its own key; "" if it was given one
}

// failed reports whether the server no longer stores anything. It disables JetStream, or a single
// stream, for good when it cannot write.
func (e *embedded) failed() bool {
	return e != nil && (!e.JetStreamEnabled() || e.words.critical.Load())
}

func (e *embedded) stop() error {
	if e == nil {
		return nil
	}
	stop(e.Server)
	return removeKey(e.key)
}

// start starts an embedded server, and sets KeyFile if it has a key of its own.
func (o *Options) start() (*embedded, error) {
	host, port, err := natsurl.Listen(o.Listen)
	if err != nil {
		return nil, fmt.Errorf("queue: %w: Listen: %w", ErrOption, err)
	}
	// The server does not report that it cannot listen or write: that is tried before.
	if err := o.probeListen(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("queue: %w: Dir: %w", ErrServer, err)
	}
	own := ""
	if !o.hasKey() {
		if own, err = makeKey(o.Dir); err != nil {
			return nil, fmt.Errorf("queue: %w: Dir: %w", ErrServer, err)
		}
		o.KeyFile = own
	}
	s, err := o.serve(host, port)
	if err != nil {
		return nil, errors.Join(err, removeKey(own))
	}
	s.key = own
	return s, nil
}

// serverOptions returns the options of an embedded server.
func (o *Options) serverOptions(host string, port int) (*server.Options, error) {
	if port == 0 {
		port = server.RANDOM_PORT
	}
	so := &server.Options{
		ServerName: "vagen-" + o.Name, Host: host, Port: port, JetStream: true, StoreDir: o.Dir, NoSigs: true, NoLog: true,
		MaxPayload: maxPayload, SyncAlways: o.Sync,
	}
	key, err := o.secret()
	if err != nil {
		return nil, err
	}
	if o.User != "" {
		so.Username, so.Password = o.User, key
	} else {
		so.Authorization = key
	}
	if o.Cert != "" {
		own, err := o.certificate()
		if err != nil {
			return nil, err
		}
		so.TLS, so.TLSTimeout = true, 5
		so.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{own}}
	}
	return so, nil
}

// serve starts an embedded server, and waits until it can be used.
func (o *Options) serve(host string, port int) (*embedded, error) {
	so, err := o.serverOptions(host, port)
	if err != nil {
		return nil, err
	}
	s, err := server.NewServer(so)
	if err != nil {
		return nil, fmt.Errorf("queue: %w: %w", ErrServer, err)
	}
	words := newSaid(o.log())
	s.SetLogger(words, false, false)
	go s.Start()
	ready := make(chan bool, 1)
	go func() { ready <- s.ReadyForConnections(startTimeout) }()
	select {
	case ok := <-ready:
		if ok && s.JetStreamEnabled() {
			return &embedded{Server: s, words: words}, nil
		}
		stop(s)
		return nil, fmt.Errorf("queue: %w: the embedded server on %s with files in %s did not start within %v", ErrServer, o.Listen, o.Dir, startTimeout)
	case <-words.failed:
		stop(s)
		return nil, fmt.Errorf("queue: %w: the embedded server on %s with files in %s: %w", ErrServer, o.Listen, o.Dir, words.err)
	}
}

// connect connects to the server, which it starts if it is embedded.
func (o *Options) connect() (*nats.Conn, *embedded, *complaints, error) {
	var s *embedded
	if o.URL == Embedded {
		var err error
		if s, err = o.start(); err != nil {
			return nil, nil, nil, err
		}
	} else if _, err := o.secret(); err != nil {
		return nil, nil, nil, err
	}
	options, said, err := o.dial()
	if err != nil {
		return nil, nil, nil, errors.Join(err, s.stop())
	}
	url := o.URL
	if s != nil {
		url, options = "", append(options, nats.InProcessServer(s.Server))
	}
	nc, err := nats.Connect(url, options...)
	if err != nil {
		return nil, nil, nil, errors.Join(access(err), s.stop())
	}
	return nc, s, said, nil
}

func stop(s *server.Server) {
	s.Shutdown()
	s.WaitForShutdown()
}

// probeListen checks that an embedded server can listen.
func (o *Options) probeListen() error {
	probe, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return fmt.Errorf("queue: %w: Listen: %w", ErrServer, err)
	}
	return probe.Close()
}
