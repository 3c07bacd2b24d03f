package main

import (
	"context"
	"errors"
	"flag"
	"maps"
	"slices"
	"strings"

	"vagen/env"
	"vagen/env/builtin"
	"vagen/env/remote"
	"vagen/env/remote/openenv"
	"vagen/internal/cli"
	"vagen/internal/field"
	"vagen/internal/nearest"
	"vagen/internal/usage"
)

func serveCommand() *cli.Command {
	return &cli.Command{
		Name: "serve", Args: "[key=value …]", Max: -1,
		About: "Serve environments over HTTP, in the protocols of the original systems or of OpenEnv.",
		Help: `The Lite protocol and that of OpenEnv serve one environment, the legacy protocol any number,
with the legacy rules. key=value sets options unless a client sets them. Clients cannot set
options with an address, a path or a secret, such as state_reward.judge_base_url,
except those listed with --allow-option. A judge chosen by a client is called with the
API key in this process's environment.

An API key is required if other machines can reach the address; every request except
GET /health must include it. Without a key, requests must use a loopback name, the IP
address or a name given by --allow-host as the host. Requests from web pages of other
hosts are always refused. GET /metrics returns the Prometheus text format.

On SIGTERM or Ctrl-C the service refuses new requests, waits for running calls up to
--drain-timeout, and closes all environments.

  vagen serve --env sokoban --addr 127.0.0.1:8000 render_mode=vision`,
		Setup: func(f *flag.FlagSet) cli.Run {
			var s service
			s.flags(f)
			return func(ctx context.Context, c *cli.Call) error { return s.serve(ctx, c) }
		},
	}
}

// service holds the flags.
type service struct {
	remote.ServerOptions
	addr      string
	envs      cli.StringList
	allow     cli.StringList
	hosts     cli.StringList
	protocols string
	key       *keySource
	images    string
}

func (s *service) flags(f *flag.FlagSet) {
	s.ServerOptions = remote.DefaultServerOptions()
	o := &s.ServerOptions
	f.StringVar(&s.addr, "addr", "127.0.0.1:8000", "`address` to listen on; port 0 selects a free port")
	f.Var(&s.envs, "env", "`name` of an environment to serve; may be repeated for the legacy protocol")
	f.Var(&s.allow, "allow-option", "`name` of an address, path or secret that clients may set; may be repeated")
	f.Var(&s.hosts, "allow-host", "host `name` that clients may use for the service, and whose web pages may use it; may be repeated")
	f.StringVar(&s.protocols, "protocol", "lite", "`protocols`: lite, legacy, lite,legacy or openenv")
	s.key = keyFlags(f, "api-key", "API key")
	f.DurationVar(&o.SessionTimeout, "session-timeout", o.SessionTimeout,
		"close Lite and OpenEnv sessions that are idle for this long; 0 is never")
	f.DurationVar(&o.LegacyTimeout, "legacy-timeout", o.LegacyTimeout,
		"close legacy environments that are idle for this long; 0 is never")
	f.DurationVar(&o.SweepEvery, "sweep-every", o.SweepEvery, "interval between checks for idle sessions")
	f.IntVar(&o.MaxSessions, "max-sessions", o.MaxSessions, "maximum open environments; 0 is no limit")
	f.IntVar(&o.MaxBatch, "max-batch", o.MaxBatch, "maximum environments of one legacy request; 0 is no limit")
	f.IntVar(&o.MaxInFlight, "max-inflight", o.MaxInFlight,
		"maximum concurrent requests, not of OpenEnv; 0 is no limit")
	f.DurationVar(&o.AdmitTimeout, "admit-timeout", o.AdmitTimeout,
		"maximum time in the queue before a request is refused")
	f.DurationVar(&o.CallTimeout, "call-timeout", o.CallTimeout, "time limit of a call of an environment")
	f.DurationVar(&o.ReadTimeout, "read-timeout", o.ReadTimeout, "time limit for reading a request")
	f.DurationVar(&o.WriteTimeout, "write-timeout", o.WriteTimeout, "time limit for writing a response")
	f.DurationVar(&o.DrainTimeout, "drain-timeout", o.DrainTimeout, "time limit for running calls when the service stops")
	f.IntVar(&o.BatchWorkers, "batch-workers", o.BatchWorkers, "concurrent environments of one legacy batch")
	f.StringVar(&s.images, "image-format", string(o.Images), "png, which keeps every pixel, or jpeg")
	f.Int64Var(&o.Limits.Body, "max-body", o.Limits.Body, "maximum request size in `bytes`")
	f.IntVar(&o.Limits.Parts, "max-parts", o.Limits.Parts, "maximum parts of a request")
	f.IntVar(&o.Limits.Pixels, "max-pixels", o.Limits.Pixels, "maximum pixels of all images of a request")
	f.Uint64Var(&o.Seed, "seed", o.Seed, "seed for resets without a seed")
}

func (s *service) serve(ctx context.Context, c *cli.Call) error {
	options, err := cli.Options(c.Args)
	if err != nil {
		return err
	}
	o := &s.ServerOptions
	o.Hosts = s.hosts
	o.Images, o.Log = remote.ImageFormat(s.images), c.Log
	if err := errors.Join(s.host(options), s.idle(c)); err != nil {
		return err
	}
	if o.APIKey, err = s.key.read(); err != nil {
		return err
	}
	server, err := remote.NewServer(*o)
	if err != nil {
		return cli.Usagef("%w", field.Renamed(err, serviceFlags))
	}
	// A session needs about a kilobyte, and a request allocates several: fewer garbage
	// collections cost little memory and keep the highest latencies low.
	defer usage.CollectAt(serveGC)()
	err = server.ListenAndServe(ctx, s.addr)
	if errors.Is(err, remote.ErrKeyNeeded) {
		return cli.Usagef("%w (--api-key-env or --api-key-file)", err)
	}
	return err
}

// serviceFlags are the flags of the options of a server.
var serviceFlags = map[string]string{
	"SessionTimeout": "--session-timeout", "LegacyTimeout": "--legacy-timeout", "SweepEvery": "--sweep-every",
	"MaxSessions": "--max-sessions", "MaxBatch": "--max-batch", "MaxInFlight": "--max-inflight",
	"AdmitTimeout": "--admit-timeout", "CallTimeout": "--call-timeout", "ReadTimeout": "--read-timeout",
	"WriteTimeout": "--write-timeout", "DrainTimeout": "--drain-timeout", "BatchWorkers": "--batch-workers",
	"Images": "--image-format", "Limits.Body": "--max-body", "Limits.Parts": "--max-parts",
	"Limits.Pixels": "--max-pixels",
}

// idle refuses flags of protocols that are not served.
func (s *service) idle(c *cli.Call) error {
	switch {
	case s.Legacy == nil:
		return c.Idle("the protocol legacy is not served", "legacy-timeout", "max-batch", "batch-workers")
	case s.Lite == nil:
		return c.Idle("only the protocol legacy is served", "session-timeout")
	}
	return nil
}

// serveGC is the garbage collector's target percentage while a service runs, unless the
// environment variable GOGC is set.
const serveGC = 400

// host sets the environments to serve. Each is made once, so that invalid options are
// reported immediately.
func (s *service) host(options map[string]any) error {
	if len(s.envs) == 0 {
		return cli.Usagef("--env is missing; vagen env list lists the environments")
	}
	if err := s.allowed(); err != nil {
		return err
	}
	for _, protocol := range strings.Split(s.protocols, ",") {
		switch protocol = strings.TrimSpace(protocol); protocol {
		case "lite":
			if len(s.envs) > 1 {
				return cli.Usagef("the Lite protocol serves one environment, not %d", len(s.envs))
			}
			f, err := s.factory(s.envs[0], options)
			if err != nil {
				return err
			}
			s.Lite = f
		case "legacy":
			s.Legacy = new(env.Registry)
			for _, name := range s.envs {
				f, err := s.factory(name, legacyOptions(name, options))
				if err != nil {
					return err
				}
				if err := s.Legacy.Register(name, f); err != nil {
					return cli.Usagef("%w", err)
				}
			}
		case "openenv":
			if err := s.openEnv(options); err != nil {
				return err
			}
		default:
			return cli.Usagef("--protocol: %q is unknown, must be lite, legacy or openenv", protocol)
		}
	}
	return nil
}

// openEnv sets the environment of the protocol of OpenEnv, whose clients choose no options.
func (s *service) openEnv(options map[string]any) error {
	if len(s.envs) > 1 || s.protocols != "openenv" {
		return cli.Usagef("the protocol openenv serves one environment and no other protocol")
	}
	f, err := s.factory(s.envs[0], options)
	if err != nil {
		return err
	}
	k, _ := builtinKind(s.envs[0])
	s.Other, err = openenv.NewServer(openenv.Hosted{Name: s.envs[0], About: k.About, Make: f}, s.ServerOptions)
	return err
}

// builtinKind finds an environment of the library.
func builtinKind(name string) (kind builtin.Kind, ok bool) {
	for _, k := range kinds() {
		if k.Name == name {
			return k, true
		}
	}
	return builtin.Kind{}, false
}

// allowed checks that each option of --allow-option exists, if the environments declare
// all their options.
func (s *service) allowed() error {
	known := map[string]env.OptionKind{}
	for _, name := range s.envs {
		k, ok := builtinKind(name)
		if !ok || k.Defaults == nil { // a service defines the options
			return nil
		}
		maps.Copy(known, k.OptionKinds())
	}
	for _, name := range s.allow {
		if _, ok := known[name]; !ok {
			return cli.Usagef("--allow-option: no environment served has an option %q%s", name,
				nearest.Hint(name, slices.Collect(maps.Keys(known))))
		}
	}
	return nil
}

// factory returns the factory of an environment with the options of clients on top of
// those of the operator.
func (s *service) factory(name string, options map[string]any) (env.Factory, error) {
	r := registry()
	k, _ := builtinKind(name)
	guard := env.Guard{Kinds: k.OptionKinds(), Complete: k.Defaults != nil, Fixed: options, Allow: s.allow}
	f := guard.Factory(func(config map[string]any) (env.Env, error) { return r.New(name, config) })
	e, err := f(nil)
	if err != nil {
		return nil, asUsage(err, badEnv...)
	}
	return f, e.Close()
}

// legacyOptions adds the rules that clients of the legacy protocol expect, which are the
// last in an environment's list.
func legacyOptions(name string, options map[string]any) map[string]any {
	k, _ := builtinKind(name)
	if _, given := options["rules"]; len(k.Rules) > 0 && !given {
		options = maps.Clone(options)
		options["rules"] = k.Rules[len(k.Rules)-1]
	}
	return options
}
