package chat

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"

	"vagen/internal/origin"
	"vagen/internal/transport"
	"vagen/internal/unmade"
	"vagen/policy"
)

// Model is a policy behind an API. Several goroutines may use it at once, each with
// its own conversations.
type Model struct {
	o       Options
	api     provider
	dialect dialect
	sent    []string // names of the fields that requests may have
	url     string
	key     *secret
	http    *http.Client
	slots   chan struct{} // requests at once
	pace    *pacer
	ledger  *ledger
	log     *slog.Logger

	mu    sync.Mutex
	chats map[uint64]*conversation
}

var _ policy.Policy = (*Model)(nil)

var errZero = unmade.Error("chat.Model", "New")

// New checks the options, reads the key from the environment, and returns a model
// that has not sent anything yet.
func New(o Options) (*Model, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	key, err := findKey(&o)
	if err != nil {
		return nil, err
	}
	o.Header, o.Prices = maps.Clone(o.Header), maps.Clone(o.Prices)
	o.Omit, o.Stop = slices.Clone(o.Omit), slices.Clone(o.Stop)
	if o.Extra, err = plain(o.Extra); err != nil {
		return nil, fmt.Errorf("chat: Extra: %w", err)
	}
	m := &Model{
		o: o, api: providers[o.API], url: o.endpoint(), key: key, slots: make(chan struct{}, o.Concurrency),
		pace: newPacer(&o), ledger: newLedger(&o), log: o.Log, chats: map[uint64]*conversation{},
	}
	m.dialect = m.api.dialect(&m.o)
	m.sent = append(slices.Collect(maps.Keys(m.o.Extra)), m.dialect.stop, m.dialect.logProbs, m.dialect.limit)
	m.sent = append(m.sent, m.dialect.optional()...)
	// "" would match an error that names no field
	m.sent = slices.DeleteFunc(m.sent, absent)
	m.log = cmp.Or(m.log, slog.New(slog.DiscardHandler))
	if o.Transport == nil {
		t := transport.Default()
		t.MaxIdleConns, t.MaxIdleConnsPerHost = o.Concurrency, o.Concurrency
		o.Transport = t
	}
	// A redirect would send the key and the conversation to another address.
	m.http = origin.Client(origin.None, o.Transport)
	if key.reveal() != "" && origin.Unencrypted(m.url) {
		m.log.Warn("the key is sent without encryption", "url", m.url)
	}
	return m, nil
}

// String names the model and the service.
func (m *Model) String() string { return fmt.Sprintf("%s %s at %s", m.o.API, m.o.Model, m.url) }

// GoString is like String: the fields are redacted.
func (m *Model) GoString() string { return "chat.Model(" + m.String() + ")" }

var _ slog.LogValuer = (*Model)(nil)

// LogValue implements slog.LogValuer.
func (m *Model) LogValue() slog.Value { return slog.StringValue(m.String()) }

// Usage returns the requests, tokens and cost so far.
func (m *Model) Usage() Usage {
	if m.ledger == nil {
		return Usage{}
	}
	return m.ledger.usage()
}

// Forget implements policy.Policy.
func (m *Model) Forget(keys ...uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range keys {
		delete(m.chats, key)
	}
}

// Close forgets all conversations and closes idle connections. The model can
// still be used.
func (m *Model) Close() error {
	m.mu.Lock()
	clear(m.chats)
	m.mu.Unlock()
	if m.http == nil {
		return nil
	}
	m.http.CloseIdleConnections()
	return nil
}
