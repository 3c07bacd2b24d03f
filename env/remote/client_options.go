package remote

import (
	"errors"
	"log/slog"
	"math"
	"net/http"
	"time"

	"vagen/env/remote/hosts"
	"vagen/internal/field"
)

// ClientOptions are the settings of a Client or a LegacyClient;
// DefaultClientOptions and DefaultLegacyOptions return those of the original clients.
// Every value is used as written.
type ClientOptions struct {
	// URLs are base URLs of services that host the same environments. A session is opened
	// at the one with the fewest sessions of this process, see hosts.Pool.
	URLs []string
	// Config is sent to the service as the environment's options.
	Config map[string]any
	// Name is the kind of environment; only LegacyClient uses it.
	Name string
	// Token is sent as the key, in the header X-API-Key. Empty sends none.
	Token string `option:"token" kind:"secret"`

	Timeout time.Duration `option:"timeout" least:"1"` // of one attempt, from dialling to the last byte
	Retries int           `option:"retries" least:"0"` // attempts after the first
	// The delay before attempt n+1 is Backoff·2ⁿ·(JitterMin + JitterRange·U), U
	// uniform in [0, 1), and at most MaxDelay. A longer delay that the service asks for is used
	// instead; a request that it does not want to see for more than an hour is not retried.
	Backoff     time.Duration `option:"backoff" least:"0"`
	MaxDelay    time.Duration `option:"max_delay" least:"0"`
	JitterMin   float64       `option:"backoff_jitter_min"`
	JitterRange float64       `option:"backoff_jitter_range"`
	// FailoverAfter is the number of retries at one base URL. When a session is opened,
	// each further retry uses another URL; a service that is ejected is left at once,
	// without a delay. Other requests of a session fail with ErrUnreachable after so many
	// retries if the service is ejected and others are not: the episode has to be started
	// again.
	FailoverAfter int `option:"failover_after_failures" least:"0"`

	// Resend retries every failed request that may succeed the next time, including
	// steps that the service may have played already.
	Resend bool `option:"resend"`
	// Python makes the client behave like the original client of its protocol, which ignores what services ask for. The
	// original Lite client begins at the first URL and retries every failed request at all
	// URLs, although only one of them has the session; it ignores Hosts, and MaxDelay limits its delays only while a session is
	// being opened. The original legacy client never retries. Both ignore errors of
	// Close. One difference remains: System works before the first Reset, which the
	// original Lite client refuses.
	Python bool

	// KeepIdle is how long the services keep idle connections if they do not announce it in
	// the header Keep-Alive; see hosts.Host.Transport. It is not used with a Transport.
	KeepIdle time.Duration `option:"keep_idle" least:"0"`

	Limits Limits // of responses
	// Jitter draws U. Nil draws from a fixed seed.
	Jitter func() float64
	// Transport sends the requests. Nil is a transport that all clients of the process
	// share.
	Transport http.RoundTripper
	// Hosts is shared with other clients. Nil is one that all clients of the process with
	// a nil Transport share; a client or factory with its own transport has its own then.
	Hosts *hosts.Pool
	// LogRetries logs every retry to Log. A nil Log discards everything.
	LogRetries bool `option:"log_retries"`
	Log        *slog.Logger
}

// DefaultClientOptions returns the settings of the original Lite client.
func DefaultClientOptions() ClientOptions {
	return ClientOptions{
		Timeout: 120 * time.Second, Retries: 6, Backoff: 2 * time.Second, MaxDelay: 64 * time.Second,
		JitterMin: 0.7, JitterRange: 0.6, FailoverAfter: 4, Limits: defaultLimits(), LogRetries: true,
	}
}

// DefaultLegacyOptions returns those of the original legacy client, with the
// retries of the other.
func DefaultLegacyOptions() ClientOptions {
	o := DefaultClientOptions()
	o.Timeout = 600 * time.Second
	return o
}

// Validate returns all errors of the options.
func (o *ClientOptions) Validate() error {
	return errors.Join(hosts.Check(o.URLs), o.validate())
}

// validate returns the errors of the options other than URLs.
func (o *ClientOptions) validate() error {
	f := field.Options("remote", nil)
	f.Struct(o, "option")
	if !(o.JitterMin >= 0 && o.JitterRange >= 0 && o.JitterMin+o.JitterRange <= math.MaxInt16) {
		f.Bad("backoff_jitter_min, backoff_jitter_range", "%v and %v must be finite and not negative", o.JitterMin,
			o.JitterRange)
	}
	if o.Python && o.Resend {
		f.Bad("resend", "not allowed with compat: python, which has its own rules for retries")
	}
	f.Struct(&o.Limits, "option")
	return f.Err()
}
