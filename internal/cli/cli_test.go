package cli

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"vagen/internal/signals"

	"github.com/stretchr/testify/require"
)

// echo is a command that writes its flag and its arguments.
func echo() *Command {
	return &Command{
		Name: "echo", Args: "WORD …", About: "Write words.", Min: 1, Max: 3,
		Setup: func(f *flag.FlagSet) Run {
			mark := f.String("mark", "!", "`text` to end with")
			var tags StringList
			f.Var(&tags, "tag", "`word` in front; may be given again")
			f.Int("n", 0, "times; default that of the words")
			return func(_ context.Context, c *Call) error {
				c.Log.Info("echoing")
				_, err := fmt.Fprintln(c.Out, tags, strings.Join(c.Args, "+")+*mark)
				return err
			}
		},
	}
}

func failing(err error) *Command {
	return &Command{Name: "fail", About: "Fail.", Max: 1, Setup: func(*flag.FlagSet) Run {
		return func(context.Context, *Call) error { return err }
	}}
}

func call(ctx context.Context, err error, args ...string) (code int, stdout, stderr string) {
	root := &Command{Name: "prog", About: "A program.", Commands: []*Command{
		{Name: "words", About: "About words.", Help: "More of it.", Commands: []*Command{echo()}}, failing(err),
	}}
	var out, errs bytes.Buffer
	code = Main(ctx, root, Streams{Out: &out, Err: &errs}, args)
	return code, out.String(), errs.String()
}

func TestFlagsMayBeAnywhere(t *testing.T) {
	for _, args := range [][]string{
		{"--mark", "?", "--tag", "x", "a", "b"}, {"a", "--mark=?", "b", "--tag=x"}, {"a", "b", "-tag", "x", "-mark", "?"},
	} {
		code, out, errs := call(t.Context(), nil, append([]string{"words", "echo"}, args...)...)
		require.Equal(t, OK, code, errs)
		require.Equal(t, "[x] a+b?\n", out)
		require.Contains(t, errs, "echoing")
	}
}

func TestErrorsNameTheProgramOnce(t *testing.T) {
	for _, text := range []string{"no such step", "prog: no such step"} {
		code, _, errs := call(t.Context(), errors.New(text), "fail")
		require.Equal(t, Failed, code)
		require.Equal(t, "prog: no such step\n", errs)
	}
}

// TestForeignTextDoesNotControlTheTerminal: errors have paths and answers of services, and
// logs have values.
func TestForeignTextDoesNotControlTheTerminal(t *testing.T) {
	code, _, errs := call(t.Context(), errors.New("open \x1b[2J\u009b1m\r.yaml: no such file"), "fail")
	require.Equal(t, Failed, code)
	require.Equal(t, `prog: open \x1b[2J\u009b1m\x0d.yaml: no such file`+"\n", errs)
	code, _, errs = call(t.Context(), nil, "words", "\x1b[2J")
	require.Equal(t, Usage, code)
	require.NotContains(t, errs, "\x1b")

	root := &Command{Name: "prog", Setup: func(*flag.FlagSet) Run {
		return func(_ context.Context, c *Call) error {
			c.Log.With("\x1b[1m", 1).Warn("\x1b[2J", "path", "\x1b[3J", "err", errors.New("\x1b[4J"))
			fmt.Fprint(c.Err, "\x1b[5J")
			return nil
		}
	}}
	var out, log bytes.Buffer
	require.Equal(t, OK, Main(t.Context(), root, Streams{Out: &out, Err: &log}, nil))
	require.Equal(t, 5, strings.Count(log.String(), `\x1b[`), log.String())
	require.NotContains(t, log.String(), "\x1b")

	code, piped, _ := call(t.Context(), nil, "words", "echo", "\x1b[2J")
	require.Equal(t, OK, code)
	require.Contains(t, piped, "\x1b[2J", "what is piped keeps its bytes")
}

func TestTwoDashesEndTheFlags(t *testing.T) {
	for _, args := range [][]string{{"--", "--mark", "-h"}, {"--mark", "!", "--", "--mark", "-h"}} {
		_, out, _ := call(t.Context(), nil, append([]string{"words", "echo"}, args...)...)
		require.Equal(t, "[] --mark+-h!\n", out)
	}
	_, out, _ := call(t.Context(), nil, "words", "echo", "a", "--", "--mark")
	require.Equal(t, "[] a+--mark!\n", out)
}

func TestLogLevelSilencesLogs(t *testing.T) {
	_, out, errs := call(t.Context(), nil, "words", "echo", "a", "--log", "error")
	require.Equal(t, "[] a!\n", out)
	require.Empty(t, errs)
}

func TestMistakesOnTheCommandLineAreUsageErrors(t *testing.T) {
	for want, args := range map[string][]string{
		"prog needs a command":                             {},
		`did you mean "words"?`:                            {"word"},
		`prog words has no command "ecko"`:                 {"words", "ecko"},
		"unknown flag --marc, did you mean --mark?":        {"words", "echo", "a", "--marc", "b"},
		"prog words echo [flags] WORD …":                   {"words", "echo"},
		"found 4 arguments":                                {"words", "echo", "a", "b", "c", "d"},
		"flag needs an argument: -mark":                    {"words", "echo", "a", "--mark"},
		`invalid value "loud" for flag -log`:               {"words", "echo", "a", "--log", "loud"},
		`prog has no command "nothing"; known commands: w`: {"help", "nothing"},
	} {
		code, out, errs := call(t.Context(), nil, args...)
		require.Equal(t, Usage, code, args)
		require.Empty(t, out, args)
		require.Contains(t, errs, want)
	}
}

func TestHelpGoesToTheOutput(t *testing.T) {
	for _, args := range [][]string{{"words", "-h"}, {"help", "words"}} {
		code, out, errs := call(t.Context(), nil, args...)
		require.Equal(t, OK, code)
		require.Empty(t, errs)
		require.Equal(t, "prog words COMMAND …\n\nAbout words.\n\nMore of it.\n\nCommands:\n  echo  Write words.\n\nprog words COMMAND --help explains a command.\n", out)
	}
	_, out, _ := call(t.Context(), nil, "words", "echo", "a", "--help")
	require.Contains(t, out, "  --mark text  text to end with (default !)\n")
	require.Contains(t, out, "  --tag word   word in front; may be given again\n")
	require.Contains(t, out, "  --n int      times; default that of the words\n", "the value of the flag says something else")
}

func TestErrorsBecomeExitCodes(t *testing.T) {
	code, _, errs := call(t.Context(), errors.New("broken"), "fail")
	require.Equal(t, Failed, code)
	require.Equal(t, "prog: broken\n", errs)

	code, _, errs = call(t.Context(), fmt.Errorf("around: %w", Usagef("wrong %w", context.Canceled)), "fail")
	require.Equal(t, Usage, code)
	require.Equal(t, "prog: around: wrong context canceled\n", errs)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	code, _, errs = call(ctx, context.Canceled, "fail")
	require.Equal(t, Interrupted, code)
	require.Equal(t, "prog: interrupted\n", errs)

	ctx, why := context.WithCancelCause(t.Context())
	why(signals.Signal(syscall.SIGTERM))
	code, _, _ = call(ctx, context.Canceled, "fail")
	require.Equal(t, 143, code)
	code, _, errs = call(ctx, fmt.Errorf("env: %w", context.Cause(ctx)), "fail")
	require.Equal(t, 143, code, "errors may wrap the cause instead of context.Canceled")
	require.Equal(t, "prog: interrupted\n", errs)
	code, _, errs = call(ctx, errors.New("broken"), "fail")
	require.Equal(t, Failed, code, "an interruption must not hide a failure")
	require.Equal(t, "prog: broken\n", errs)
}

func TestOptionsReadYAMLValues(t *testing.T) {
	o, err := Options([]string{"size=8", "mode=text", "state.reward=0.5", "seeds=[1, 2]", "url=http://h:1/?a=b"})
	require.NoError(t, err)
	require.Equal(t, map[string]any{
		"size": uint64(8), "mode": "text", "state": map[string]any{"reward": 0.5}, "seeds": []any{uint64(1), uint64(2)},
		"url": "http://h:1/?a=b",
	}, o)
	for _, bad := range []string{"size", "=1", "a.=1", "a=[", "a=1 b=2: {"} {
		_, err := Options([]string{bad})
		require.ErrorIs(t, err, ErrUsage, bad)
	}
	o, err = Options(nil)
	require.NoError(t, err)
	require.Empty(t, o)
}

func TestOutputIsAlignedOrJSON(t *testing.T) {
	var out bytes.Buffer
	c := Call{Streams: Streams{Out: &out}}
	require.NoError(t, c.Table([][]string{{"a", "b"}, {"long", "c"}}))
	require.NoError(t, c.JSON(map[string]string{"tag": "<think>"}))
	require.Equal(t, "a     b\nlong  c\n{\n  \"tag\": \"<think>\"\n}\n", out.String())
}
