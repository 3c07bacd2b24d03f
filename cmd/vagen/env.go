package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"vagen/env"
	"vagen/env/builtin"
	"vagen/internal/cli"
	"vagen/reward/judge"
	"vagen/reward/judge/client"
	"vagen/rollout/gateway"
	"vagen/train/config"
)

func envCommand() *cli.Command {
	return &cli.Command{
		Name:     "env",
		About:    "List, show and check environments.",
		Commands: []*cli.Command{envList(), envShow(), envCheck()},
	}
}

// described is an environment as it is listed.
type described struct {
	Name    string         `json:"name"`
	About   string         `json:"about"`
	Rules   []string       `json:"rules,omitempty"`
	Options map[string]any `json:"options,omitempty"`
	Prompt  string         `json:"prompt,omitempty"`
	Format  string         `json:"format,omitempty"` // of a response
}

func envList() *cli.Command {
	return &cli.Command{
		Name:  "list",
		About: "List the environments that come with the library.",
		JSON:  "write JSON: a list of environments",
		Setup: cli.NoFlags(func(_ context.Context, c *cli.Call) error {
			var all []described
			var rows [][]string
			for _, k := range kinds() {
				all = append(all, described{Name: k.Name, About: k.About, Rules: k.Rules})
				rows = append(rows, []string{k.Name, k.About})
			}
			return c.Show(all, rows)
		}),
	}
}

func envShow() *cli.Command {
	return &cli.Command{
		Name: "show", Args: "NAME [key=value …]", Min: 1, Max: -1,
		About: "Show an environment's options with their defaults, and its system prompt.",
		Help: "The given options, such as rules=legacy, are applied first. An agent has no prompt, a service has one " +
			"only with its address, base_urls=URL. Options that a service defines itself are not shown.",
		JSON: "write JSON: an object with name, about, rules, options and prompt",
		Setup: cli.NoFlags(func(ctx context.Context, c *cli.Call) error {
			d, err := showEnv(ctx, c.Args)
			if err != nil {
				return err
			}
			if c.AsJSON {
				return c.JSON(d)
			}
			fmt.Fprintf(c.Out, "%s: %s\n\nOptions:\n", d.Name, d.About)
			var rows [][]string
			for _, name := range slices.Sorted(maps.Keys(d.Options)) {
				rows = append(rows, []string{"  " + name, value(d.Options[name])})
			}
			if err := c.Table(rows); err != nil {
				return err
			}
			if _, paid := d.Options[judge.Key]; paid {
				fmt.Fprintf(c.Out, "\n%s rewards statements about the state; it is a mapping of\n", judge.Key)
				rows = nil
				for _, r := range judge.Reference() {
					rows = append(rows, []string{"  " + r[0], r[1], r[2]})
				}
				if err := c.Table(rows); err != nil {
					return err
				}
			}
			if d.Format != "" {
				_, err = fmt.Fprintf(c.Out, "\nResponses:\n  %s\n\nSystem prompt:\n%s\n", d.Format, d.Prompt)
			}
			return err
		}),
	}
}

// showEnv describes the environment of arguments of the form NAME key=value …. Agents, and services without an
// address, are not asked for a prompt.
func showEnv(ctx context.Context, args []string) (described, error) {
	k, _ := builtinKind(args[0])
	if k.Name == gateway.Name || k.Own != nil && len(args) == 1 {
		config, err := cli.Options(args[1:])
		if err == nil && k.Name == gateway.Name {
			_, err = k.Make(config)
		}
		return describe(k.Name, config), asUsage(err, badEnv...)
	}
	e, config, err := newEnv(args)
	if err != nil {
		return described{}, err
	}
	defer e.Close()
	d := describe(args[0], config)
	system, err := e.System(ctx)
	if err != nil {
		return d, err
	}
	s, err := styleOf(ctx, e, "", 0)
	if err == nil {
		d.Prompt, d.Format = system.Text, s.shape()
	}
	return d, err
}

// kinds are the environments that can be named in a configuration.
func kinds() []builtin.Kind {
	agent := builtin.Kind{Name: gateway.Name, About: gateway.About, Make: new(gateway.Gateway).Env,
		Own: func() any { return gateway.DefaultOptions() }}
	return slices.Insert(builtin.Kinds(), 0, agent)
}

// registry returns the environments of kinds. Their blocks state_reward may name a judge model. Agents are only
// known: this command cannot play for them.
func registry() *env.Registry {
	r := builtin.RegistryWith(client.Dial(nil))
	_ = r.Register(gateway.Name, func(map[string]any) (env.Env, error) { // the name is new
		return nil, cli.Usagef("a program plays it, in training, in an evaluation or with vagen gateway")
	}, gateway.About)
	return r
}

// newEnv makes the environment of arguments of the form NAME key=value ….
func newEnv(args []string) (env.Env, map[string]any, error) {
	config, err := cli.Options(args[1:])
	if err != nil {
		return nil, nil, err
	}
	e, err := registry().New(args[0], config)
	if err != nil {
		return nil, nil, asUsage(err, badEnv...)
	}
	return e, config, nil
}

// badEnv are the errors about an environment's name or options.
var badEnv = []error{env.ErrUnknown, env.ErrOption}

// describe lists the options of an environment: the defaults of its rules, overridden by
// the given ones.
func describe(name string, given map[string]any) described {
	k, ok := builtinKind(name)
	if !ok {
		return described{Name: name, Options: given}
	}
	d := described{Name: name, About: k.About, Rules: k.Rules, Options: map[string]any{}}
	if k.Defaults != nil {
		rules, _ := given["rules"].(string)
		if rules == "" && len(k.Rules) > 0 {
			rules = k.Rules[0]
		}
		d.Options = env.OptionValues(k.Defaults(rules))
		if k.Claims {
			d.Options[judge.Key] = nil
		}
	} else if k.Own != nil {
		d.Options = env.OptionValues(k.Own())
	}
	maps.Copy(d.Options, given)
	return d
}

// value formats an option as on the command line.
func value(v any) string {
	if s := reflect.ValueOf(v); s.Kind() == reflect.String && s.Len() > 0 {
		return s.String()
	}
	return config.ValueText(v)
}

// checked is the result of a check.
type checked struct {
	Env      string   `json:"env"`
	Calls    int      `json:"calls"`
	Turns    int      `json:"turns"`
	Slowest  float64  `json:"slowest_seconds"`
	Problems []string `json:"problems"`
}

func envCheck() *cli.Command {
	return &cli.Command{
		Name: "check", Args: "NAME [key=value …]", Min: 1, Max: -1,
		About: "Play an environment and report violations of its contract.",
		Help: `Checked are image marks, equal episodes for equal seeds, finite rewards, malformed
responses, calls in the wrong order, cancellation, hanging and panics. Use --response
to play valid actions; without it, some responses are generated in the environment's
format, which for an environment on a service is taken from its system prompt.
Malformed responses may block a service with slow regular expressions, so do not check
a service that is in use. For your own service:

  vagen env check remote base_urls=http://127.0.0.1:8000 --response "<answer>up</answer>"`,
		JSON: "write JSON: an object with calls, turns, slowest_seconds and problems",
		Setup: func(f *flag.FlagSet) cli.Run {
			o := env.CheckOptions{}
			first := f.Int64("seed", 0, "first seed")
			seeds := f.Int("seeds", 4, "number of seeds")
			f.IntVar(&o.Turns, "turns", 12, "maximum turns of an episode")
			f.DurationVar(&o.Timeout, "timeout", 0, "time limit of a call; 0 is one minute")
			var responses cli.StringList
			format := f.String("format", "", formatUsage)
			f.Var(&responses, "response", "`text` of a response to play; may be repeated")
			return func(ctx context.Context, c *cli.Call) error {
				if *seeds < 1 || o.Turns < 1 || o.Timeout < 0 {
					return cli.Usagef("--seeds is %d, --turns %d and --timeout %v; must be positive, positive and not negative",
						*seeds, o.Turns, o.Timeout)
				}
				if len(responses) > 0 {
					if err := c.Idle("--response gives whole responses", "format"); err != nil {
						return err
					}
				}
				e, config, err := newEnv(c.Args)
				if err != nil {
					return err
				}
				if o.Responses = responses; len(responses) == 0 {
					s, err := styleOf(ctx, e, *format, *first)
					if err != nil {
						return errors.Join(err, e.Close())
					}
					o.Responses = attempts(s)
				}
				if err := e.Close(); err != nil {
					return err
				}
				for i := range *seeds {
					o.Seeds = append(o.Seeds, *first+int64(i))
				}
				o.Config = config
				r := registry()
				report, err := env.Check(ctx, func(config map[string]any) (env.Env, error) { return r.New(c.Args[0], config) }, o)
				if err != nil {
					return err
				}
				return printReport(c, report)
			}
		},
	}
}

// printReport writes a report. It returns an error if there are problems.
func printReport(c *cli.Call, report env.Report) error {
	out := checked{Env: c.Args[0], Calls: report.Calls, Turns: report.Turns, Slowest: report.Slowest.Seconds(),
		Problems: []string{}}
	for _, p := range report.Problems {
		out.Problems = append(out.Problems, p.String())
	}
	var err error
	if c.AsJSON {
		err = c.JSON(out)
	} else {
		for _, p := range out.Problems {
			fmt.Fprintln(c.Out, p)
		}
		_, err = fmt.Fprintf(c.Out, "%s: %d problems in %d calls and %d turns, the slowest call took %.3f s\n",
			out.Env, len(out.Problems), out.Calls, out.Turns, out.Slowest)
	}
	if err == nil && len(out.Problems) > 0 {
		err = fmt.Errorf("%s violates the contract of environments", out.Env)
	}
	return err
}

// attempts returns responses in an environment's format, with actions of the built-in
// environments.
func attempts(s style) []string {
	var out []string
	for _, answer := range []string{"Right", "Down", "up", "move_forward", "moveahead", "Hit", "Stand", "pick(0,0,20)",
		`<svg viewBox="0 0 9 9"><circle cx="4" cy="4" r="3"/></svg>`} {
		out = append(out, s(answer))
	}
	return out
}
