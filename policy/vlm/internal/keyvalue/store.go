// Package keyvalue is a small key-value store that the processes of one run share over HTTP
// while they connect to each other: plugins of PJRT exchange topologies and identifiers of
// communicators through it.
//
// Keys are written once. The store, its requests and the time that a request waits are bounded,
// and every request carries the run's token.
package keyvalue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
)

// Limits of a store.
const (
	MaxKeys  = 4096
	MaxKey   = 1 << 10 // bytes
	MaxValue = 1 << 20 // bytes
)

var (
	// ErrNotFound is returned for a key without a value.
	ErrNotFound = errors.New("keyvalue: key not found")
	// ErrExists is wrapped by Put's error for a key that has another value.
	ErrExists = errors.New("the key has another value")
	// ErrLimit is wrapped by errors about a limit of the store.
	ErrLimit = errors.New("limit of the store")
)

// Store is implemented by Memory and Client.
type Store interface {
	// Get waits until the key has a value or ctx ends.
	Get(ctx context.Context, key string) ([]byte, error)
	// TryGet returns ErrNotFound if the key has no value.
	TryGet(ctx context.Context, key string) ([]byte, error)
	// Put sets a key's value. Putting the same value again has no effect; another one is an
	// error that wraps ErrExists.
	Put(ctx context.Context, key string, value []byte) error
}

var (
	_ Store = (*Memory)(nil)
	_ Store = (*Client)(nil)
)

// Memory is a store in this process. It is safe for concurrent use.
type Memory struct {
	mu      sync.Mutex
	values  map[string][]byte
	changed chan struct{} // closed by the next Put
}

// NewMemory returns an empty store.
func NewMemory() *Memory {
	return &Memory{values: map[string][]byte{}, changed: make(chan struct{})}
}

// Get implements Store.
func (m *Memory) Get(ctx context.Context, key string) ([]byte, error) {
	for {
		m.mu.Lock()
		value, ok := m.values[key]
		changed := m.changed
		m.mu.Unlock()
		if ok {
			return bytes.Clone(value), nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("keyvalue: waiting for key %q: %w", key, ctx.Err())
		}
	}
}

// TryGet implements Store.
func (m *Memory) TryGet(_ context.Context, key string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	value, ok := m.values[key]
	if !ok {
		return nil, fmt.Errorf("%w: %q", ErrNotFound, key)
	}
	return bytes.Clone(value), nil
}

// Put implements Store.
func (m *Memory) Put(_ context.Context, key string, value []byte) error {
	if err := checkSizes(key, value); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	old, ok := m.values[key]
	switch {
	case ok && bytes.Equal(old, value):
		return nil
	case ok:
		return fmt.Errorf("keyvalue: put %q: %w", key, ErrExists)
	case len(m.values) == MaxKeys:
		return fmt.Errorf("keyvalue: put %q: %w: it has %d keys, at most that many are allowed", key, ErrLimit, MaxKeys)
	}
	m.values[key] = bytes.Clone(value)
	close(m.changed)
	m.changed = make(chan struct{})
	return nil
}

func checkSizes(key string, value []byte) error {
	if key == "" || len(key) > MaxKey {
		return fmt.Errorf("keyvalue: %w: a key has %d bytes, must have 1 to %d", ErrLimit, len(key), MaxKey)
	}
	if len(value) > MaxValue {
		return fmt.Errorf("keyvalue: put %q: %w: the value has %d bytes, at most %d are allowed", key, ErrLimit, len(value), MaxValue)
	}
	return nil
}
