package env

import (
	"context"
	"fmt"

	"vagen/env/internal/snapshot"
)

// Sentinels of snapshots.
var (
	// ErrSnapshot means that bytes are not a snapshot that the environment can restore:
	// they are damaged, or of another environment or other options.
	ErrSnapshot = snapshot.Err
	// ErrNoSnapshot means that the environment inside a wrapper has no snapshots.
	ErrNoSnapshot = snapshot.ErrNo
)

// Snapshotter is implemented by environments whose state can be saved and restored. The
// methods are called between the others, like those of Env. Environments behind a service
// (package remote) do not implement it: the service keeps their state.
type Snapshotter interface {
	// Snapshot returns the whole state between two calls, after Reset or Step, as bytes
	// that another process can restore. Equal states give equal bytes. The environment
	// does not change. Before Reset the error wraps ErrNotReset. A wrapper around an
	// environment without snapshots returns an error that wraps ErrNoSnapshot.
	Snapshot() ([]byte, error)
	// Restore sets the state of a Snapshot of this instance or of another one that was
	// made with the same options. It takes the place of Reset: what follows equals what
	// would have followed the Snapshot. If the error wraps ErrSnapshot, the state is as
	// before. The bytes may come from anywhere: none make Restore, or the turns after it,
	// panic or allocate much more than their length.
	Restore(ctx context.Context, state []byte) error
}

// Reseeder is implemented by environments that draw random numbers after Reset.
type Reseeder interface {
	// Reseed restarts the randomness of all draws to come from the seed, so that one
	// state can be continued in several ways. What has been drawn stays. Before Reset
	// and Restore the error wraps ErrNotReset.
	Reseed(seed uint64) error
}

var (
	_ Snapshotter = Judged{}
	_ Reseeder    = Judged{}
)

// Snapshot implements Snapshotter, if the environment does. The judge has no state.
func (j Judged) Snapshot() ([]byte, error) {
	if s, ok := j.Env.(Snapshotter); ok {
		return s.Snapshot()
	}
	return nil, fmt.Errorf("env: snapshot: %w", ErrNoSnapshot)
}

// Restore implements Snapshotter, if the environment does.
func (j Judged) Restore(ctx context.Context, state []byte) error {
	if s, ok := j.Env.(Snapshotter); ok {
		return s.Restore(ctx, state)
	}
	return fmt.Errorf("env: restore: %w", ErrNoSnapshot)
}

// Reseed implements Reseeder. An environment that does not is left as it is: it draws
// nothing.
func (j Judged) Reseed(seed uint64) error {
	if r, ok := j.Env.(Reseeder); ok {
		return r.Reseed(seed)
	}
	return nil
}
