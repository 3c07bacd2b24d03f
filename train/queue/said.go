package queue

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats-server/v2/server"
)

// said receives what an embedded server has to say: errors are logged, and the one that prevents
// its start is kept, because the server's own start does not return it.
type said struct {
	log    *slog.Logger
	once   sync.Once
	failed chan struct{} // closed when the server cannot start
	err    error         // why; read after failed

	critical atomic.Bool // a stream could not be written, after which the server never writes it again
}

var _ server.Logger = (*said)(nil)

func newSaid(log *slog.Logger) *said { return &said{log: log, failed: make(chan struct{})} }

// Fatalf implements server.Logger.
func (s *said) Fatalf(format string, v ...any) {
	s.once.Do(func() {
		s.err = fmt.Errorf(format, v...)
		close(s.failed)
	})
}

// Errorf implements server.Logger.
func (s *said) Errorf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	if strings.Contains(strings.ToLower(text), "critical write error") {
		s.critical.Store(true)
	}
	s.log.Warn("queue: the embedded server reports an error", "err", text)
}

// Warnf implements server.Logger.
func (s *said) Warnf(format string, v ...any) {
	s.log.Debug("queue: the embedded server warns", "text", fmt.Sprintf(format, v...))
}

// Noticef implements server.Logger.
func (*said) Noticef(string, ...any) {}

// Debugf implements server.Logger.
func (*said) Debugf(string, ...any) {}

// Tracef implements server.Logger.
func (*said) Tracef(string, ...any) {}
