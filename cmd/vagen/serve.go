package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"vagen/env"
	"vagen/env/builtin"
	"vagen/env/remote"
	"vagen/internal/cli"
	"vagen/internal/nearest"
)

func serveCommand() *cli.Command {
	return &cli.Command{
		Name: "serve", Args: "[key=value …]", Max: -1,
		About: "Serve environments over HTTP, in the protocols of the original systems.",
		Help: `The Lite protocol hosts one environment, the legacy protocol any number, under
the legacy rules. key=value gives options that hold where a client asks for
nothing else. Options that name an address, a path or a secret are yours alone,
state_reward.judge_base_url for instance: clients may set those that you name by
--allow-option, and no others. A judge that a client may name is asked with the
API key of this process's environment.

An API key is needed where other machines can reach the address; every request but
GET /health must bring it. Without a key, requests must address the service by a
loopback name, its IP address or a name given by --allow-host. Web pages of other
hosts are refused in any case. GET /metrics answers in the Prometheus text format.

On SIGTERM or Ctrl-C no new requests are taken, running calls finish and all
environments are closed, for which --drain-timeout is allowed.

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
	keyEnv    string
	keyFile   string
	images    string
}

func (s *service) flags(f *flag.FlagSet) {
	s.ServerOptions = remote.DefaultServerOptions()
	o := &s.ServerOptions
	f.StringVar(&s.addr, "addr", "127.0.0.1:8000", "`address` to listen at; port 0 takes a free one")
	f.Var(&s.envs, "env", "`name` of an environment to serve; may be given again for the legacy protocol")
	f.Var(&s.allow, "allow-option", "`name` of an address, path or secret that clients may choose; may be given again")
	f.Var(&s.hosts, "allow-host", "`name` by which clients address the service and whose web pages may use it; may be given again")
	f.StringVar(&s.protocols, "protocol", "lite", "`protocols`: lite, legacy or both with a comma")
	f.StringVar(&s.keyEnv, "api-key-env", "", "environment `variable` with the API key")
	f.StringVar(&s.keyFile, "api-key-file", "", "`file` with the API key")
	f.DurationVar(&o.SessionTimeout, "session-timeout", o.SessionTimeout, "close Lite sessions that are idle for so long; 0 is never")
	f.DurationVar(&o.LegacyTimeout, "legacy-timeout", o.LegacyTimeout, "close legacy environments that are idle for so long; 0 is never")
	f.DurationVar(&o.SweepEvery, "sweep-every", o.SweepEvery, "how often idle ones are looked for")
	f.IntVar(&o.MaxSessions, "max-sessions", o.MaxSessions, "environments alive; 0 is no limit")
	f.IntVar(&o.MaxBatch, "max-batch", o.MaxBatch, "environments that one legacy request makes; 0 is no limit")
	f.IntVar(&o.MaxInFlight, "max-inflight", o.MaxInFlight, "requests worked on at once; 0 is no limit")
	f.DurationVar(&o.AdmitTimeout, "admit-timeout", o.AdmitTimeout, "how long a request waits for its turn before it is refused")
	f.DurationVar(&o.CallTimeout, "call-timeout", o.CallTimeout, "longest call of an environment")
	f.DurationVar(&o.ReadTimeout, "read-timeout", o.ReadTimeout, "for a request to arrive")
	f.DurationVar(&o.WriteTimeout, "write-timeout", o.WriteTimeout, "for a response to be taken")
	f.DurationVar(&o.DrainTimeout, "drain-timeout", o.DrainTimeout, "for calls and environments to end when the service stops")
	f.IntVar(&o.BatchWorkers, "batch-workers", o.BatchWorkers, "environments of one legacy batch that are called at once")
	f.StringVar(&s.images, "image-format", string(o.Images), "png, which keeps every pixel, or jpeg")
	f.Int64Var(&o.Limits.Body, "max-body", o.Limits.Body, "largest request in `bytes`")
	f.IntVar(&o.Limits.Parts, "max-parts", o.Limits.Parts, "parts of a request")
	f.IntVar(&o.Limits.Pixels, "max-pixels", o.Limits.Pixels, "pixels of all images of a request")
	f.Uint64Var(&o.Seed, "seed", o.Seed, "draws the seeds of resets that name none")
}

func (s *service) serve(ctx context.Context, c *cli.Call) error {
	options, err := cli.Options(c.Args)
	if err != nil {
		return err
	}
	o := &s.ServerOptions
	o.Hosts = s.hosts
	o.Images, o.Log = remote.ImageFormat(s.images), c.Log
	if err := s.host(options); err != nil {
		return err
	}
	if o.APIKey, err = s.key(c.Getenv); err != nil {
		return err
	}
	server, err := remote.NewServer(*o)
	if err != nil {
		return cli.Usagef("%w", err)
	}
	// A service holds a kilobyte a session and throws away several a request:
	// fewer collections cost little memory and keep the slowest answers quick.
	if _, set := c.Getenv("GOGC"); !set {
		defer debug.SetGCPercent(debug.SetGCPercent(serveGC))
	}
	err = server.ListenAndServe(ctx, s.addr)
	if errors.Is(err, remote.ErrKeyNeeded) {
		return cli.Usagef("%w (--api-key-env or --api-key-file)", err)
	}
	return err
}

// serveGC is the collector's target in percent while a service runs, unless the
// environment variable GOGC says otherwise.
const serveGC = 400

// host fills in the environments. Each is made once, so that options that are
// wrong are reported now.
func (s *service) host(options map[string]any) error {
	if len(s.envs) == 0 {
		return cli.Usagef("--env is needed; vagen env list lists what there is")
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
		default:
			return cli.Usagef("--protocol: there is no %q; there are lite and legacy", protocol)
		}
	}
	return nil
}

// builtinKind finds an environment of the library.
func builtinKind(name string) (kind builtin.Kind, ok bool) {
	for _, k := range builtin.Kinds() {
		if k.Name == name {
			return k, true
		}
	}
	return builtin.Kind{}, false
}

// allowed checks that each option of --allow-option exists, as far as the
// environments declare all of theirs.
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
			return cli.Usagef("--allow-option: no environment served has an option %q%s", name, nearest.Hint(name, slices.Collect(maps.Keys(known))))
		}
	}
	return nil
}

// factory is that of a registered environment for options of clients, on top of
// the operator's.
func (s *service) factory(name string, options map[string]any) (env.Factory, error) {
	r := registry()
	k, _ := builtinKind(name)
	guard := env.Guard{Kinds: k.OptionKinds(), Fixed: options, Allow: s.allow}
	f := guard.Factory(func(config map[string]any) (env.Env, error) { return r.New(name, config) })
	e, err := f(nil)
	if err != nil {
		return nil, wrongUse(err)
	}
	return f, e.Close()
}

// legacyOptions adds the rules that clients of the legacy protocol expect: the last
// that an environment has.
func legacyOptions(name string, options map[string]any) map[string]any {
	k, _ := builtinKind(name)
	if _, given := options["rules"]; len(k.Rules) > 0 && !given {
		options = maps.Clone(options)
		options["rules"] = k.Rules[len(k.Rules)-1]
	}
	return options
}

// key reads the API key; "" for none.
func (s *service) key(getenv func(string) (string, bool)) (string, error) {
	var key, from string
	switch {
	case s.keyEnv != "" && s.keyFile != "":
		return "", cli.Usagef("--api-key-env and --api-key-file are both given")
	case s.keyEnv != "":
		key, _ = getenv(s.keyEnv)
		from = "the environment variable " + s.keyEnv
	case s.keyFile != "":
		raw, err := os.ReadFile(s.keyFile)
		if err != nil {
			return "", fmt.Errorf("the API key: %w", err)
		}
		key, from = string(raw), s.keyFile
	default:
		return "", nil
	}
	if key = strings.TrimSpace(key); key == "" {
		return "", cli.Usagef("the API key in %s is empty", from)
	}
	return key, nil
}
