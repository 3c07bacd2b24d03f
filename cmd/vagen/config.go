package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"

	"vagen/internal/cli"
	"vagen/internal/nearest"
	"vagen/internal/settings"
	"vagen/train/config"
	"vagen/train/run"
)

func configCommand() *cli.Command {
	return &cli.Command{
		Name:  "config",
		About: "Show, explain, check and import training configurations.",
		Commands: []*cli.Command{
			configShow(), configDefaults(), configExplain(), configCheck(), configImport(), configPresets(), configDoc(),
		},
	}
}

func configShow() *cli.Command {
	return &cli.Command{
		Name: "show", Args: "[FILE] [key=value …]", Max: -1,
		About: "Write a configuration with every key: the defaults, changed by a preset, a file and overrides.",
		Help: `The output is YAML for vagen train. The configuration is not checked; see vagen config check.
With --diff, legacy, lite and next are the defaults of these generations of VAGEN where they
are not this library's, and from is what gave the value. Long values are cut; --json has all.`,
		JSON: "write JSON: an object of keys and values, with --diff a list of keys",
		Setup: func(f *flag.FlagSet) cli.Run {
			diff := f.Bool("diff", false, "write a table of the keys that differ from the defaults, and of those whose defaults differ between the generations of VAGEN")
			preset := presetFlag(f)
			return func(_ context.Context, c *cli.Call) error {
				s := source(*preset, c.Args)
				if *diff {
					return compareConfig(c, s)
				}
				s.Unchecked = true
				cfg, err := s.Load()
				if err != nil {
					return cli.Usagef("%w", err)
				}
				return showConfig(c, &cfg)
			}
		},
	}
}

// compareConfig writes what distinguishes a configuration from the defaults.
func compareConfig(c *cli.Call, s config.Source) error {
	all, err := s.Compare()
	if err != nil {
		return cli.Usagef("%w", err)
	}
	short := func(value any) string {
		text := []rune(config.ValueText(value))
		if len(text) > 60 {
			text = append(text[:59], '…')
		}
		return string(text)
	}
	rows := [][]string{{"key", "value", "default", "legacy", "lite", "next", "from"}}
	for _, d := range all {
		row := []string{d.Key, short(d.Value), short(d.Default)}
		for _, system := range []string{"legacy", "lite", "next"} {
			text := ""
			if other, ok := d.Systems[system]; ok {
				text = short(other)
			}
			row = append(row, text)
		}
		rows = append(rows, append(row, d.From))
	}
	return c.Show(all, rows)
}

func showConfig(c *cli.Call, cfg *config.Config) error {
	if c.AsJSON {
		values := map[string]any{}
		for _, k := range settings.Keys(cfg) {
			values[k.Path] = k.Value
		}
		return c.JSON(values)
	}
	raw, err := cfg.YAML()
	if err != nil {
		return err
	}
	_, err = c.Out.Write(raw)
	return err
}

func configDefaults() *cli.Command {
	return &cli.Command{
		Name:  "defaults",
		About: "Write the default configuration.",
		JSON:  "write JSON: an object of keys and values",
		Setup: cli.NoFlags(func(_ context.Context, c *cli.Call) error {
			cfg := config.Default()
			return showConfig(c, &cfg)
		}),
	}
}

func configPresets() *cli.Command {
	return &cli.Command{
		Name:  "presets",
		About: "List the presets: configurations of the paper, the first release, VAGEN lite and next.",
		Help:  "vagen config show --preset NAME writes a preset with every key.",
		JSON:  "write JSON: a list of presets",
		Setup: cli.NoFlags(func(_ context.Context, c *cli.Call) error {
			all := config.Presets()
			var rows [][]string
			for _, p := range all {
				rows = append(rows, []string{p.Name, p.About})
			}
			return c.Show(all, rows)
		}),
	}
}

func configDoc() *cli.Command {
	return &cli.Command{
		Name:  "doc",
		About: "Write the reference of all keys and presets, in markdown.",
		Setup: cli.NoFlags(func(_ context.Context, c *cli.Call) error {
			_, err := fmt.Fprint(c.Out, config.Page())
			return err
		}),
	}
}

// presetFlag declares --preset.
func presetFlag(f *flag.FlagSet) *string {
	return f.String("preset", "", "`name` of a preset to start from; vagen config presets lists them")
}

// source returns the source of a configuration from a preset, a file and overrides, all
// of which are optional.
func source(preset string, args []string) config.Source {
	path, overrides := splitConfig(args)
	return config.Source{Preset: preset, Path: path, Overrides: overrides}
}

// splitConfig separates a file's name from the key=value overrides after it. No key has a slash, but folders may be
// named after settings, as in runs/lr=0.1/config.yaml.
func splitConfig(args []string) (path string, overrides []string) {
	if len(args) == 0 {
		return "", nil
	}
	if key, _, assigned := strings.Cut(args[0], "="); !assigned || strings.ContainsAny(key, `/\`) {
		return args[0], args[1:]
	}
	return "", args
}

func configExplain() *cli.Command {
	return &cli.Command{
		Name: "explain", Args: "[KEY …]", Max: -1,
		About: "Explain keys and show their defaults.",
		Help: `KEY is a key, a group of keys such as algorithm or critic.optim, or a part of a
name such as clip. Without KEY, all settings are listed. Keys of VAGEN and verl
without effect here are explained, too: what replaces them, or why they are refused.`,
		JSON: "write JSON: a list of keys",
		Setup: cli.NoFlags(func(_ context.Context, c *cli.Call) error {
			found, err := explain(c.Args)
			if err != nil {
				return err
			}
			var rows [][]string
			for _, k := range found {
				rows = append(rows, []string{k.Key, defaultText(k), k.About})
				for _, v := range k.Values {
					rows = append(rows, []string{"", v.Name, v.About})
				}
			}
			return c.Show(found, rows)
		}),
	}
}

// defaultText returns the default with its unit, or the kind of a key of another system.
func defaultText(k config.Setting) string {
	if k.Kind != "setting" {
		return "(" + k.Kind + ")"
	}
	return strings.TrimSpace(value(k.Default) + " " + k.Unit)
}

// explain finds the keys for each word.
func explain(words []string) ([]config.Setting, error) {
	keys := config.Settings()
	var out []config.Setting
	if len(words) == 0 {
		for _, k := range keys {
			if k.Kind == "setting" {
				out = append(out, k)
			}
		}
	}
	for _, word := range words {
		matching := named(keys, word)
		if len(matching) == 0 {
			names := make([]string, len(keys))
			for i, k := range keys {
				names[i] = k.Key
			}
			return nil, cli.Usagef("no key has %q in its name%s", word, nearest.Hint(word, names))
		}
		out = append(out, matching...)
	}
	return out, nil
}

// named returns the key with the name word, else the keys of the group word, else those
// whose names contain word.
func named(keys []config.Setting, word string) []config.Setting {
	if k, ok := config.Explain(word); ok {
		return []config.Setting{k}
	}
	for _, matches := range []func(path string) bool{
		func(path string) bool { return strings.HasPrefix(path, word+".") },
		func(path string) bool { return strings.Contains(path, word) },
	} {
		var out []config.Setting
		for _, k := range keys {
			if matches(k.Key) {
				out = append(out, k)
			}
		}
		if len(out) > 0 {
			return out
		}
	}
	return nil
}

func configCheck() *cli.Command {
	return &cli.Command{
		Name: "check", Args: "[FILE] [key=value …]", Max: -1,
		About: "Report all errors of a configuration, and its keys without effect.",
		Help: `Errors are reported with the line of the file or the number of the override. The options
of the environments are checked as vagen train --dry-run does, without a model and without
asking services.`,
		Setup: func(f *flag.FlagSet) cli.Run {
			preset := presetFlag(f)
			return func(ctx context.Context, c *cli.Call) error {
				s := source(*preset, c.Args)
				cfg, err := s.Load()
				if err != nil {
					return cli.Usagef("%w", err)
				}
				notes, err := run.CheckOptions(ctx, cfg, nil)
				if err != nil {
					return asUsage(s.Locate(err))
				}
				printNotes(c.Out, append(cfg.Notes, notes...))
				_, err = fmt.Fprintf(c.Out, "%s is valid\n", s.Name())
				return err
			}
		},
	}
}

func configImport() *cli.Command {
	return &cli.Command{
		Name: "import", Args: "[FILE] [key=value …]", Max: -1,
		About: "Write a configuration of a generation of VAGEN as one of this library.",
		Help: `FILE and the overrides are what a script of VAGEN gives, with system legacy, lite or next,
or with the --preset of one. The output is YAML for vagen train with the same settings, each
under its one name, and with system: null, so that it depends on no generation's names and
defaults. Keys without effect and warnings are printed to stderr.`,
		Setup: func(f *flag.FlagSet) cli.Run {
			preset := presetFlag(f)
			return func(_ context.Context, c *cli.Call) error {
				cfg, err := source(*preset, c.Args).Load()
				if err != nil {
					return cli.Usagef("%w", err)
				}
				printNotes(c.Err, cfg.Notes)
				cfg.System = ""
				return showConfig(c, &cfg)
			}
		},
	}
}

// printNotes prints notes of a configuration, one per line.
func printNotes(w io.Writer, notes []config.Note) {
	for _, n := range notes {
		kind := "no effect"
		if n.Warn {
			kind = "warning"
		}
		fmt.Fprintf(w, "%s: %s\n", kind, n)
	}
}
