package main

import (
	"context"
	"flag"
	"fmt"

	"vagen/env/builtin"
	"vagen/internal/cli"
)

func envCommand() *cli.Command {
	return &cli.Command{
		Name:     "env",
		About:    "List, show and check environments.",
		Commands: []*cli.Command{envList()},
	}
}

func envList() *cli.Command {
	return &cli.Command{
		Name:  "list",
		About: "List the environments that come with the library.",
		Setup: func(f *flag.FlagSet) cli.Run {
			asJSON := f.Bool("json", false, "write JSON: a list of names")
			return func(_ context.Context, c *cli.Call) error {
				names := builtin.Registry().Names()
				if *asJSON {
					return c.JSON(names)
				}
				for _, name := range names {
					if _, err := fmt.Fprintln(c.Out, name); err != nil {
						return err
					}
				}
				return nil
			}
		},
	}
}
