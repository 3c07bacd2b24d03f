package queue

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"

	"vagen/internal/natsurl"
	"vagen/internal/pace"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// maxPayload is the largest message of an embedded server. Results that are larger go to the
// object store.
const maxPayload = 8 << 20

// Server is a server with JetStream in this process.
type Server interface {
	nats.InProcessConnProvider
	// ClientURL returns the address for workers.
	ClientURL() string
	// Failed reports whether the server no longer stores what it is sent.
	Failed() bool
	// Stop stops the server, and waits until it has stopped.
	Stop()
}

// ServerOptions are those of a Server.
type ServerOptions struct {
	Name string // of the queue
	// Host and Port are the address where it listens; port 0 is a free one.
	Host string
	Port int
	Dir  string // of its files
	// User and Key must be given by clients; User "" is only Key, a token.
	User, Key  string
	TLS        *tls.Config // nil for none
	MaxPayload int         // of a message, in bytes
	Sync       bool        // write every message to disk before it is confirmed
	Log        *slog.Logger
}

// Starter starts a server, and waits until it can be used: Start of train/queue/embedded. Errors
// wrap ErrServer.
type Starter func(ServerOptions) (Server, error)

// embedded is a server in this process. nil is none.
type embedded struct {
	Server
	key string // the file with its own key; "" if it was given one
}

// failed reports whether the server no longer stores anything.
func (e *embedded) failed() bool { return e != nil && e.Failed() }

func (e *embedded) stop() error {
	if e == nil {
		return nil
	}
	e.Stop()
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
	so, err := o.serverOptions(host, port)
	if err != nil {
		return nil, errors.Join(err, removeKey(own))
	}
	s, err := o.Server(so)
	if err != nil {
		return nil, errors.Join(err, removeKey(own))
	}
	return &embedded{Server: s, key: own}, nil
}

// serverOptions returns the options of an embedded server.
func (o *Options) serverOptions(host string, port int) (ServerOptions, error) {
	so := ServerOptions{Name: o.Name, Host: host, Port: port, Dir: o.Dir, User: o.User, MaxPayload: maxPayload,
		Sync: o.Sync, Log: o.log()}
	var err error
	if so.Key, err = o.secret(); err != nil || o.Cert == "" {
		return so, err
	}
	own, err := o.certificate()
	so.TLS = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{own}}
	return so, err
}

// connect connects to the server, which it starts if it is embedded. It creates nothing there.
func (o *Options) connect() (*Queue, error) {
	q := &Queue{names: namesOf(o.Name)}
	var err error
	if o.URL == Embedded {
		q.server, err = o.start()
	} else {
		_, err = o.secret()
	}
	if err != nil {
		return nil, err
	}
	q.opts = *o // with the key of the server
	options, reported, err := o.dial()
	if err != nil {
		return nil, errors.Join(err, q.Close())
	}
	url := o.URL
	if q.server != nil {
		url, options = "", append(options, nats.InProcessServer(q.server.Server))
	}
	q.reported = reported
	if q.nc, err = nats.Connect(url, options...); err == nil {
		q.js, err = jetstream.New(q.nc, jetstream.WithDefaultTimeout(pace.Answer),
			jetstream.WithPublishAsyncMaxPending(1024), jetstream.WithPublishAsyncTimeout(confirmTimeout))
	}
	if err != nil {
		return nil, errors.Join(access(err), q.Close())
	}
	return q, nil
}

// probeListen checks that an embedded server can listen.
func (o *Options) probeListen() error {
	probe, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return fmt.Errorf("queue: %w: Listen: %w", ErrServer, err)
	}
	return probe.Close()
}
