package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// serverErrors are what a server reports about a connection beside its answers, such as a missing
// permission: a call without the permission gets no answer at all.
type serverErrors struct {
	name string // of the queue
	log  *slog.Logger

	mu     sync.Mutex
	last   string
	at     time.Time // when last was logged
	denied error     // what JetStream needs and the user may not do
	when   time.Time // when denied was reported
}

// hear logs an error; the same at most twice a minute. NATS's own handler would print it.
func (c *serverErrors) hear(_ *nats.Conn, _ *nats.Subscription, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	text := err.Error()
	if errors.Is(err, nats.ErrPermissionViolation) && (strings.Contains(text, "$JS.API") || strings.Contains(text,
		"_INBOX")) {
		c.denied, c.when = err, time.Now()
	}
	if text != c.last || time.Since(c.at) > 30*time.Second {
		c.last, c.at = text, time.Now()
		c.log.Warn("queue: the server reports an error", "err", err)
	}
}

// explain returns an ErrAccess that names the missing permission if that is why a call got no
// answer, and other errors as they are. A call without an answer ends after 5 s at least, so that a
// permission reported long before does not concern it.
func (c *serverErrors) explain(err error) error {
	if errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) {
		return fmt.Errorf("queue: %w: %w: enable JetStream for the account of this user", ErrAccess, err)
	}
	if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, nats.ErrTimeout) {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.denied == nil || time.Since(c.when) > 30*time.Second {
		return err
	}
	return fmt.Errorf("queue: %w: the user lacks a permission: %w: it must be allowed to publish to $JS.API.>, $JS.ACK.>, $O.> and vagen.%s.>, and to subscribe to _INBOX.> and vagen.%s.>",
		ErrAccess, c.denied, c.name, c.name)
}
