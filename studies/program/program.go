// Package program is what the programs of the studies share.
package program

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"vagen/train/run"
)

// Main runs a study until it ends or a signal comes, and ends the program with its status. parsed is
// the error of the flags, which was printed already.
func Main(name string, parsed error, do func(context.Context) error) {
	if errors.Is(parsed, flag.ErrHelp) {
		return
	}
	if parsed != nil {
		os.Exit(2)
	}
	ctx, stop := run.UntilSignal(context.Background())
	defer stop()
	if err := do(ctx); err != nil {
		code := run.ExitCode(ctx, err)
		if code > 1 {
			err = errors.New("interrupted; the same command resumes the study with the first missing run")
		}
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(code)
	}
}
