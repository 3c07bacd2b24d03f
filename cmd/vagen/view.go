package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/url"
	"os/exec"
	"runtime"
	"strings"

	"vagen/internal/cli"
	"vagen/internal/origin"
	"vagen/train/view"
)

func viewCommand() *cli.Command {
	return &cli.Command{
		Name: "view", Args: "RUN…", Min: 1, Max: 64,
		About: "Show metrics, episodes and credit of runs in the browser, also while they train.",
		Help: `RUN is the folder of a run. The page shows its metrics, its configuration beside that of
other runs, and its episodes: those of training with trainer.rollout_data_dir, token by
token with trainer.rollout_data_scores, and those of validations. Files are only read,
and only those of the runs.

Without a key the page can be opened only on this machine. With one every request must have
it; the address that is printed contains it. Other users of this machine see the arguments
of a program: name the key by --key-env or --key-file where there are any.

  vagen view runs/default-seed0 runs/default-seed1`,
		Setup: func(f *flag.FlagSet) cli.Run {
			addr := f.String("addr", "127.0.0.1:0", "`address` to listen on; port 0 selects a free port")
			var s view.Server
			f.StringVar(&s.Key, "key", "",
				"`key` that every request must have; needed for an address that other machines can reach")
			key := keyFlags(f, "key", "key")
			open := f.Bool("open", false, "open the page in the browser")
			return func(ctx context.Context, c *cli.Call) error {
				s.Runs, s.Log = c.Args, c.Log
				named, err := key.read()
				switch {
				case err != nil:
					return err
				case named != "" && s.Key != "":
					return cli.Usagef("--key is set beside --key-env or --key-file: use one of them")
				case named != "":
					s.Key = named
				}
				return viewRuns(ctx, c, &s, *addr, *open)
			}
		},
	}
}

// viewRuns serves until ctx ends.
func viewRuns(ctx context.Context, c *cli.Call, s *view.Server, addr string, open bool) error {
	if _, err := s.Handler(); err != nil { // before anything is printed
		return cli.Usagef("%w", err)
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("--addr: %w", err)
	}
	page := url.URL{Scheme: "http", Host: ln.Addr().String(), Path: "/"}
	if s.Key != "" {
		page.RawQuery = url.Values{"key": {s.Key}}.Encode()
	}
	if s.Key != "" || origin.Local(ln.Addr()) {
		fmt.Fprintf(c.Out, "%s\n", &page)
		if open {
			openBrowser(ctx, c, page.String())
		}
	}
	err = s.Serve(ctx, ln)
	if errors.Is(err, view.ErrKeyNeeded) {
		return cli.Usagef("%w (--key, --key-env or --key-file)", err)
	}
	return err
}

// openBrowser starts the program that opens addresses. A machine without one gets a
// warning: the address is printed anyway.
func openBrowser(ctx context.Context, c *cli.Call, page string) {
	command := map[string]string{"darwin": "open", "windows": "rundll32 url.dll,FileProtocolHandler"}[runtime.GOOS]
	if command == "" {
		command = "xdg-open"
	}
	name, rest, _ := strings.Cut(command, " ")
	cmd := exec.CommandContext(ctx, name, append(strings.Fields(rest), page)...)
	if err := cmd.Start(); err != nil {
		c.Log.Warn("the browser cannot be opened", "err", err)
		return
	}
	go func() { _ = cmd.Wait() }() // ends with ctx at the latest
}
