package queue

import (
	"crypto/tls"
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
}

// failed reports whether the server no longer stores anything. It disables JetStream, or a single
// stream, for good when it cannot write.
func (e *embedded) failed() bool {
	return e != nil && (!e.JetStreamEnabled() || e.words.critical.Load())
}

func (e *embedded) stop() {
	if e != nil {
		stop(e.Server)
	}
}

// start starts an embedded server.
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
	if port == 0 {
		port = server.RANDOM_PORT
	}
	so := &server.Options{
		ServerName: "vagen-" + o.Name, Host: host, Port: port, JetStream: true, StoreDir: o.Dir, NoSigs: true, NoLog: true,
		MaxPayload: maxPayload, SyncAlways: o.Sync,
	}
	if o.User != "" {
		so.Username, so.Password = o.User, o.Key
	} else {
		so.Authorization = o.Key
	}
	if o.Cert != "" {
		own, err := o.certificate()
		if err != nil {
			return nil, err
		}
		so.TLS, so.TLSTimeout = true, 5
		so.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{own}}
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
			return &embedded{s, words}, nil
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
	options, said, err := o.dial()
	if err != nil {
		return nil, nil, nil, err
	}
	if o.URL != Embedded {
		nc, err := nats.Connect(o.URL, options...)
		if err != nil {
			return nil, nil, nil, access(err)
		}
		return nc, nil, said, nil
	}
	s, err := o.start()
	if err != nil {
		return nil, nil, nil, err
	}
	nc, err := nats.Connect("", append(options, nats.InProcessServer(s.Server))...)
	if err != nil {
		s.stop()
		return nil, nil, nil, access(err)
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
