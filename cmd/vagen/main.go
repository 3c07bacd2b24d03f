// Vagen is the command line of the library: it shows, plays, checks and serves
// environments, builds datasets, trains and evaluates.
//
//	vagen help            lists the commands
//	vagen COMMAND --help  explains a command
//
// It exits with 0 on success, 1 on failure, 2 if the command line or a configuration is
// invalid, 130, 143 or 138 if SIGINT, SIGTERM or SIGUSR1 ended it, and by SIGABRT, 134 in shells, if it
// crashed, as out of memory. A run that could not save when
// it was interrupted is a failure. Results are written to the standard output, logs and
// errors to the standard error.
package main

import (
	"context"
	"os"

	"vagen/internal/cli"
	"vagen/internal/signals"
)

func main() {
	signals.AbortOnCrash()
	ctx, stop := signals.Until(context.Background())
	code := cli.Main(ctx, program(), cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, os.Args[1:])
	stop()
	os.Exit(code)
}

// program is the table of commands, each of which is in a separate file.
func program() *cli.Command {
	return &cli.Command{
		Name:  "vagen",
		About: "Multi-turn reinforcement learning of vision-language-model agents.",
		Help: `Exit codes: 0 success, 1 failure, 2 invalid command line or file, 130, 143 or 138 ended
by SIGINT, SIGTERM or SIGUSR1, 134 crashed, as out of memory.`,
		Commands: []*cli.Command{
			envCommand(),
			playCommand(),
			serveCommand(),
			gatewayCommand(),
			datasetCommand(),
			sftCommand(),
			trainCommand(),
			workerCommand(),
			evalCommand(),
			replayCommand(),
			verifyCommand(),
			bisectCommand(),
			viewCommand(),
			reportCommand(),
			creditCommand(),
			configCommand(),
			judgeCommand(),
			modelCommand(),
			generateCommand(),
			benchCommand(),
			versionCommand(),
		},
	}
}
