package main

import (
	"context"
	"fmt"

	"vagen/internal/buildinfo"
	"vagen/internal/cli"
)

func versionCommand() *cli.Command {
	return &cli.Command{
		Name:  "version",
		About: "Print the version.",
		JSON:  "write JSON",
		Setup: cli.NoFlags(func(_ context.Context, c *cli.Call) error {
			b := buildinfo.Read()
			if c.AsJSON {
				return c.JSON(b)
			}
			_, err := fmt.Fprintf(c.Out, "vagen %s, %s, %s\n", b.Text(), b.Go, b.Platform)
			return err
		}),
	}
}
