package remote

import (
	"log/slog"
	"maps"
	"time"

	"vagen/env"
	"vagen/internal/field"
)

// ImageFormat is how a Server encodes images.
type ImageFormat string

// The image formats. PNG keeps every pixel.
const (
	PNG  ImageFormat = "png"
	JPEG ImageFormat = "jpeg"
)

// ServerOptions are a Server's settings; DefaultServerOptions gives usable ones
// except for the environments. Values are used as written: a duration or number
// of 0 means what its comment says.
type ServerOptions struct {
	// Lite makes an environment for each POST /connect from its env_config. Nil
	// turns the Lite protocol off. Clients choose the options: an env.Guard keeps
	// addresses, paths and secrets from them, here and in Legacy.
	Lite env.Factory
	// Legacy makes the environments of POST /environments by env_name. Nil turns
	// the legacy protocol off. Its clients expect the rules of the legacy system,
	// which WithDefaults can make an environment's default.
	Legacy *env.Registry

	// APIKey must come with every request but GET /health: as the query parameter
	// token, the header X-API-Key, or the password of HTTP basic authentication,
	// which clients use whose base URL is http://:KEY@host. Empty asks for none,
	// which Serve allows only where no other machine can connect.
	APIKey string
	// Hosts are names by which clients may address the service, and whose pages may
	// ask it, ports apart. The address of the connection is always allowed, with
	// loopback names where that is a loopback address; without Hosts, a service
	// with an APIKey answers to every name. Any other name gets status 403: it is
	// what a web page shows that had a browser look up its own name anew. So does a
	// request from a page (with the header Origin) of any other host or port.
	Hosts []string

	// SessionTimeout closes Lite sessions that no /call has used for so long, and
	// LegacyTimeout legacy environments. 0 keeps them until they are closed.
	SessionTimeout time.Duration
	LegacyTimeout  time.Duration
	SweepEvery     time.Duration // how often these two are checked

	MaxSessions  int           // environments alive, of both protocols; 0 is no limit
	MaxBatch     int           // environments that one legacy request makes; 0 is no limit
	MaxInFlight  int           // requests worked on at once; 0 is no limit
	AdmitTimeout time.Duration // how long a request waits for its turn before it is refused
	// CallTimeout limits each call of an environment. One that does not return is
	// left behind and blocks its session, not the server.
	CallTimeout  time.Duration
	ReadTimeout  time.Duration // for a request's body to arrive
	WriteTimeout time.Duration // for a response to be taken
	DrainTimeout time.Duration // for Serve to finish calls and close environments

	BatchWorkers int // environments of one legacy batch that are called at once

	Images ImageFormat
	Limits Limits // of requests

	// Seed draws the seeds of resets that name none.
	Seed uint64
	// Inform finds the Informer of a new environment. Nil is InformerFor.
	Inform func(e env.Env, config map[string]any) Informer
	// Log receives sessions at the debug level, refusals and failures above it.
	// Nil discards them.
	Log *slog.Logger
}

// DefaultServerOptions returns the settings of the original services where these
// have one. Those have no MaxSessions and MaxBatch.
func DefaultServerOptions() ServerOptions {
	limits := DefaultLimits()
	limits.Body = 16 << 20
	return ServerOptions{
		MaxSessions: 1 << 14, MaxBatch: 1 << 12, SessionTimeout: time.Hour, SweepEvery: time.Minute,
		AdmitTimeout: 5 * time.Second, CallTimeout: 10 * time.Minute,
		ReadTimeout: time.Minute, WriteTimeout: time.Minute, DrainTimeout: 30 * time.Second,
		BatchWorkers: 32, Images: PNG, Limits: limits,
	}
}

// Validate reports everything that is wrong with the options.
func (o *ServerOptions) Validate() error {
	f := field.Options("remote", nil)
	if o.Lite == nil && o.Legacy == nil {
		f.Bad("Lite, Legacy", "both are nil; there is nothing to serve")
	}
	field.AtLeast(f, "SessionTimeout", o.SessionTimeout, 0)
	field.AtLeast(f, "LegacyTimeout", o.LegacyTimeout, 0)
	field.AtLeast(f, "AdmitTimeout", o.AdmitTimeout, 0)
	field.AtLeast(f, "SweepEvery", o.SweepEvery, 1)
	field.AtLeast(f, "CallTimeout", o.CallTimeout, 1)
	field.AtLeast(f, "ReadTimeout", o.ReadTimeout, 1)
	field.AtLeast(f, "WriteTimeout", o.WriteTimeout, 1)
	field.AtLeast(f, "DrainTimeout", o.DrainTimeout, 1)
	field.AtLeast(f, "MaxSessions", o.MaxSessions, 0)
	field.AtLeast(f, "MaxBatch", o.MaxBatch, 0)
	field.AtLeast(f, "MaxInFlight", o.MaxInFlight, 0)
	field.AtLeast(f, "BatchWorkers", o.BatchWorkers, 1)
	if o.Images != PNG && o.Images != JPEG {
		f.Bad("Images", "%q is neither %q nor %q", o.Images, PNG, JPEG)
	}
	o.Limits.validate(f)
	return f.Err()
}

// WithDefaults returns a factory that adds options to a configuration which does
// not have them. A legacy service, for instance, serves
//
//	WithDefaults(sokoban.FromConfig, map[string]any{"rules": "legacy"})
func WithDefaults(f env.Factory, options map[string]any) env.Factory {
	return func(config map[string]any) (env.Env, error) {
		merged := map[string]any{}
		maps.Copy(merged, options)
		maps.Copy(merged, config)
		return f(merged)
	}
}
