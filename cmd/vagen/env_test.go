package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/builtin"
	"vagen/env/remote"
	"vagen/internal/cli"
	"vagen/reward"
	"vagen/reward/judge"
)

func TestEnvironmentsAreListed(t *testing.T) {
	text := succeed(t, "env", "list")
	all := decoded[[]described](t, "env", "list", "--json")
	require.Len(t, all, len(builtin.Kinds())+1) // and agent
	for _, d := range all {
		require.Contains(t, text, d.Name)
		require.Contains(t, text, d.About)
	}
}

func TestEnvironmentsAreShownWithTheirOptions(t *testing.T) {
	require.Regexp(t, `(?s)Options:.*\n  size +7\n.*System prompt:\n.*lake`,
		succeed(t, "env", "show", "frozenlake", "size=7"))
	d := decoded[described](t, "env", "show", "sokoban", "rules=legacy", "--json")
	require.Equal(t, 0.5, d.Options["format_reward"], "the default of the legacy rules")
	require.Contains(t, d.Prompt, "<answer>")
	require.Regexp(t, `\n  prompts +\{"format":"\{form\}"\}\n`,
		succeed(t, "env", "show", "frozenlake", "prompts={format: '{form}'}"))
	require.Regexp(t, `\n  rules +lite\n`, succeed(t, "env", "show", "frozenlake"))
	require.Regexp(t, `(?s)\n  capacity_wait +600\n.*\n  success +metadata`, succeed(t, "env", "show", "openenv"))
	require.Regexp(t, `(?s)^agent: programs.*\n  constraints +count\n.*\n  reward_timeout +60`,
		succeed(t, "env", "show", "agent", "constraints=count"))
	refuse(t, `did you mean "command"?`, "env", "show", "agent", "comand=[a]")
	for _, k := range builtin.Kinds() {
		if k.Defaults != nil {
			require.NotContains(t, succeed(t, "env", "show", k.Name), "map[", k.Name)
		}
	}
}

func TestNamesAndOptionsThatDoNotExistAreRefused(t *testing.T) {
	for _, cmd := range [][]string{{"env", "show"}, {"env", "check"}, {"play"}} {
		refuse(t, `did you mean "sokoban"?`, append(cmd, "sokobun")...)
		refuse(t, `did you mean "dim_room"?`, append(cmd, "sokoban", "dim_rom=[6, 6]")...)
		refuse(t, "key=value", append(cmd, "sokoban", "dim_room")...)
	}
	refuse(t, "--seeds is 0, --turns 12 and", "env", "check", "sokoban", "--seeds", "0")
	refuse(t, `did you mean "agent"? (known: agent, blackjack`, "env", "show", "agnt")
	for _, cmd := range [][]string{{"env", "check", "agent"}, {"play", "agent"}, {"serve", "--env", "agent"}} {
		refuse(t, "a program plays it", cmd...)
	}
}

func TestCheckFindsNoProblemsInBuiltinEnvironments(t *testing.T) {
	require.Regexp(t, `^blackjack: 0 problems in \d+ calls`,
		succeed(t, "env", "check", "blackjack", "render_mode=text", "--seeds", "1"))
	var r checked
	out := succeed(t, "env", "check", "frozenlake", "--seeds", "1", "--response", "<think>a</think><answer>Up</answer>",
		"--json")
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	require.Equal(t, "frozenlake", r.Env)
	require.Positive(t, r.Turns)
	require.Empty(t, r.Problems)
}

func TestProblemsOfACheckAreAFailure(t *testing.T) {
	code, out, errs := runCommand(t, func(_ context.Context, c *cli.Call) error {
		c.Args = []string{"mine"}
		return printReport(c, env.Report{Calls: 2, Problems: []env.Problem{{Rule: "marks", Turn: -1, Detail: "none"}}})
	})
	require.Equal(t, cli.Failed, code)
	require.Contains(t, out, "marks: none\nmine: 1 problems in 2 calls")
	require.Contains(t, errs, "mine violates the contract")
}

func TestAnEpisodeIsPlayedToItsEnd(t *testing.T) {
	out := play(t, "\nright\n<think>by hand</think><answer>up,up</answer>\n", "frozenlake",
		"desc=[FFFG, FFFF, FFFF, FFSF]", "render_mode=text", "--turns", "2")
	require.Contains(t, out, "Moves are Left, Down, Right and Up", "an empty line shows the prompt")
	require.Contains(t, out, `actions ["right"], reward 0.02 (format 0.02)`)
	require.Contains(t, out, `actions ["up" "up"]`)
	require.Contains(t, out, "The limit of 2 turns is reached")

	out = play(t, "right,up,up,up\n", "frozenlake", "desc=[FFFG, FFFF, FFFF, FFSF]", "render_mode=text")
	require.Contains(t, out, "The episode ended (solved) after 1 turns")
	require.Contains(t, play(t, "", "frozenlake", "render_mode=text"), "The input ended after 0 turns")
}

func TestPlayShowsOrWritesImages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pictures")
	out := play(t, "right\n", "frozenlake", "render_mode=vision", "--images", dir)
	for _, name := range []string{"001.png", "002.png"} {
		require.Contains(t, out, "["+filepath.Join(dir, name)+"]")
		require.FileExists(t, filepath.Join(dir, name))
	}
	require.Contains(t, play(t, "", "frozenlake", "render_mode=vision", "--inline", "kitty"), "\x1b_Gf=100,a=T")
	refuse(t, `--inline is "ascii"`, "play", "frozenlake", "--inline", "ascii")
	refuse(t, "must contain {}", "play", "frozenlake", "--wrap", "x")
	refuse(t, "must not be negative", "play", "frozenlake", "--turns", "-1")
}

// hostile is an environment that fails, and sends control characters to the terminal.
type hostile struct{ env.Env }

func (hostile) Reset(context.Context, int64) (env.Observation, error) {
	return env.Observation{Text: "a\x1b[2Jb\n"}, nil
}

func (hostile) Step(_ context.Context, response string) (env.Outcome, error) {
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
			p := player{c: c, env: hostile{}, wrap: wrap, style: thinkAndAnswer, lines: lines}
			return p.play(ctx)
		})
	}
	code, out, _ := play("x", "[{}]")
	require.Equal(t, cli.OK, code)
	require.Contains(t, out, `a\x1b[2Jb`+"\n", "control characters are escaped")
	require.Contains(t, out, "The episode ended (lost) after 1 turns. Total reward: 1.")
	code, _, errs := play("x", "")
	require.Equal(t, cli.Failed, code)
	require.Contains(t, errs, "broken by <think>-</think><answer>x</answer>")
	_, _, errs = play("<a>x</a>", "")
	require.Contains(t, errs, "broken by <a>x</a>")
}

// prompted is an environment with the given prompt and observation, which may show its
// response format.
type prompted struct {
	env.Env
	system, first string
}

func (p prompted) System(context.Context) (env.Observation, error) {
	return env.Observation{Text: p.system}, nil
}

func (p prompted) Reset(context.Context, int64) (env.Observation, error) {
	return env.Observation{Text: p.first}, nil
}

func TestFormatsOfServicesAreFoundInPromptOrObservation(t *testing.T) {
	const (
		free  = "<think>-</think><answer>x</answer>"
		world = "<observation>-</observation><think>-</think><answer>x</answer><prediction>-</prediction>"
		inner = "<think><observation>-</observation><reasoning>-</reasoning></think><answer>x</answer>"
		next  = "<perception>-</perception><reasoning>-</reasoning><prediction>-</prediction><answer>x</answer>"
	)
	for _, c := range []struct{ system, first, format, want string }{
		{"Say <think>why</think> <answer>what</answer>", "", "", free},
		{"Nothing", "Say <observation>o</observation>\n<think>t</think>\n<answer>a</answer>\n<prediction>p</prediction>.", "",
			world},
		{"<think><observation>..</observation><reasoning>..</reasoning></think><answer>Up</answer>", "", "", inner},
		{"<perception> </perception><reasoning> </reasoning><prediction> </prediction><answer> </answer>", "", "", next},
		{"only <action>go</action> counts", "", "", "<action>x</action>"},
		{"no tags at all", "none", "", free},
		{"<think></think><answer></answer>", "", "next:wm", next},
		{"<think></think><answer></answer>", "", "grounding", inner},
	} {
		s, err := styleOf(t.Context(), prompted{system: c.system, first: c.first}, c.format, 0)
		require.NoError(t, err)
		require.Equal(t, c.want, s("x"), c.system)
	}
	refuse(t, `did you mean "wm"?`, "play", "frozenlake", "--format", "wmm")
	refuse(t, `dialect is "future", must be one of`, "env", "check", "frozenlake", "--format", "future:wm")
}

// TestServicesAreShownCheckedAndPlayed like environments of the library: the response
// format is taken from the service's prompt.
func TestServicesAreShownCheckedAndPlayed(t *testing.T) {
	o := remote.DefaultServerOptions()
	r := builtin.Registry()
	o.Lite = func(config map[string]any) (env.Env, error) { return r.New("sokoban", config) }
	s, err := remote.NewServer(o)
	require.NoError(t, err)
	web := httptest.NewServer(s)
	defer func() {
		web.Close()
		require.NoError(t, s.Close(t.Context()))
	}()
	at := "base_urls=" + web.URL
	prints(t, "<observation>…</observation><think>…</think><answer>…</answer><prediction>…</prediction>", "env", "show",
		"remote", at)
	require.Regexp(t, `^remote: 0 problems`, succeed(t, "env", "check", "remote", at, "--seeds", "1", "--turns", "3"))
	require.Contains(t, play(t, "down\n", "remote", at, "--turns", "1"), `actions ["down"]`)
}

func TestStateRewardOptionsReachTheJudge(t *testing.T) {
	const block = "state_reward={state_estimation: {enable: true, reward: 0.5}, scorer: exact, score_base: 0}"
	say := "<perception>The target is below and right of the player, the hole is below in the same column.</perception>" +
		"<reasoning>r</reasoning><prediction>p</prediction><answer>Right</answer>\n"
	out := play(t, say, "frozenlake", "desc=[SF, HG]", "prompt_format=wm", block, "--turns", "1")
	require.Contains(t, out, "observation 0.5")
	refuse(t, `did you mean "scorer"?`, "env", "show", "frozenlake", "state_reward={scorrer: exact}")
	shown := succeed(t, "env", "show", "frozenlake")
	keys := judge.DefaultStateReward()
	tree := keys.Tree()
	for name := range tree["judge"].(map[string]any) {
		tree["judge."+name] = nil
	}
	delete(tree, "judge")
	for name := range tree {
		require.Contains(t, shown, "\n  "+name+" ", "the reference explains every key")
	}

	asked := make(chan string, 1)
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path
		_, _ = io.WriteString(w, `{"choices":[{"message":{"role":"assistant","content":"[{\"object_id\": \"target\", \"vertical_relation\": \"below\", \"horizontal_relation\": \"right\"}]"},"finish_reason":"stop"}]}`)
	}))
	defer model.Close()
	out = play(t, say, "frozenlake", "desc=[SF, HG]", "prompt_format=wm", "--turns", "1",
		"state_reward={state_estimation: {enable: true, reward: 0.5}, score_base: 0, judge_model: m, judge_base_url: '"+
			model.URL+"/v1'}")
	require.Contains(t, out, "observation 0.35")
	require.Equal(t, "/v1/chat/completions", <-asked)
}
