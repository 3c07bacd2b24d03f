package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/builtin"
	"vagen/internal/cli"
	"vagen/reward"
)

func TestEnvironmentsAreListed(t *testing.T) {
	text := succeed(t, "env", "list")
	var all []described
	require.NoError(t, json.Unmarshal([]byte(succeed(t, "env", "list", "--json")), &all))
	require.Len(t, all, len(builtin.Kinds()))
	for _, d := range all {
		require.Contains(t, text, d.Name)
		require.Contains(t, text, d.About)
	}
}

func TestEnvironmentsAreShownWithTheirOptions(t *testing.T) {
	require.Regexp(t, `(?s)Options:.*\n  size +7\n.*System prompt:\n.*lake`, succeed(t, "env", "show", "frozenlake", "size=7"))
	var d described
	require.NoError(t, json.Unmarshal([]byte(succeed(t, "env", "show", "sokoban", "rules=legacy", "--json")), &d))
	require.Equal(t, 0.5, d.Options["format_reward"], "the default of the legacy rules")
	require.Contains(t, d.Prompt, "<answer>")
}

func TestNamesAndOptionsThatDoNotExistAreRefused(t *testing.T) {
	for _, cmd := range [][]string{{"env", "show"}, {"env", "check"}, {"play"}} {
		require.Contains(t, refuse(t, append(cmd, "sokobun")...), `did you mean "sokoban"?`)
		require.Contains(t, refuse(t, append(cmd, "sokoban", "dim_rom=[6, 6]")...), `did you mean "dim_room"?`)
		require.Contains(t, refuse(t, append(cmd, "sokoban", "dim_room")...), "key=value")
	}
	require.Contains(t, refuse(t, "env", "check", "sokoban", "--seeds", "0"), "must be positive")
}

func TestCheckFindsTheBuiltinOnesSound(t *testing.T) {
	require.Regexp(t, `^blackjack: 0 problems in \d+ calls`, succeed(t, "env", "check", "blackjack", "render_mode=text", "--seeds", "1"))
	var r checked
	out := succeed(t, "env", "check", "frozenlake", "--seeds", "1", "--response", "<think>a</think><answer>Up</answer>", "--json")
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	require.Equal(t, "frozenlake", r.Env)
	require.Positive(t, r.Turns)
	require.Empty(t, r.Problems)
}

func TestProblemsOfACheckAreAFailure(t *testing.T) {
	code, out, errs := runCommand(t, func(_ context.Context, c *cli.Call) error {
		c.Args = []string{"mine"}
		return tell(c, env.Report{Calls: 2, Problems: []env.Problem{{Rule: "marks", Turn: -1, Detail: "none"}}}, false)
	})
	require.Equal(t, cli.Failed, code)
	require.Contains(t, out, "marks: none\nmine: 1 problems in 2 calls")
	require.Contains(t, errs, "mine breaks the contract")
}

func TestPlayingAnEpisodeToItsEnd(t *testing.T) {
	code, out, errs := run(t, "\nright\n<think>by hand</think><answer>up,up</answer>\n", "play", "frozenlake", "desc=[FFFG, FFFF, FFFF, FFSF]", "render_mode=text", "--turns", "2")
	require.Equal(t, cli.OK, code, errs)
	require.Contains(t, out, "Moves are Left, Down, Right and Up", "an empty line shows the prompt")
	require.Contains(t, out, `actions ["right"], reward 0.02 (format 0.02)`)
	require.Contains(t, out, `actions ["up" "up"]`)
	require.Contains(t, out, "The limit of 2 turns is reached")

	_, out, _ = run(t, "right,up,up,up\n", "play", "frozenlake", "desc=[FFFG, FFFF, FFFF, FFSF]", "render_mode=text")
	require.Contains(t, out, "The episode is over, solved, after 1 turns")
	_, out, _ = run(t, "", "play", "frozenlake", "render_mode=text")
	require.Contains(t, out, "The game was left after 0 turns")
}

func TestPicturesOfAGameBecomeFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pictures")
	code, out, errs := run(t, "right\n", "play", "frozenlake", "render_mode=vision", "--images", dir)
	require.Equal(t, cli.OK, code, errs)
	for _, name := range []string{"001.png", "002.png"} {
		require.Contains(t, out, "["+filepath.Join(dir, name)+"]")
		_, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
	}
	_, out, _ = run(t, "", "play", "frozenlake", "render_mode=vision", "--inline", "kitty")
	require.Contains(t, out, "\x1b_Gf=100,a=T")
	require.Contains(t, refuse(t, "play", "frozenlake", "--inline", "ascii"), `--inline is "ascii"`)
	require.Contains(t, refuse(t, "play", "frozenlake", "--wrap", "x"), "needs {}")
	require.Contains(t, refuse(t, "play", "frozenlake", "--turns", "-1"), "must not be negative")
}

// mute is an environment that fails, and tries to take over the terminal.
type mute struct{ env.Env }

func (mute) Reset(context.Context, int64) (env.Observation, error) {
	return env.Observation{Text: "a\x1b[2Jb\n"}, nil
}

func (mute) Step(_ context.Context, response string) (env.Outcome, error) {
	if response == "[x]" {
		return env.Outcome{Done: true, Reward: reward.Parts{{Name: "r", Value: 1}}}, nil
	}
	return env.Outcome{}, errors.New("broken by " + response)
}

func TestAnswersAreWrapped(t *testing.T) {
	play := func(line, wrap string) (int, string, string) {
		return runCommand(t, func(ctx context.Context, c *cli.Call) error {
			lines := make(chan string, 1)
			lines <- line
			p := player{c: c, env: mute{}, wrap: wrap, lines: lines}
			return p.play(ctx)
		})
	}
	code, out, _ := play("x", "[{}]")
	require.Equal(t, cli.OK, code)
	require.Contains(t, out, "a[2Jb\n", "control characters are dropped")
	require.Contains(t, out, "The episode is over, lost, after 1 turns with a reward of 1.")
	code, _, errs := play("x", "")
	require.Equal(t, cli.Failed, code)
	require.Contains(t, errs, "broken by <think>-</think><answer>x</answer>")
	_, _, errs = play("<a>x</a>", "")
	require.Contains(t, errs, "broken by <a>x</a>")
}
