// Vagen is the command of the library: it shows, plays, checks and serves
// environments, builds datasets and trains.
//
//	vagen help            lists the commands
//	vagen COMMAND --help  says what one does
//
// It exits with 0 when all went well, 1 when what was asked for failed, 2 when the
// command line or a configuration makes no sense, and 130 or 143 when SIGINT or
// SIGTERM ended it. A run that could not save when it was interrupted has failed.
// What was asked for goes to the standard output, logs and complaints to the
// standard error.
package main

import (
	"context"
	"os"

	"vagen/internal/cli"
	"vagen/internal/signals"
)

func main() {
	ctx, stop := signals.Until(context.Background())
	code := cli.Main(ctx, program(), cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.LookupEnv}, os.Args[1:])
	stop()
	os.Exit(code)
}

// program is the table of commands, each of which has a file of its own.
func program() *cli.Command {
	return &cli.Command{
		Name:  "vagen",
		About: "Multi-turn reinforcement learning of vision-language-model agents.",
		Help: `Exit codes: 0 all went well, 1 it failed, 2 the command line or a file that it
names makes no sense, 130 or 143 ended by SIGINT or SIGTERM.`,
		Commands: []*cli.Command{
			envCommand(),
			playCommand(),
			serveCommand(),
			datasetCommand(),
			trainCommand(),
			evalCommand(),
			replayCommand(),
			configCommand(),
			modelCommand(),
			generateCommand(),
			benchCommand(),
			versionCommand(),
		},
	}
}
