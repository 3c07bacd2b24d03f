package main

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"runtime/debug"

	"vagen/internal/cli"
)

// build describes how a binary was built.
type build struct {
	Version  string `json:"version"` // of the module; "(devel)" for a working tree
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified"` // the working tree had uncommitted changes
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func versionCommand() *cli.Command {
	return &cli.Command{
		Name:  "version",
		About: "Print the version.",
		Setup: func(f *flag.FlagSet) cli.Run {
			asJSON := f.Bool("json", false, "write JSON")
			return func(_ context.Context, c *cli.Call) error {
				b := buildOf(debug.ReadBuildInfo())
				if *asJSON {
					return c.JSON(b)
				}
				text := b.Version
				if b.Revision != "" {
					text += " " + b.Revision
				}
				if b.Modified {
					text += " with changes"
				}
				_, err := fmt.Fprintf(c.Out, "vagen %s, %s, %s\n", text, b.Go, b.Platform)
				return err
			}
		},
	}
}

func buildOf(info *debug.BuildInfo, ok bool) build {
	b := build{Version: "(unknown)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if !ok {
		return b
	}
	b.Version = info.Main.Version
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}
