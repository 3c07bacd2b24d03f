package queue

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"vagen/internal/field"
	"vagen/internal/natsurl"
	"vagen/internal/regular"
	"vagen/internal/silent"
	"vagen/internal/transport"
	"vagen/rollout"
)

// Embedded as Options.URL starts a server in this process.
const Embedded = natsurl.Embedded

// Sentinels.
var (
	// ErrOption means that an option is not allowed.
	ErrOption = errors.New("bad option")
	// ErrServer means that the server cannot be reached, or lacks what a queue needs.
	ErrServer = errors.New("the queue's server cannot be used")
	// ErrAccess means that the server refuses the credentials, or that its user lacks a permission.
	ErrAccess = errors.New("the queue's server refuses the credentials")
	// ErrCertificate means that a certificate is not accepted: the server's here, or the client's
	// by the server.
	ErrCertificate = errors.New("the certificate of the queue's server or of this client is not accepted")
	// ErrOtherRun means that the queue belongs to another run.
	ErrOtherRun = errors.New("the queue holds another run")
	// ErrFailed means that no episode of a batch could be played.
	ErrFailed = errors.New("every episode failed in the workers")
	// ErrResult means that a worker sent a result that cannot be used.
	ErrResult = errors.New("a worker sent a result that cannot be used")
)

// Connection says which queue on which server, and how to log in.
type Connection struct {
	// URL is that of a NATS server with JetStream, or several with commas between them, such
	// as nats://host:4222 or tls://host:4222. It must not contain credentials.
	URL string
	// Name tells several queues on a server apart.
	Name string
	// Creds is a file with credentials in NATS's format (JWT and key); "" for none.
	Creds string
	// User and Key log in with user and password, or with Key alone with a token. Key does not
	// appear in errors or logs.
	User, Key string
	// KeyFile is a file with Key, without which a worker waits; "" for none. An embedded server
	// with neither Key nor KeyFile makes a key of its own: see Queue.KeyFile.
	KeyFile string
	// CA is a PEM file with the authorities that sign the server's certificate; "" is those of
	// the system. Cert and CertKey are PEM files of the own certificate: of the client, or of an
	// embedded server, whose trainer is connected within the process and needs no CA.
	CA, Cert, CertKey string
	// Log receives information and warnings; nil discards them.
	Log *slog.Logger
}

// Options are those of a trainer's Queue.
type Options struct {
	Connection
	// Run identifies the run. A queue that holds tasks of another one is refused.
	Run string
	// Dir is the folder of an embedded server's files, and Listen the address where it expects
	// workers. An address that other machines can reach needs a Key or a KeyFile.
	Dir, Listen string
	// Server starts an embedded server: Start of package train/queue/embedded. Queues by URL need none.
	Server Starter
	// Sync makes an embedded server write every message to disk before it confirms it.
	// Otherwise a power failure, not the end of the process, may lose messages of the last
	// minutes, and their episodes are played again.
	Sync bool
	// Lease is how long a task stays with a worker that is not heard of.
	Lease time.Duration
	// Tries is how often a task may end or fail its worker. A worker that is not heard of for the
	// time of Lease counts as ended.
	Tries int
	// NoWorkers ends a batch whose workers ended with errors: if at least one did, there was no
	// result for this time since, and no worker is left. 0 waits for workers as long as the
	// context allows, as does a batch whose workers reported no error.
	NoWorkers time.Duration
	// Window is the number of tasks in the queue at a time.
	Window int
	// Setup is passed to workers as it is, in every batch: what they need to open environments.
	Setup []byte
	// Policy returns what workers need to sample with the policy of a player as it is now; nil
	// passes nothing.
	Policy PolicySource
	// CheckRow checks a row of a result before it is used; nil checks what needs no model.
	CheckRow RowCheck
	// Done is called once with each episode of a batch, when its result arrives, with what
	// Opened.Observe reported in the worker, nil for an episode that could not be played. ctx is
	// that of Deal, whose goroutine calls it. The report is not trusted: with an error that wraps
	// ErrResult the result counts as a failure of the worker. Other errors end Deal. Nil does
	// nothing.
	Done func(ctx context.Context, t *rollout.Trajectory, report []byte) error
}

// DefaultOptions returns an embedded server on the loopback interface, which needs Server, leases
// of 30 s, 3 tries, and two minutes without workers.
func DefaultOptions() Options {
	return Options{
		Connection: Connection{URL: Embedded, Name: "vagen"}, Listen: "127.0.0.1:4222",
		Lease: 30 * time.Second, Tries: 3, NoWorkers: 2 * time.Minute, Window: 4096,
	}
}

func (o *Connection) check(c *field.Checks) *natsurl.Connection {
	login := &natsurl.Connection{URL: o.URL, Name: o.Name, Creds: o.Creds, User: o.User, Key: o.hasKey(), CA: o.CA,
		Cert: o.Cert, CertKey: o.CertKey}
	login.Check(c)
	if o.Key != "" && o.KeyFile != "" {
		c.Bad("KeyFile", "%q, but {Key} is set, too: set one of them", o.KeyFile)
	}
	return login
}

// Check returns an error that lists all problems and wraps ErrOption.
func (o *Options) Check() error {
	c := field.Options("queue", ErrOption)
	login := o.Connection.check(c)
	c.Positive("Tries", o.Tries)
	c.Positive("Window", o.Window)
	if o.Lease < 100*time.Millisecond {
		c.Bad("Lease", "%v, must be at least 100ms", o.Lease)
	}
	if o.NoWorkers < 0 {
		c.Bad("NoWorkers", "%v, must not be negative", o.NoWorkers)
	}
	if o.Run == "" {
		c.Bad("Run", "empty, must identify the run")
	}
	if o.URL == Embedded {
		if o.Server == nil {
			c.Bad("Server", "nil, must be Start of package vagen/train/queue/embedded, which starts the server of URL %s",
				Embedded)
		}
		if o.Dir == "" {
			c.Bad("Dir", "empty, must be a folder for the embedded server")
		}
		login.CheckServer(c, o.Listen)
	}
	return c.Err()
}

// dial returns the options of a connection, and where errors of its server are collected.
func (o *Connection) dial() ([]nats.Option, *serverErrors, error) {
	reported := &serverErrors{name: o.Name, log: o.log()}
	out := []nats.Option{
		nats.Name("vagen"), nats.MaxReconnects(-1), nats.ReconnectWait(250 * time.Millisecond),
		nats.ReconnectJitter(250*time.Millisecond, time.Second),
		nats.PingInterval(20 * time.Second), nats.ErrorHandler(reported.hear),
	}
	switch {
	case o.Creds != "":
		creds := nats.UserCredentials(o.Creds)
		var read nats.Options
		_, err := regular.ReadFile(o.Creds)
		if err == nil {
			err = creds(&read)
		}
		if err == nil {
			_, err = read.UserJWT()
		}
		if err == nil {
			_, err = read.SignatureCB([]byte("nonce"))
		}
		if err != nil { // which a server that is not reachable yet would hide
			return nil, nil, fmt.Errorf("queue: %w: Creds: %s must be a file of credentials in NATS's format: %w", ErrOption,
				o.Creds, err)
		}
		out = append(out, creds)
	case o.hasKey():
		out = append(out, o.login())
	}
	t, err := o.clientTLS()
	if err == nil && t != nil {
		out = append(out, nats.Secure(t))
	}
	return out, reported, err
}

// ended returns an error if a connection has been given up, which the client does when a server
// refuses its credentials twice: waiting would not end.
func ended(nc *nats.Conn) error {
	if !nc.IsClosed() {
		return nil
	}
	return access(cmp.Or(nc.LastError(), nats.ErrConnectionClosed))
}

// clientTLS returns the settings of TLS, nil if none differ from NATS's own.
func (o *Connection) clientTLS() (*tls.Config, error) {
	if o.URL == Embedded || o.CA == "" && o.Cert == "" {
		return nil, nil
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CA != "" {
		raw, err := regular.ReadFile(o.CA)
		if err != nil {
			return nil, fmt.Errorf("queue: %w: CA: %w", ErrOption, err)
		}
		if t.RootCAs = x509.NewCertPool(); !t.RootCAs.AppendCertsFromPEM(raw) {
			return nil, fmt.Errorf("queue: %w: CA: %s has no certificate in PEM", ErrOption, o.CA)
		}
	}
	if o.Cert != "" {
		own, err := o.certificate()
		if err != nil {
			return nil, err
		}
		t.Certificates = []tls.Certificate{own}
	}
	return t, nil
}

func (o *Connection) certificate() (tls.Certificate, error) {
	own, err := transport.KeyPair(o.Cert, o.CertKey)
	if err != nil {
		err = fmt.Errorf("queue: %w: Cert, CertKey: %w", ErrOption, err)
	}
	return own, err
}

func (o *Connection) log() *slog.Logger {
	return silent.Log(o.Log)
}

// access converts an error of a connection, if there is one: those about credentials wrap ErrAccess, those about
// certificates ErrCertificate, others ErrServer.
func access(err error) error {
	if err == nil {
		return nil
	}
	kind := ErrServer
	var theirs *tls.CertificateVerificationError
	var alert *net.OpError // of the other side
	if errors.As(err, &theirs) || errors.As(err, &alert) && alert.Op == "remote error" {
		kind = ErrCertificate
	}
	for _, denied := range []error{nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked,
		nats.ErrPermissionViolation, nats.ErrAccountAuthExpired} {
		if errors.Is(err, denied) {
			kind = ErrAccess
		}
	}
	if strings.Contains(strings.ToLower(err.Error()), "authorization violation") {
		kind = ErrAccess
	}
	return fmt.Errorf("queue: %w: %w", kind, err)
}
