package engine

import (
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"

	"vagen/internal/field"
)

// Kind is the program that servers run.
type Kind string

// The kinds of servers.
const (
	VLLM   Kind = "vllm"
	SGLang Kind = "sglang"
)

// Mixed says what becomes of a response that other weights than the current ones wrote,
// wholly or in part.
type Mixed string

// The choices. In every case the server gets the current weights before it is used again.
const (
	// MixedDrop generates the response again; after the last attempt the conversation fails.
	MixedDrop Mixed = "drop"
	// MixedKeep uses the response with the log-probs of its sampling, and counts it.
	MixedKeep Mixed = "keep"
	// MixedCorrect is MixedKeep for callers that weight tokens by importance: the ratio of
	// the learner's and the sampling probability corrects tokens of other weights.
	MixedCorrect Mixed = "correct"
)

// Options describe a Fleet. The zero value of a field is used as written, except where its
// comment says otherwise.
type Options struct {
	Kind Kind
	// Addresses are the servers' base URLs, such as http://host:8000.
	Addresses []string
	// Model is the name under which servers serve the base model; "" is the only one that
	// they list. SGLang ignores it.
	Model string
	// Key is sent as a bearer token if it is not empty. It does not appear in errors or logs.
	Key string
	// Timeout limits one request for a response. A response that takes longer is aborted on
	// its server and generated again.
	Timeout time.Duration `least:"1"`
	// SyncTimeout limits a call that loads weights.
	SyncTimeout time.Duration `least:"1"`
	// Attempts is how often a response is requested before its conversation fails, without
	// requests that met a server without the current weights.
	Attempts int `count:"positive"`
	// InFlight is the number of requests that a server gets at a time; further ones wait.
	InFlight int `count:"positive"`
	// EjectAfter is the number of failures in a row after which a server is not used until
	// a probe succeeds.
	EjectAfter int `count:"positive"`
	// ProbeMin and ProbeMax bound the delay between probes, which doubles.
	ProbeMin, ProbeMax time.Duration `least:"1"`
	// Startup is how long Open waits for servers that do not answer yet, or answer that they
	// are not ready; vLLM and SGLang load a large model for minutes. 0 asks them once.
	Startup time.Duration `least:"0"`
	// Outage is how long requests and Publish wait when no server is healthy.
	Outage time.Duration `least:"1"`
	// Mixed says what becomes of responses by other weights.
	Mixed Mixed
	// Follow leaves the weights of servers to another process: Publish waits until they have
	// them instead of loading them.
	Follow bool
	// Log receives warnings about servers; nil discards them.
	Log *slog.Logger
}

// DefaultOptions returns vLLM's protocol with ten minutes for a response, six attempts, 256
// requests in flight per server, two minutes for servers to start, and five minutes without a
// healthy server.
func DefaultOptions() Options {
	return Options{
		Kind: VLLM, Timeout: 10 * time.Minute, SyncTimeout: 10 * time.Minute, Attempts: 6, InFlight: 256, EjectAfter: 3,
		ProbeMin: 500 * time.Millisecond, ProbeMax: 30 * time.Second, Startup: 2 * time.Minute, Outage: 5 * time.Minute,
		Mixed: MixedDrop,
	}
}

// Check returns an error that lists all problems and wraps ErrOption.
func (o *Options) Check() error {
	c := field.Options("engine", ErrOption)
	c.OneOf("Kind", string(o.Kind), string(VLLM), string(SGLang))
	c.OneOf("Mixed", string(o.Mixed), string(MixedDrop), string(MixedKeep), string(MixedCorrect))
	c.Struct(o, "")
	if o.ProbeMax < o.ProbeMin {
		c.Bad("ProbeMax", "%v, must be at least ProbeMin, %v", o.ProbeMax, o.ProbeMin)
	}
	if len(o.Addresses) == 0 {
		c.Bad("Addresses", "empty, must have at least one server")
	}
	if strings.ContainsFunc(o.Key, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		c.Bad("Key", "not printable ASCII without spaces")
	}
	var seen []string
	for _, a := range o.Addresses {
		base, err := parseAddress(a)
		if err != nil {
			c.Add("Addresses", err)
			continue
		}
		if slices.Contains(seen, base) {
			c.Bad("Addresses", "%q, each address must occur once, not twice", o.Addresses)
		}
		seen = append(seen, base)
	}
	return c.Err()
}

// parseAddress returns a server's address without a slash at its end. Addresses other than
// http and https URLs of a host, and those with credentials, a query or a fragment, are
// errors that wrap ErrOption.
func parseAddress(address string) (string, error) {
	u, err := url.Parse(strings.TrimSpace(address))
	switch {
	case err != nil: // its text may contain credentials
		return "", fmt.Errorf("engine: %w: an address is not a URL", ErrOption)
	case u.User != nil:
		return "", fmt.Errorf("engine: %w: the address of %s contains credentials: set the key instead", ErrOption, u.Host)
	case u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "":
		return "", fmt.Errorf("engine: %w: address %q must be a URL such as http://host:8000", ErrOption, address)
	case u.RawQuery != "" || u.Fragment != "":
		return "", fmt.Errorf("engine: %w: address %q must have no query and no fragment", ErrOption, address)
	}
	return strings.TrimRight(u.String(), "/"), nil
}
