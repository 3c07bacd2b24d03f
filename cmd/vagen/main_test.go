package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/buildinfo"
	"vagen/internal/cli"
)

// launchRun runs a command line in this process.
func launchRun(t *testing.T, in string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = cli.Main(t.Context(), program(), cli.Streams{
		In: strings.NewReader(in), Out: &out, Err: &errs,
	}, args)
	return code, out.String(), errs.String()
}

// runCommand runs a function as a command.
func runCommand(t *testing.T, work cli.Run) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	root := &cli.Command{Name: "vagen", Setup: func(*flag.FlagSet) cli.Run { return work }}
	code = cli.Main(t.Context(), root, cli.Streams{Out: &out, Err: &errs}, nil)
	return code, out.String(), errs.String()
}

// succeed runs a command line that must succeed and returns its output.
func succeed(t *testing.T, args ...string) string {
	t.Helper()
	code, out, errs := launchRun(t, "", args...)
	require.Equal(t, cli.OK, code, "%v: %s", args, errs)
	return out
}

// refuse runs a command line that must be refused and returns the error text.
func refuse(t *testing.T, args ...string) string {
	t.Helper()
	code, out, errs := launchRun(t, "", args...)
	require.Equal(t, cli.Usage, code, "%v: %s", args, errs)
	require.Empty(t, out)
	return errs
}

// fail runs a command line that must fail at its work and returns the error text.
func fail(t *testing.T, args ...string) string {
	t.Helper()
	code, _, errs := launchRun(t, "", args...)
	require.Equal(t, cli.Failed, code, "%v: %s", args, errs)
	return errs
}

func TestEveryCommandHasHelp(t *testing.T) {
	var visit func(c *cli.Command, path []string)
	visit = func(c *cli.Command, path []string) {
		require.NotEmpty(t, c.About, path)
		out := succeed(t, append(path, "--help")...)
		require.True(t, strings.HasPrefix(out, strings.Join(append([]string{"vagen"}, path...), " ")), out)
		require.Equal(t, out, succeed(t, append([]string{"help"}, path...)...))
		require.Equal(t, c.Setup == nil, len(c.Commands) > 0, path)
		for _, sub := range c.Commands {
			visit(sub, append(path[:len(path):len(path)], sub.Name))
		}
	}
	visit(program(), nil)
}

func TestVersionSaysWhatWasBuilt(t *testing.T) {
	require.Regexp(t, `^vagen .+, go1\..+, .+/.+\n$`, succeed(t, "version"))
	var b buildinfo.Info
	require.NoError(t, json.Unmarshal([]byte(succeed(t, "version", "--json")), &b))
	require.NotEmpty(t, b.Go)
}
