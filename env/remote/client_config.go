package remote

import (
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"vagen/env"
	"vagen/env/remote/hosts"
	"vagen/internal/field"
	"vagen/internal/retry"
)

// settings are the named options of the client itself; all others are sent to the
// service.
type settings struct {
	ClientOptions
	BaseURLs    any      `option:"base_urls" kind:"address"`
	BaseURL     string   `option:"base_url" kind:"address"`
	URLFile     string   `option:"url_file" kind:"path"`
	JitterSeed  int64    `option:"jitter_seed"`
	Compat      string   `option:"compat" kind:"text"`
	MaxResponse *float64 `option:"max_response_mb"`
	MaxPixels   *int     `option:"max_image_pixels"`
	MaxImages   *int     `option:"max_images"`
}

// OwnOptions returns the struct of the options of a Client itself, with their defaults, for env.OptionKinds and
// env.OptionValues.
func OwnOptions() any { return settings{ClientOptions: DefaultClientOptions()} }

// LegacyOwnOptions is OwnOptions for a LegacyClient.
func LegacyOwnOptions() any { return settings{ClientOptions: DefaultLegacyOptions()} }

// FromConfig creates a Client from named options. It uses these, which have the names
// of the original client,
//
//	base_urls                  one or many, see hosts.Pool: list, or text split at semicolons and line breaks;
//	                           lines that begin with # are comments
//	url_file                   file with such text, if base_urls is not given
//	timeout                    seconds, 120
//	retries                    6
//	backoff, max_delay         seconds, 2 and 64
//	backoff_jitter_min         0.7
//	backoff_jitter_range       0.6
//	failover_after_failures    4
//	token, log_retries
//
// and these additional ones:
//
//	compat                     python: see ClientOptions.Python
//	resend                     see ClientOptions.Resend
//	keep_idle                  seconds, see ClientOptions.KeepIdle
//	jitter_seed                seed of the jitter
//	max_response_mb, max_images, max_image_pixels
//
// All others are sent to the service as the environment's options. FromConfig is an
// env.Factory.
func FromConfig(config map[string]any) (env.Env, error) { return fromConfig(config) }

// LegacyFromConfig creates a LegacyClient from named options: those of FromConfig,
// timeout 600, base_url for a single URL, and env_name, the kind of environment.
func LegacyFromConfig(config map[string]any) (env.Env, error) { return legacyFromConfig(config) }

var (
	fromConfig       = Factory(DefaultClientOptions())
	legacyFromConfig = LegacyFactory(DefaultLegacyOptions())
)

// Factory returns FromConfig with other defaults, for instance a logger or a
// transport. Named options override them.
func Factory(o ClientOptions) env.Factory {
	return factory(o, func(o ClientOptions) (env.Env, error) { return NewClient(o) })
}

// LegacyFactory returns LegacyFromConfig with other defaults.
func LegacyFactory(o ClientOptions) env.Factory {
	return factory(o, func(o ClientOptions) (env.Env, error) {
		if name, ok := o.Config["env_name"]; ok {
			if o.Name, ok = name.(string); !ok {
				return nil, fmt.Errorf("remote: option %q: %w: text is needed, found %v (%T)", "env_name", env.ErrOption, name,
					name)
			}
			delete(o.Config, "env_name")
		}
		return NewLegacyClient(o)
	})
}

// factory makes clients from named options on top of o.
func factory(o ClientOptions, client func(ClientOptions) (env.Env, error)) env.Factory {
	if o.Hosts == nil {
		o.Hosts = hostsOf(o.Transport)
	}
	var made atomic.Uint64
	return func(config map[string]any) (env.Env, error) {
		o, err := o.named(config, made.Add(1))
		if err != nil {
			return nil, err
		}
		return client(o)
	}
}

// named applies named options to a copy; nth gives each client its own jitter.
func (o ClientOptions) named(config map[string]any, nth uint64) (ClientOptions, error) {
	s := settings{ClientOptions: o}
	known := env.OptionNames(s)
	own := map[string]any{}
	rest := maps.Clone(o.Config)
	if rest == nil {
		rest = map[string]any{}
	}
	for name, v := range config {
		if slices.Contains(known, name) {
			own[name] = v
		} else {
			rest[name] = v
		}
	}
	if err := env.Decode(own, &s); err != nil {
		return o, fmt.Errorf("remote: %w", err)
	}
	s.Config = rest
	if s.Jitter == nil {
		s.Jitter = retry.Jitter(uint64(s.JitterSeed), nth)
	}
	err := s.apply()
	return s.ClientOptions, err
}

// apply sets the options that have another form as fields.
func (s *settings) apply() error {
	urls, err := []string{s.BaseURL}, error(nil)
	if s.BaseURL == "" {
		urls, err = hosts.Addresses(s.BaseURLs, s.URLFile)
	}
	if err != nil {
		return err
	}
	if len(urls) > 0 {
		s.URLs = urls
	}
	if s.MaxPixels != nil {
		s.Limits.Pixels = *s.MaxPixels
	}
	if s.MaxImages != nil {
		s.Limits.Parts = *s.MaxImages + 1
	}
	if s.MaxResponse != nil {
		s.Limits.Body = int64(min(*s.MaxResponse, 1e6) * (1 << 20))
	}
	switch s.Compat {
	case "":
	case "python":
		s.Python = true
	default:
		return fmt.Errorf("remote: option %q: %w: found %q, must be python", "compat", env.ErrOption, s.Compat)
	}
	return nil
}

// integral returns options as they are sent: a number without fraction is sent as an
// integer, whatever its type. JSON decoders return all numbers as floats, and Python
// accepts an integer as a float but not a float as an integer.
func integral(v any) any {
	switch v := v.(type) {
	case float64:
		if n, whole := (field.Rules{}).Whole(v); whole {
			return n
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, x := range v {
			out[name] = integral(x)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = integral(x)
		}
		return out
	}
	return v
}
