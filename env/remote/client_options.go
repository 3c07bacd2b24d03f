package remote

import (
	"errors"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"time"

	"vagen/internal/field"
)

// ClientOptions are the settings of a Client or a LegacyClient;
// DefaultClientOptions and DefaultLegacyOptions return those of the original clients.
// Every value is used as written.
type ClientOptions struct {
	// URLs are base URLs of services that host the same environments. The first one is
	// used while it answers; see FailoverAfter.
	URLs []string
	// Config is sent to the service as the environment's options.
	Config map[string]any
	// Name is the kind of environment; only LegacyClient uses it.
	Name string
	// Token is sent as the key, in the header X-API-Key. Empty sends none.
	Token string

	Timeout time.Duration // of one attempt, from dialling to the last byte
	Retries int           // attempts after the first
	// The delay before attempt n+1 is Backoff·2ⁿ·(JitterMin + JitterRange·U), U
	// uniform in [0, 1), and at most MaxDelay.
	Backoff     time.Duration
	MaxDelay    time.Duration
	JitterMin   float64
	JitterRange float64
	// FailoverAfter is the number of retries at one base URL when a session is opened;
	// each further retry uses the next URL.
	FailoverAfter int

	// Resend retries every failed request that may succeed the next time, including
	// steps that the service may have played already.
	Resend bool
	// Python makes the client behave like the original client of its protocol. The
	// original Lite client retries every failed request at all URLs, although only one
	// of them has the session, and MaxDelay limits its delays only while a session is
	// being opened. The original legacy client never retries. Both ignore errors of
	// Close. One difference remains: System works before the first Reset, which the
	// original Lite client refuses.
	Python bool

	Limits Limits // of responses
	// Jitter draws U. Nil draws from a fixed seed.
	Jitter func() float64
	// Transport sends the requests. Nil is a transport that all clients of the process
	// share.
	Transport http.RoundTripper
	// LogRetries logs every retry to Log. A nil Log discards everything.
	LogRetries bool
	Log        *slog.Logger
}

// DefaultClientOptions returns the settings of the original Lite client.
func DefaultClientOptions() ClientOptions {
	return ClientOptions{
		Timeout: 120 * time.Second, Retries: 6, Backoff: 2 * time.Second, MaxDelay: 64 * time.Second,
		JitterMin: 0.7, JitterRange: 0.6, FailoverAfter: 4, Limits: DefaultLimits(), LogRetries: true,
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
	f := field.Options("remote", nil)
	if len(o.URLs) == 0 {
		f.Bad("base_urls", "none is given")
	}
	for _, raw := range o.URLs {
		u, err := url.Parse(raw)
		switch {
		case err != nil:
			f.Bad("base_urls", "one is not a URL: %v", errors.Unwrap(err)) // err itself contains the URL and its password
		case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
			f.Bad("base_urls", "%q is not of the form http://host:port", u.Redacted())
		case u.RawQuery != "" || u.Fragment != "":
			f.Bad("base_urls", "%q ends in a query or a fragment", u.Redacted())
		}
	}
	field.AtLeast(f, "timeout", o.Timeout, 1)
	field.AtLeast(f, "backoff", o.Backoff, 0)
	field.AtLeast(f, "max_delay", o.MaxDelay, 0)
	field.AtLeast(f, "retries", o.Retries, 0)
	field.AtLeast(f, "failover_after_failures", o.FailoverAfter, 0)
	if !(o.JitterMin >= 0 && o.JitterRange >= 0 && o.JitterMin+o.JitterRange <= math.MaxInt16) {
		f.Bad("backoff_jitter_min, backoff_jitter_range", "%v and %v must be finite and not negative", o.JitterMin, o.JitterRange)
	}
	if o.Python && o.Resend {
		f.Bad("resend", "not allowed with compat: python, which has its own rules for retries")
	}
	o.Limits.validate(f)
	return f.Err()
}
