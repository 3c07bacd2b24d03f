// Package cli runs a program with subcommands: it finds the command, parses
// its flags, writes help and turns errors into exit codes.
//
// Flags and arguments may be in any order; "--" ends the flags. A command's result is
// written to Out, everything else to Err, so that output can be piped. Control characters in
// what reaches Err or a terminal are escaped.
package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"vagen/internal/nearest"
	"vagen/internal/signals"
	"vagen/internal/term"
)

// The exit codes of Main.
const (
	OK          = 0
	Failed      = 1   // the command failed
	Usage       = 2   // the command line, or a file that it names, is invalid
	Interrupted = 130 // the context was cancelled by Ctrl-C; for another signal 128 plus its number
)

// ErrUsage is wrapped by errors about the command line.
var ErrUsage = errors.New("usage")

// Usagef returns an error that makes Main exit with Usage.
func Usagef(format string, args ...any) error {
	return fmt.Errorf("%w%w", hidden{ErrUsage}, fmt.Errorf(format, args...))
}

// hidden is an error that errors.Is finds, without a text.
type hidden struct{ error }

func (hidden) Error() string   { return "" }
func (h hidden) Unwrap() error { return h.error }

// Command is a command, or a group of commands.
type Command struct {
	Name  string
	Args  string // positional arguments for the synopsis, such as "NAME [key=value …]"
	About string // one line
	Help  string // further lines; "" for none

	// Commands are the members of a group.
	Commands []*Command
	// Min and Max count positional arguments; a negative Max is no limit.
	Min, Max int
	// JSON says what the flag --json writes instead of text; "" for a command without this flag.
	JSON string
	// Setup declares the flags and returns the function to run after they are parsed.
	Setup func(f *flag.FlagSet) Run
}

// Run does the work of a command. An error from Usagef is the caller's mistake.
type Run func(ctx context.Context, c *Call) error

// NoFlags is a Setup for a command without flags of its own.
func NoFlags(work Run) func(*flag.FlagSet) Run { return func(*flag.FlagSet) Run { return work } }

// Streams are a program's input and output.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Call is one run of a command.
type Call struct {
	Streams
	Args   []string     // positional
	AsJSON bool         // the flag --json
	Log    *slog.Logger // to Err, at the level of the flag --log
	given  []string     // flags of the command line
}

// Given reports whether the command line has a flag.
func (c *Call) Given(flag string) bool { return slices.Contains(c.given, flag) }

// Idle refuses flags that would have no effect; why says what makes them so.
func (c *Call) Idle(why string, flags ...string) error {
	for _, name := range c.given {
		if slices.Contains(flags, name) {
			return Usagef("--%s is set, but %s", name, why)
		}
	}
	return nil
}

// Main runs the command that args name below root and returns the exit code.
func Main(ctx context.Context, root *Command, s Streams, args []string) int {
	s.Err = term.NewWriter(s.Err)
	if term.IsTerminal(s.Out) { // a file or another program gets the bytes as they are
		s.Out = term.NewWriter(s.Out)
	}
	err := start(ctx, root, s, args)
	switch {
	case err == nil:
		return OK
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		fmt.Fprintf(s.Err, "%s: interrupted\n", root.Name)
		var by signals.Signal
		if errors.As(context.Cause(ctx), &by) {
			return by.Code()
		}
		return Interrupted
	}
	prefix := root.Name + ": " // errors of a library of that name already have this prefix
	fmt.Fprintln(s.Err, prefix+strings.TrimPrefix(err.Error(), prefix))
	if errors.Is(err, ErrUsage) {
		return Usage
	}
	return Failed
}

func start(ctx context.Context, root *Command, s Streams, args []string) error {
	if len(args) > 0 && args[0] == "help" {
		return help(s.Out, root, args[1:])
	}
	cmd, path := root, root.Name
	for cmd.Setup == nil {
		if len(args) == 0 {
			writeHelp(s.Err, cmd, path)
			return Usagef("%s needs a command", path)
		}
		if isHelp(args[0]) {
			writeHelp(s.Out, cmd, path)
			return nil
		}
		sub, err := cmd.find(path, args[0])
		if err != nil {
			return err
		}
		cmd, path, args = sub, path+" "+sub.Name, args[1:]
	}
	return cmd.run(ctx, path, s, args)
}

func isHelp(arg string) bool { return arg == "-h" || arg == "--help" || arg == "-help" }

// find returns a member of a group.
func (c *Command) find(path, name string) (*Command, error) {
	names := make([]string, len(c.Commands))
	for i, sub := range c.Commands {
		if sub.Name == name {
			return sub, nil
		}
		names[i] = sub.Name
	}
	return nil, Usagef("%s has no command %q%s; known commands: %s", path, name, nearest.Hint(name, names),
		strings.Join(names, ", "))
}

// run parses the flags and runs the command.
func (c *Command) run(ctx context.Context, path string, s Streams, args []string) error {
	call := &Call{Streams: s}
	f, work, level := c.flags(path, call)
	if slices.ContainsFunc(beforeDashes(args), isHelp) {
		writeHelp(s.Out, c, path)
		return nil
	}
	var err error
	if call.Args, err = parse(f, args); err != nil {
		return Usagef("%s: %s; see %s --help", path, rewordFlagError(f, err), path)
	}
	if n := len(call.Args); n < c.Min || c.Max >= 0 && n > c.Max {
		return Usagef("%s: found %d arguments; usage: %s", path, n, c.synopsis(path))
	}
	f.Visit(func(g *flag.Flag) { call.given = append(call.given, g.Name) })
	call.Log = slog.New(slog.NewTextHandler(s.Err, &slog.HandlerOptions{Level: level}))
	return work(ctx, call)
}

// flags declares the flags of a command and the common ones.
func (c *Command) flags(path string, call *Call) (*flag.FlagSet, Run, *slog.LevelVar) {
	f := flag.NewFlagSet(path, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	work := c.Setup(f)
	level := new(slog.LevelVar)
	f.TextVar(level, "log", level, "minimum log `level`: debug, info, warn or error")
	if c.JSON != "" {
		f.BoolVar(&call.AsJSON, "json", false, c.JSON)
	}
	return f, work, level
}

func beforeDashes(args []string) []string {
	if i := slices.Index(args, "--"); i >= 0 {
		return args[:i]
	}
	return args
}

// parse parses flags at any position and returns the other arguments.
func parse(f *flag.FlagSet, args []string) ([]string, error) {
	var rest []string
	for len(args) > 0 {
		if err := f.Parse(args); err != nil {
			return nil, err
		}
		left := f.Args()
		if used := len(args) - len(left); used > 0 && args[used-1] == "--" {
			return append(rest, left...), nil
		}
		if len(left) == 0 {
			break
		}
		rest, args = append(rest, left[0]), left[1:]
	}
	return rest, nil
}

// rewordFlagError rewords an error of a FlagSet.
func rewordFlagError(f *flag.FlagSet, err error) string {
	text := err.Error()
	name, unknown := strings.CutPrefix(text, "flag provided but not defined: -")
	if !unknown {
		return text
	}
	var names []string
	f.VisitAll(func(g *flag.Flag) { names = append(names, g.Name) })
	hint := ""
	if n := nearest.Name(name, names); n != "" {
		hint = ", did you mean --" + n + "?"
	}
	return fmt.Sprintf("unknown flag --%s%s", name, hint)
}
