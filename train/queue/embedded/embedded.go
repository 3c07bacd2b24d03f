// Package embedded starts NATS servers with JetStream in this process, for queue.Options.Server
// and run.Options.QueueServer. Who has a server elsewhere does not need it, and its program
// contains no server: nats-server also registers /debug/pprof at http.DefaultServeMux.
package embedded

import (
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"vagen/internal/silent"
	"vagen/train/queue"
)

// startTimeout limits the start of a server, which may have to read its files.
const startTimeout = time.Minute

var _ queue.Starter = Start

// Start starts a server, and waits until it can be used. Errors wrap queue.ErrServer.
func Start(o queue.ServerOptions) (queue.Server, error) {
	if o.Dir == "" {
		return nil, fmt.Errorf("queue: %w: Dir is empty, must be a folder for the server's files", queue.ErrServer)
	}
	listen := net.JoinHostPort(o.Host, strconv.Itoa(o.Port))
	if o.Port == 0 {
		o.Port = server.RANDOM_PORT
	}
	so := &server.Options{
		ServerName: "vagen-" + o.Name, Host: o.Host, Port: o.Port, JetStream: true, StoreDir: o.Dir, NoSigs: true,
		NoLog:      true,
		MaxPayload: int32(o.MaxPayload), SyncAlways: o.Sync,
	}
	if o.User != "" {
		so.Username, so.Password = o.User, o.Key
	} else {
		so.Authorization = o.Key
	}
	if o.TLS != nil {
		so.TLS, so.TLSTimeout, so.TLSConfig = true, 5, o.TLS
	}
	s, err := server.NewServer(so)
	if err != nil {
		return nil, fmt.Errorf("queue: %w: %w", queue.ErrServer, err)
	}
	log := silent.Log(o.Log)
	e := &embedded{Server: s, log: &serverLog{log: log, failed: make(chan struct{})}}
	s.SetLogger(e.log, false, false)
	go s.Start()
	ready := make(chan bool, 1)
	go func() { ready <- s.ReadyForConnections(startTimeout) }()
	select {
	case ok := <-ready:
		if ok && s.JetStreamEnabled() {
			return e, nil
		}
		e.Stop()
		return nil, fmt.Errorf("queue: %w: the embedded server on %s with files in %s did not start within %v",
			queue.ErrServer, listen, o.Dir, startTimeout)
	case <-e.log.failed:
		e.Stop()
		return nil, fmt.Errorf("queue: %w: the embedded server on %s with files in %s: %w",
			queue.ErrServer, listen, o.Dir, e.log.err)
	}
}

// embedded is a queue.Server.
type embedded struct {
	*server.Server
	log *serverLog
}

// Failed implements queue.Server. A server disables JetStream, or a single stream, for good when
// it cannot write.
func (e *embedded) Failed() bool { return !e.JetStreamEnabled() || e.log.critical.Load() }

// Stop implements queue.Server.
func (e *embedded) Stop() {
	e.Shutdown()
	e.WaitForShutdown()
}

// serverLog is the log of a server: errors are logged, and the one that prevents the start is
// kept, because the server's own start does not return it.
type serverLog struct {
	log    *slog.Logger
	once   sync.Once
	failed chan struct{} // closed when the server cannot start
	err    error         // why; read after failed

	critical atomic.Bool // a stream could not be written, after which the server never writes it again
}

var _ server.Logger = (*serverLog)(nil)

// Fatalf implements server.Logger.
func (s *serverLog) Fatalf(format string, v ...any) {
	s.once.Do(func() {
		s.err = fmt.Errorf(format, v...)
		close(s.failed)
	})
}

// Errorf implements server.Logger.
func (s *serverLog) Errorf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	if strings.Contains(strings.ToLower(text), "critical write error") {
		s.critical.Store(true)
	}
	s.log.Warn("queue: the embedded server reports an error", "err", text)
}

// Warnf implements server.Logger.
func (s *serverLog) Warnf(format string, v ...any) {
	s.log.Debug("queue: the embedded server warns", "text", fmt.Sprintf(format, v...))
}

// Noticef implements server.Logger.
func (*serverLog) Noticef(string, ...any) {}

// Debugf implements server.Logger.
func (*serverLog) Debugf(string, ...any) {}

// Tracef implements server.Logger.
func (*serverLog) Tracef(string, ...any) {}
