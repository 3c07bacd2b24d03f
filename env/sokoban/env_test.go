package sokoban

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/internal/options"
	"vagen/reward"
)

// alley is solved by Right, Right: the box is pushed along to the target.
var alley = []string{"######", "#PX_O#", "######"}

func start(t *testing.T, rules env.Rules, change func(*Options)) *Env {
	t.Helper()
	o := DefaultOptions(rules)
	o.Desc, o.RenderMode = alley, env.Text
	change(&o)
	e, err := New(o)
	require.NoError(t, err)
	_, err = e.Reset(t.Context(), 0)
	require.NoError(t, err)
	return e
}

func play(t *testing.T, e *Env, response string) env.Outcome {
	t.Helper()
	out, err := e.Step(t.Context(), response)
	require.NoError(t, err)
	return out
}

func answer(moves string) string { return "<answer>" + moves + "</answer>" }

func TestPushesFollowTheRules(t *testing.T) {
	for name, c := range map[string]struct {
		rows  []string
		moves []Action
		want  []string
	}{
		"walk":          {[]string{"#####", "#P_X#", "#__O#", "#####"}, []Action{Right, Down, Left}, []string{"#####", "#__X#", "#P_O#", "#####"}},
		"wall stops":    {[]string{"#####", "#P_X#", "#__O#", "#####"}, []Action{Up, Left}, []string{"#####", "#P_X#", "#__O#", "#####"}},
		"push":          {[]string{"#####", "#P_X#", "#__O#", "#####"}, []Action{Right, Right}, []string{"#####", "#_PX#", "#__O#", "#####"}},
		"onto target":   {alley, []Action{Right, Right}, []string{"######", "#__P√#", "######"}},
		"off target":    {[]string{"######", "#P√__#", "######"}, []Action{Right}, []string{"######", "#_SX_#", "######"}},
		"two boxes":     {[]string{"#######", "#PXX_O#", "#O____#", "#######"}, []Action{Right}, []string{"#######", "#PXX_O#", "#O____#", "#######"}},
		"over a target": {[]string{"######", "#PO_X#", "######"}, []Action{Right, Right, Right}, []string{"######", "#_OPX#", "######"}},
	} {
		r, err := Parse(c.rows)
		require.NoError(t, err, name)
		for _, a := range c.moves {
			r.Move(a)
		}
		require.Equal(t, c.want, r.Rows(), name)
	}
}

func TestEachRuleSetPaysItsOwnWay(t *testing.T) {
	e := start(t, env.Lite, func(o *Options) { o.PromptFormat, o.TurnCost = "free_think", 0.25 })
	out := play(t, e, "<think>a</think>"+answer("right"))
	require.Equal(t, reward.Parts{{Name: "format", Value: 0.1}, {Name: "turn", Value: -0.25}}, out.Reward)
	out = play(t, e, "<think>a</think>"+answer("RIGHT,up"))
	require.Equal(t, reward.Parts{{Name: "success", Value: 1}, {Name: "format", Value: 0.1}, {Name: "turn", Value: -0.25}}, out.Reward)
	require.True(t, out.Done && out.Success)
	require.Equal(t, 1.0, out.Turn["action_is_valid"], "moves after the solution are ignored")

	e = start(t, env.Legacy, func(o *Options) { o.PromptFormat = "no_think" })
	out = play(t, e, answer("Right,Right"))
	require.Equal(t, reward.Parts{{Name: "move", Value: -0.2}, {Name: "box", Value: 1}, {Name: "success", Value: 10}, {Name: "format", Value: 0.5}}, out.Reward)
	out = play(t, start(t, env.Legacy, func(o *Options) { o.PromptFormat = "no_think" }), answer("Right,right"))
	require.Equal(t, reward.Parts{{Name: "move", Value: -0.1}}, out.Reward, "the legacy rules need the exact words")
}

func TestTrueTextsEarnTheirWholeReward(t *testing.T) {
	e := start(t, env.Lite, func(o *Options) {
		o.PromptFormat, o.Prompt, o.DescribeMoves = reward.ObservePredict, options.Brief, true
		o.ObservationReward, o.PredictionReward = 0.5, 0.25
	})
	require.Equal(t, "target same right box same right free wall wall wall Right", e.Describe())
	out := play(t, e, "<think><observation>"+e.Describe()+"</observation><prediction>target same right box same right</prediction></think>"+answer("Right"))
	require.Equal(t, reward.Parts{{Name: "format", Value: 0.1}, {Name: "observation", Value: 0.5}, {Name: "prediction", Value: 0.25}}, out.Reward)
	require.Equal(t, " #  #  #  #  #  # \n #  _  P  X  O  # \n #  #  #  #  #  # \nTurn 2", out.Observation.Text)
	e.room.Move(Right)
	e.room.Move(Left)
	require.Equal(t, "target same right box same right free wall wall Left Right", e.Describe())
	stuck, err := Parse([]string{"#####", "#O_X#", "#__P#", "#####"})
	require.NoError(t, err)
	require.Equal(t, "target up left box up same free stuck wall Left wall", stuck.describe(true))
}

func TestScriptsAreTrueAndWellFormed(t *testing.T) {
	for _, rules := range []env.Rules{env.Lite, env.Legacy, env.Next} {
		for _, format := range options.Formats(rules, reward.Lite) {
			o := DefaultOptions(rules)
			o.PromptFormat, o.RenderMode, o.DescribeMoves = format, env.Text, true
			o.ObservationReward, o.PredictionReward, o.FormatReward = 1, 1, 1
			e, err := New(o)
			require.NoError(t, err)
			r := rand.New(rand.NewPCG(1, 2))
			for seed := range int64(4) {
				_, err := e.Reset(t.Context(), seed)
				require.NoError(t, err)
				for range 4 {
					out := play(t, e, e.Script(r, Noisy(0.3, ShortestPath), 2))
					what := fmt.Sprintf("%s %s seed %d: %q", rules, format, seed, out.Response.Raw)
					require.True(t, out.Response.FormatCorrect, what)
					require.Equal(t, 1.0, out.Turn["action_is_valid"], what)
					for _, part := range []string{partObservation, partPrediction} {
						if strings.Contains(out.Response.Raw, "<"+part+">") {
							require.Equal(t, 1.0, out.Reward.Of(part), what)
						}
					}
				}
			}
		}
	}
}

func TestPromptsShowAnExampleThatTheirParserAccepts(t *testing.T) {
	for _, rules := range []env.Rules{env.Lite, env.Legacy, env.Next} {
		for _, format := range options.Formats(rules, reward.Lite) {
			for _, mode := range []string{env.Text, env.Vision} {
				e := start(t, rules, func(o *Options) { o.PromptFormat, o.RenderMode = format, mode })
				system, err := e.System(t.Context())
				require.NoError(t, err)
				_, example, found := strings.Cut(system.Text, "For example:\n")
				require.True(t, found)
				r := e.Parser().Parse(example)
				require.True(t, r.FormatCorrect, "%s %s: %s", rules, format, example)
				require.Len(t, r.Actions, 2)
				first, err := e.Reset(t.Context(), 3)
				require.NoError(t, err)
				require.Equal(t, mode == env.Vision, strings.Contains(first.Text, env.ImageMark))
				require.Equal(t, rules == env.Legacy, strings.Contains(first.Text, "Answer in this form"))
			}
		}
	}
}

func TestEverySeedGivesASolvableRoom(t *testing.T) {
	rate, err := SuccessRate(DefaultOptions(env.Lite), ShortestPath, 0, 60, 40, 3, 1)
	require.NoError(t, err)
	require.Equal(t, 1.0, rate)
	rate, err = SuccessRate(DefaultOptions(env.Legacy), Random, 0, 60, 1, 1, 1)
	require.NoError(t, err)
	require.Less(t, rate, 0.2)
}

func TestSolutionsAreShortestAndSolve(t *testing.T) {
	for seed := range int64(20) {
		o := DefaultOptions(env.Lite)
		o.Boxes, o.Room = 2, [2]int{7, 7}
		e, err := New(o)
		require.NoError(t, err)
		_, err = e.Reset(t.Context(), seed)
		require.NoError(t, err)
		moves, ok := e.room.Solve(200)
		require.True(t, ok, "seed %d", seed)
		room := e.Room()
		for _, a := range moves {
			require.True(t, room.Move(a), "a shortest solution has no unnecessary move")
		}
		require.Equal(t, room.count, room.OnTarget())
		_, ok = e.room.Solve(len(moves) - 1)
		require.False(t, ok, "seed %d", seed)
	}
	corner, err := Parse([]string{"#####", "#XPO#", "#####"})
	require.NoError(t, err)
	_, ok := corner.Solve(200)
	require.False(t, ok)
	done, err := Parse([]string{"#####", "#√P_#", "#####"})
	require.NoError(t, err)
	moves, ok := done.Solve(0)
	require.True(t, ok)
	require.Empty(t, moves)
}

func TestSolutionLengthIsHeldToItsRange(t *testing.T) {
	o := DefaultOptions(env.Lite)
	o.MinSolution = &[2]int{4, 6}
	e, err := New(o)
	require.NoError(t, err)
	for seed := range int64(10) {
		_, err := e.Reset(t.Context(), seed)
		require.NoError(t, err)
		moves, ok := e.room.Solve(200)
		require.True(t, ok)
		require.True(t, len(moves) >= 4 && len(moves) <= 6, "%d moves", len(moves))
	}
	o.MinSolution, o.MaxTries = &[2]int{190, 200}, 3
	e, err = New(o)
	require.NoError(t, err)
	_, err = e.Reset(t.Context(), 1)
	require.ErrorIs(t, err, ErrRoom)
	require.ErrorContains(t, err, "none of 3 seeds")
}

func TestRetryRulesAreMachineIndependent(t *testing.T) {
	require.Equal(t, int64(1013904223), RetryLCG.Next(0))
	require.Equal(t, int64(1664525+1013904223), RetryLCG.Next(1))
	require.Equal(t, int64(1013904223-1664525), RetryLCG.Next(1<<32-1))
}

func TestRoomsOfLegacyWanderTheirPlayer(t *testing.T) {
	differ := 0
	for seed := range int64(40) {
		a, err := Generate(env.Legacy, seed, 6, 6, 1)
		if err != nil {
			continue
		}
		b, err := Generate(env.Lite, seed, 6, 6, 1)
		if err == nil && a.player != b.player {
			differ++
		}
	}
	require.Positive(t, differ)
}

func TestBadOptionsAreNamed(t *testing.T) {
	for want, config := range map[string]map[string]any{
		`did you mean "num_boxes"?`:        {"num_box": 4},
		`"dim_room"`:                       {"dim_room": []any{2, 6}},
		`must be a list of 2`:              {"dim_room": []any{6}},
		`"num_boxes"`:                      {"num_boxes": 10},
		`"rules"`:                          {"rules": "liet"},
		`"retry"`:                          {"retry": "random"},
		`"render_mode"`:                    {"render_mode": "ascii"},
		`"prompt"`:                         {"prompt": "short"},
		`"grounding", must be one of`:      {"prompt_format": "grounding"},
		`"min_solution_steps"`:             {"min_solution_steps": []any{5, 1}},
		`the legacy rules accept`:          {"rules": "legacy", "min_solution_steps": []any{1, 5}},
		`"max_actions_per_step"`:           {"max_actions_per_step": 0},
		`"action_sep"`:                     {"action_sep": ""},
		`"tile_size"`:                      {"tile_size": 500},
		`"use_state_reward"`:               {"use_state_reward": true},
		`"image_placeholder"`:              {"image_placeholder": "[img]"},
		`row 1 column 0 is '_'`:            {"desc": []any{"###", "_P#", "###"}},
		`row 1, "#P", has 2 cells`:         {"desc": []any{"###", "#P", "###"}},
		`row 1 column 1 is '?'`:            {"desc": []any{"###", "#?#", "###"}},
		`1 players, 1 boxes and 0 targets`: {"desc": []any{"####", "#PX#", "####"}},
		`room has 2 rows`:                  {"desc": []any{"###", "###"}},
		`room has 2 columns`:               {"desc": []any{"##", "##", "##"}},
	} {
		_, err := FromConfig(config)
		require.ErrorContains(t, err, want, "%v", config)
	}
	for _, bad := range []func() (*Room, error){
		func() (*Room, error) { return Generate(env.Lite, 1, 33, 6, 1) },
		func() (*Room, error) { return Generate(env.Lite, 1, 6, 6, 0) },
		func() (*Room, error) { return Generate(env.Lite, -1, 6, 6, 1) },
	} {
		_, err := bad()
		require.ErrorIs(t, err, ErrRoom)
	}
}

func TestCallsOutOfOrderAreErrors(t *testing.T) {
	e, err := New(DefaultOptions(env.Lite))
	require.NoError(t, err)
	_, err = e.Step(t.Context(), "")
	require.ErrorIs(t, err, env.ErrNotReset)
	require.Nil(t, e.Room())
	require.Empty(t, e.Describe())
	require.Empty(t, e.Script(rand.New(rand.NewPCG(1, 1)), Random, 1))
	_, err = e.Reset(t.Context(), -1)
	require.ErrorIs(t, err, ErrRoom)
	cause := errors.New("time is up")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	_, err = e.Reset(ctx, 1)
	require.ErrorIs(t, err, cause)
	require.NoError(t, e.Close())
	_, err = e.Reset(t.Context(), 1)
	require.ErrorIs(t, err, env.ErrClosed)
}

func FuzzStep(f *testing.F) {
	f.Add("<think>a</think><answer>Up,Down</answer>", uint8(0))
	f.Add("<observation>o</observation><think>t</think><answer>right</answer><prediction>p</prediction>", uint8(6))
	f.Add("<answer>\xff,<image></answer>", uint8(7))
	f.Fuzz(func(t *testing.T, response string, pick uint8) {
		rules := []env.Rules{env.Lite, env.Legacy, env.Next}[pick%3]
		o := DefaultOptions(rules)
		formats := options.Formats(rules, reward.Lite)
		o.PromptFormat, o.RenderMode, o.ObservationReward, o.Desc = formats[int(pick/2)%len(formats)], env.Text, 1, alley
		e, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Reset(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		out, err := e.Step(t.Context(), response)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out.Observation.Text, env.ImageMark) || !utf8.ValidString(out.Observation.Text) {
			t.Errorf("the response got into the observation: %q", out.Observation.Text)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add(strings.Join(alley, "\n"))
	f.Add("###\n#S#\n###")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := Parse(strings.Split(text, "\n"))
		if err != nil {
			return
		}
		if got := strings.Join(r.Rows(), "\n"); got != text {
			t.Errorf("%q is read as %q", text, got)
		}
		for a := range Actions {
			r.Move(a)
			if r.Wall(r.player) || r.Box(r.player) {
				t.Errorf("%q: the player went to %v", text, r.player)
			}
		}
		newRenderer(14, true, true).draw(r)
	})
}
