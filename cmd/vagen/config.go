package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"vagen"
	"vagen/internal/cli"
	"vagen/internal/nearest"
	"vagen/internal/settings"
)

func configCommand() *cli.Command {
	return &cli.Command{
		Name:     "config",
		About:    "Show, explain and check training configurations.",
		Commands: []*cli.Command{configShow(), configExplain(), configCheck()},
	}
}

func configShow() *cli.Command {
	return &cli.Command{
		Name: "show", Args: "[FILE] [key=value …]", Max: -1,
		About: "Write a configuration with every key: the defaults, or what a file makes of them.",
		Help:  "The output is YAML that vagen train takes. What is wrong with the configuration is not asked; see vagen config check.",
		Setup: func(f *flag.FlagSet) cli.Run {
			asJSON := f.Bool("json", false, "write JSON: an object of keys and values")
			return func(_ context.Context, c *cli.Call) error {
				path, overrides := splitConfig(c.Args)
				config, err := readConfig(path, overrides)
				if err != nil {
					return cli.Usagef("%w", err)
				}
				if *asJSON {
					values := map[string]any{}
					for _, k := range settings.Keys(&config) {
						values[k.Path] = k.Value
					}
					return c.JSON(values)
				}
				raw, err := config.YAML()
				if err != nil {
					return err
				}
				_, err = c.Out.Write(raw)
				return err
			}
		},
	}
}

// readConfig reads a configuration without asking whether it makes sense.
func readConfig(path string, overrides []string) (vagen.Config, error) {
	config := vagen.Default()
	var problems []error
	if path != "" {
		raw, err := os.ReadFile(path)
		if err != nil {
			return config, err
		}
		if err := settings.Load(&config, raw); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", path, err))
		}
	}
	for _, o := range overrides {
		problems = append(problems, settings.Override(&config, o))
	}
	return config, errors.Join(problems...)
}

// splitConfig tells a file's name from key=value overrides after it.
func splitConfig(args []string) (path string, overrides []string) {
	if len(args) > 0 && !strings.Contains(args[0], "=") {
		return args[0], args[1:]
	}
	return "", args
}

// explained is a key of a configuration.
type explained struct {
	Key     string `json:"key"`
	About   string `json:"about"`
	Default any    `json:"default"`
}

func configExplain() *cli.Command {
	return &cli.Command{
		Name: "explain", Args: "[KEY …]", Max: -1,
		About: "Say what keys mean and what they are by default.",
		Help:  "KEY is a key, a group of keys such as algorithm or critic.optim, or a part of a name such as clip. Without one, all keys are listed.",
		Setup: func(f *flag.FlagSet) cli.Run {
			asJSON := f.Bool("json", false, "write JSON: a list of keys")
			return func(_ context.Context, c *cli.Call) error {
				found, err := explain(c.Args)
				if err != nil {
					return err
				}
				if *asJSON {
					return c.JSON(found)
				}
				rows := make([][]string, len(found))
				for i, k := range found {
					rows[i] = []string{k.Key, value(k.Default), k.About}
				}
				return c.Table(rows)
			}
		},
	}
}

// explain finds the keys that some words name, in their order.
func explain(words []string) ([]explained, error) {
	config := vagen.Default()
	keys := settings.Keys(&config)
	if len(words) == 0 {
		words = []string{""}
	}
	var out []explained
	for _, word := range words {
		matching := named(keys, word)
		if len(matching) == 0 {
			names := make([]string, len(keys))
			for i, k := range keys {
				names[i] = k.Path
			}
			return nil, cli.Usagef("no key has %q in its name%s", word, nearest.Hint(word, names))
		}
		for _, k := range matching {
			out = append(out, explained{Key: k.Path, About: k.Doc, Default: k.Value})
		}
	}
	return out, nil
}

// named are the key of that name, else the keys of that group, else those with the
// word in their names.
func named(keys []settings.Key, word string) []settings.Key {
	for _, matches := range []func(path string) bool{
		func(path string) bool { return path == word },
		func(path string) bool { return strings.HasPrefix(path, word+".") },
		func(path string) bool { return strings.Contains(path, word) },
	} {
		var out []settings.Key
		for _, k := range keys {
			if matches(k.Path) {
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
		Name: "check", Args: "FILE [key=value …]", Min: 1, Max: -1,
		About: "Report everything that is wrong with a configuration.",
		Setup: func(*flag.FlagSet) cli.Run {
			return func(_ context.Context, c *cli.Call) error {
				if _, err := vagen.LoadConfig(c.Args[0], c.Args[1:]...); err != nil {
					return cli.Usagef("%w", err)
				}
				_, err := fmt.Fprintf(c.Out, "%s is a sound configuration\n", c.Args[0])
				return err
			}
		},
	}
}
