package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/buildinfo"
	"vagen/internal/cli"
	"vagen/internal/testkit"
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

// prints is succeed for a command line whose output must contain a text.
func prints(t *testing.T, want string, args ...string) {
	t.Helper()
	require.Contains(t, succeed(t, args...), want)
}

// decoded runs a command line that must succeed and print JSON.
func decoded[T any](t *testing.T, args ...string) (out T) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(succeed(t, args...)), &out))
	return out
}

// play is succeed for vagen play, with what is typed.
func play(t *testing.T, in string, args ...string) string {
	t.Helper()
	code, out, errs := launchRun(t, in, append([]string{"play"}, args...)...)
	require.Equal(t, cli.OK, code, "%v: %s", args, errs)
	return out
}

// stopped runs a command line that must end with one of the exit codes and an error that contains a text. It returns
// the error.
func stopped(t *testing.T, codes []int, want string, args []string) string {
	t.Helper()
	code, out, errs := launchRun(t, "", args...)
	require.Contains(t, codes, code, "%v: %s", args, errs)
	require.Contains(t, errs, want, "%v", args)
	if code == cli.Usage {
		require.Empty(t, out)
	}
	return errs
}

// refuse is stopped for a command line that must be refused.
func refuse(t *testing.T, want string, args ...string) string {
	t.Helper()
	return stopped(t, []int{cli.Usage}, want, args)
}

// fail is stopped for a command line that must fail at its work.
func fail(t *testing.T, want string, args ...string) string {
	t.Helper()
	return stopped(t, []int{cli.Failed}, want, args)
}

// stops is stopped for a command line that may be refused or fail.
func stops(t *testing.T, want string, args ...string) string {
	t.Helper()
	return stopped(t, []int{cli.Usage, cli.Failed}, want, args)
}

// TestPathsThatCannotBeReadAreUsageErrors of all commands.
func TestPathsThatCannotBeReadAreUsageErrors(t *testing.T) {
	dir := t.TempDir()
	loop, file := filepath.Join(dir, "loop.yaml"), testkit.Write(t, filepath.Join(dir, "file"), "")
	require.NoError(t, os.Symlink(loop, loop))
	folder := filepath.Join(dir, "folder.yaml")
	require.NoError(t, os.Mkdir(folder, 0o755))
	for _, path := range []string{filepath.Join(dir, "none.yaml"), folder, loop, filepath.Join(file, "x.yaml"),
		filepath.Join(dir, strings.Repeat("x", 5000)+".yaml")} {
		for _, command := range []string{
			"dataset show", "dataset build --force " + filepath.Join(dir, "o.parquet"), "config check", "config show",
			"train", "sft", "eval", "judge eval", "replay --step 1", "verify", "bisect " + path, "credit --step 1",
			"report", "view", "generate --backend go --prompt x --model", "generate --prompt x --model m --image",
			"bench --backend go --mode decode --model",
		} {
			args := append(strings.Fields(command), path)
			if strings.HasPrefix(command, "dataset build") {
				args[3], args[4] = path, args[3]
			}
			refuse(t, "", args...)
		}
	}
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
	b := decoded[buildinfo.Info](t, "version", "--json")
	require.NotEmpty(t, b.Go)
}

// equalFiles compares two files that are too long to be shown.
func equalFiles(t *testing.T, want, got string) {
	t.Helper()
	require.True(t, bytes.Equal(testkit.Read(t, want), testkit.Read(t, got)), "%s differs from %s", got, want)
}
