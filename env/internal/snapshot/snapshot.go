// Package snapshot writes and reads the states of environments.
package snapshot

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"vagen/internal/jsontext"
)

// Errors that Encode and Decode wrap; package env exports them.
var (
	Err   = errors.New("bad snapshot")
	ErrNo = errors.New("the environment has no snapshots")
)

// version is the format of envelope.
const version = 1

// MaxBytes is the length of the longest snapshot that Decode reads.
const MaxBytes = 16 << 20

// envelope is a snapshot as JSON. Options and Sum are SHA-256, in hexadecimal: of the
// environment's options as JSON, and of State.
type envelope struct {
	Version int             `json:"version"`
	Env     string          `json:"env"`
	Options string          `json:"options"`
	Sum     string          `json:"sum"`
	State   json.RawMessage `json:"state"`
}

// Encode returns the snapshot of an environment. Options and state must be values of
// encoding/json that keep every number: no NaN, no infinity.
func Encode(env string, options, state any) ([]byte, error) {
	fail := func(err error) ([]byte, error) { return nil, fmt.Errorf("%s: snapshot: %w", env, err) }
	made, err := digest(options)
	if err != nil {
		return fail(err)
	}
	raw, err := json.Marshal(state)
	if err != nil {
		return fail(err)
	}
	out, err := json.Marshal(envelope{Version: version, Env: env, Options: made, Sum: sum(raw), State: raw})
	if err != nil {
		return fail(err)
	}
	if len(out) > MaxBytes {
		return fail(fmt.Errorf("%w: it has %d bytes, at most %d are allowed", Err, len(out), MaxBytes))
	}
	return out, nil
}

// Decode reads a snapshot of Encode with the same environment and options into state, a
// pointer. Every error wraps Err; state may then be partly written. The caller checks
// that the state is possible.
func Decode(env string, options any, snapshot []byte, state any) error {
	if len(snapshot) > MaxBytes {
		return Bad(env, "it has %d bytes, at most %d are allowed", len(snapshot), MaxBytes)
	}
	var e envelope
	if err := jsontext.Strict(snapshot, &e); err != nil {
		return Bad(env, "%v", err)
	}
	made, err := digest(options)
	switch {
	case err != nil:
		return Bad(env, "%v", err)
	case e.Version != version:
		return Bad(env, "its version is %d, must be %d", e.Version, version)
	case e.Env != env:
		return Bad(env, "it is of the environment %.40q", e.Env)
	case e.Sum != sum(e.State):
		return Bad(env, "the checksum of its state is wrong")
	case e.Options != made:
		return Bad(env, "it was made with other options")
	}
	if err := jsontext.Strict(e.State, state); err != nil {
		return Bad(env, "state: %v", err)
	}
	return nil
}

// Bad is an error about a snapshot that cannot be restored. It wraps Err.
func Bad(env, format string, args ...any) error {
	return fmt.Errorf("%s: restore: %w: %s", env, Err, fmt.Sprintf(format, args...))
}

func digest(options any) (string, error) {
	raw, err := json.Marshal(options)
	if err != nil {
		return "", fmt.Errorf("options: %w", err)
	}
	return sum(raw), nil
}

func sum(raw []byte) string {
	h := sha256.Sum256(raw)
	return hex.EncodeToString(h[:])
}
