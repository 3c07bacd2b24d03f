package remote

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"time"

	"vagen/env"
	"vagen/env/remote/internal/wire"
	"vagen/internal/field"
)

// ImageFormat is the encoding of images.
type ImageFormat = wire.Format

// The image formats. PNG is lossless.
const (
	PNG  = wire.PNG
	JPEG = wire.JPEG
)

// Protocol answers the requests that no route of the Lite and the legacy protocol takes, after a
// Server has checked the headers Host and Origin and the key, which GET /health needs not have.
type Protocol interface {
	http.Handler
	// Sessions returns the number of open environments.
	Sessions() int
	// Close ends them, as Server.Close.
	Close(ctx context.Context) error
}

// ServerOptions are the settings of a Server. DefaultServerOptions returns all of them
// except the environments. Every value is used as written; 0 does not mean a default.
type ServerOptions struct {
	// Lite creates an environment for each POST /connect from its env_config. Nil
	// turns the Lite protocol off. Clients choose the options; an env.Guard refuses
	// those with addresses, paths and secrets, here and in Legacy.
	Lite env.Factory
	// Legacy creates the environments of POST /environments by env_name. Nil turns
	// the legacy protocol off. Its clients expect the rules of the legacy system; see
	// WithDefaults.
	Legacy *env.Registry
	// Other serves a further protocol. Nil serves none.
	Other Protocol

	// APIKey is required in all requests except GET /health: as the query parameter
	// token, the header X-API-Key, a bearer token, or the password of HTTP basic authentication, as
	// in the base URL http://:KEY@host. Empty requires no key; Serve allows that only
	// at addresses that other machines cannot reach.
	APIKey string
	// Hosts are the allowed names in the Host header, without ports. The IP address
	// of the connection is always allowed, and on a loopback address the loopback
	// names. If Hosts is empty and APIKey is set, all names are allowed. Other names
	// get status 403, which prevents DNS rebinding by web pages. A request with the
	// header Origin gets 403, too, unless Origin names the service's own host and
	// port or one of Hosts.
	Hosts []string

	// SessionTimeout is the idle time after which Lite sessions are closed, and
	// LegacyTimeout the same for legacy environments. 0 is no limit.
	SessionTimeout time.Duration `least:"0"`
	LegacyTimeout  time.Duration `least:"0"`
	SweepEvery     time.Duration `least:"1"` // interval of checking these two

	MaxSessions  int           `least:"0"` // open environments of both protocols; 0 is no limit
	MaxBatch     int           `least:"0"` // environments that one legacy request may create; 0 is no limit
	MaxInFlight  int           `least:"0"` // concurrent requests; 0 is no limit
	AdmitTimeout time.Duration `least:"0"` // how long a request waits for a slot before it is refused
	// CallTimeout limits each call of an environment. A call that does not return
	// blocks its session, but not the server.
	CallTimeout  time.Duration `least:"1"`
	ReadTimeout  time.Duration `least:"1"` // for receiving a request's body
	WriteTimeout time.Duration `least:"1"` // for sending a response
	DrainTimeout time.Duration `least:"1"` // for Serve to finish calls and close environments

	BatchWorkers int `least:"1"` // environments of one legacy batch that run concurrently

	Images ImageFormat
	Limits Limits // of requests; bodies of more than 1 MiB are in memory 16 at a time, others wait

	// Seed is the seed from which seeds are drawn for resets without one.
	Seed uint64
	// Log receives sessions at the debug level, refusals and failures above it.
	// Nil discards them.
	Log *slog.Logger
}

// DefaultServerOptions returns the settings of the original services, and defaults for
// settings that these do not have, such as MaxSessions and MaxBatch.
func DefaultServerOptions() ServerOptions {
	limits := defaultLimits()
	limits.Body = 16 << 20
	return ServerOptions{
		MaxSessions: 1 << 14, MaxBatch: 1 << 12, SessionTimeout: time.Hour, SweepEvery: time.Minute,
		AdmitTimeout: 5 * time.Second, CallTimeout: 10 * time.Minute,
		ReadTimeout: time.Minute, WriteTimeout: time.Minute, DrainTimeout: 30 * time.Second,
		BatchWorkers: 32, Images: PNG, Limits: limits,
	}
}

// Validate returns all errors of the options.
func (o *ServerOptions) Validate() error {
	f := field.Options("remote", nil)
	f.Struct(o, "")
	if o.Lite == nil && o.Legacy == nil && o.Other == nil {
		f.Bad("Lite, Legacy, Other", "all are nil; there is nothing to serve")
	}
	if o.Images != PNG && o.Images != JPEG {
		f.Bad("Images", "%q is neither %q nor %q", o.Images, PNG, JPEG)
	}
	f.Struct(&o.Limits, "option")
	return f.Err()
}

// WithDefaults returns a factory that adds options which a configuration does not set.
// A legacy service, for instance, uses
//
//	WithDefaults(sokoban.FromConfig, map[string]any{"rules": "legacy"})
func WithDefaults(f env.Factory, options map[string]any) env.Factory {
	return func(config map[string]any) (env.Env, error) {
		if f == nil {
			return nil, errors.New("remote: defaults: the factory is nil")
		}
		merged := map[string]any{}
		maps.Copy(merged, options)
		maps.Copy(merged, config)
		return f(merged)
	}
}
