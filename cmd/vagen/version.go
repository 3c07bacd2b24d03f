package main

import (
	"context"
	"flag"
	"fmt"

	"vagen/internal/buildinfo"
	"vagen/internal/cli"
)

func versionCommand() *cli.Command {
	return &cli.Command{
		Name:  "version",
		About: "Print the version.",
		Setup: func(f *flag.FlagSet) cli.Run {
			asJSON := f.Bool("json", false, "write JSON")
			return func(_ context.Context, c *cli.Call) error {
				b := buildinfo.Read()
				if *asJSON {
					return c.JSON(b)
				}
				_, err := fmt.Fprintf(c.Out, "vagen %s, %s, %s\n", b.Text(), b.Go, b.Platform)
				return err
			}
		},
	}
}
