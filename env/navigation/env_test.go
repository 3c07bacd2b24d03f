package navigation

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/internal/envtest"
	"vagen/env/internal/rays"
	"vagen/internal/testkit"
	"vagen/reward"
)

// hall is an empty room of 6 by 6 metres with a mug on the floor 3 m north of the
// start and a wall of boxes 1 m east of it.
type hall struct{}

func (hall) Len() int { return 3 }

func (hall) At(i int) (Task, *Scene, error) {
	s := newScene("hall", "living room", rays.V(-3, 0, -3), rays.V(3, 0, 3), rand.New(rand.NewPCG(1, 1)))
	s.addObject(kinds["Mug"], rays.V(0, 0.07, 2), 0, "red")
	for z := -2.5; z < 2.5; z += 0.5 {
		s.addObject(kinds["Safe"], rays.V(1.225, 0.25, z), 0, "gray")
	}
	return Task{TargetType: "Mug", Target: Position{X: 0, Y: 0.07, Z: 2}, Scene: "hall",
		Instruction: fmt.Sprintf("Go to mug %d.", i),
		Start:       Pose{Position: Position{X: 0, Y: 0.9, Z: -1}, Rotation: float64(90 * i)}}, s, nil
}

func start(t *testing.T, rules env.Rules, change func(*Options)) *Env {
	t.Helper()
	o := DefaultOptions(rules)
	o.RenderMode = env.Text
	if rules == env.Legacy {
		o.PromptFormat = "free_think"
	}
	if change != nil {
		change(&o)
	}
	return envtest.Started(t, func(o Options) (*Env, error) { return NewFrom(o, hall{}) }, o, 0)
}

var play = envtest.Play

func act(rules env.Rules, actions string) string {
	if rules == env.Lite {
		return "<think>so</think><action>" + actions + "</action>"
	}
	return "<think>so</think><answer>" + actions + "</answer>"
}

func TestLitePaysEachTurnsFormatAndTheTarget(t *testing.T) {
	e := start(t, env.Lite, func(o *Options) { o.FormatReward = 0.25 })
	out := play(t, e, act(env.Lite, "Move_Forward | turn_left | turn_right"))
	require.Equal(t, reward.Parts{{Name: partFormat, Value: 0.01}}, out.Reward)
	require.Equal(t, env.Metrics{"action_is_valid": 1, "action_is_effective": 1, "distance": 2.7, "env_step": 3,
		"task_success":        0,
		"last_action_success": 1, "format_correct": 1}, near(out.Turn))
	require.Equal(t, env.Metrics{"success": 0, "is_format_correct": 1}, out.Trajectory)
	require.False(t, out.Done)

	out = play(t, e, act(env.Lite, "move_forward|move_forward|move_forward|move_forward|move_forward|look_up"))
	require.Len(t, out.Response.Actions, 5)
	require.False(t, out.Done)
	require.InDelta(t, 1.2, out.Turn["distance"], 1e-9)
	out = play(t, e, act(env.Lite, "move_forward|look_down"))
	require.Equal(t, reward.Parts{{Name: partFormat, Value: 0.01}, {Name: partSuccess, Value: 1},
		{Name: partAllFormats, Value: 0.25}}, out.Reward)
	require.True(t, out.Done && out.Success)
	require.Equal(t, 8.0, out.Turn["env_step"], "the successful action isn't counted")
	require.Contains(t, out.Observation.Text, "['move_forward']")
	require.Contains(t, out.Observation.Text, "you are there")
}

// near ignores the rounding errors of sums of steps.
func near(m env.Metrics) env.Metrics {
	for k, v := range m {
		m[k] = roundCents(v)
	}
	return m
}

func TestLiteForfeitsTheFormatBonusWithOneBadTurn(t *testing.T) {
	e := start(t, env.Lite, func(o *Options) { o.FormatReward, o.SuccessThreshold = 0.25, 2 })
	out := play(t, e, "move_forward")
	require.Empty(t, out.Reward)
	require.Equal(t, env.Metrics{"success": 0, "is_format_correct": 0}, out.Trajectory)
	require.Zero(t, out.Turn["action_is_effective"], "actions run only in the right format")
	out = play(t, e, act(env.Lite, "move_forward|move_forward|move_forward|move_forward"))
	require.Equal(t, reward.Parts{{Name: partFormat, Value: 0.01}, {Name: partSuccess, Value: 1}}, out.Reward)
	require.Equal(t, env.Metrics{"success": 1, "is_format_correct": 0}, out.Trajectory)
}

func TestLegacyPaysOnlyTurnsWhoseActionsAreAllKnown(t *testing.T) {
	e := start(t, env.Legacy, nil)
	out := play(t, e, act(env.Legacy, "MoveAhead,rotateleft"))
	require.Equal(t, reward.Parts{{Name: partFormat, Value: 0.5}}, out.Reward)
	require.Contains(t, out.Observation.Text, "['MoveAhead', 'rotateleft']")
	require.NotContains(t, out.Turn, "format_correct")
	out = play(t, e, act(env.Legacy, "rotateright,moveahead,jump,moveahead"))
	require.Empty(t, out.Reward)
	require.Equal(t, 0.0, out.Turn["action_is_valid"])
	require.Equal(t, 1.0, out.Turn["action_is_effective"], "the actions before the unknown word were executed")
	require.Equal(t, 4.0, out.Turn["env_step"])
	out = play(t, e, "so <think>x</think><answer>moveahead</answer>")
	require.Empty(t, out.Reward)
	require.Zero(t, out.Turn["action_is_valid"], "a response has no actions unless all of it has the format")
	out = play(t, e, act(env.Legacy, "moveahead"))
	require.Equal(t, reward.Parts{{Name: partSuccess, Value: 10}, {Name: partFormat, Value: 0.5}}, out.Reward)
	require.True(t, out.Done)
	require.Equal(t, 10.5, play(t, e, act(env.Legacy, "rotateleft")).Reward.Sum(),
		"the reward is paid again, as in the original")
}

func TestEpisodesEndWithTheirActions(t *testing.T) {
	for _, rules := range []env.Rules{env.Lite, env.Legacy, env.Next} {
		w := actionWords[rules]
		e := start(t, rules, func(o *Options) { o.MaxSteps = 3 })
		out := play(t, e, act(rules, w[TurnLeft]+e.o.ActionSep+w[TurnLeft]))
		require.False(t, out.Done)
		out = play(t, e, act(rules, w[TurnLeft]+e.o.ActionSep+w[TurnLeft]))
		require.True(t, out.Done)
		require.False(t, out.Success)
		require.Equal(t, Heading(1), e.Agent().Look, "the action beyond the limit was not executed")
	}
}

func TestBlockedMovesChangeNothing(t *testing.T) {
	e := start(t, env.Lite, nil)
	out := play(t, e, act(env.Lite, "move_right|move_right"))
	require.Equal(t, 1.0, out.Turn["last_action_success"])
	x, _ := e.Agent().Position()
	require.InDelta(t, 0.6, x, 1e-9)
	out = play(t, e, act(env.Lite, "move_right"))
	require.Equal(t, env.Metrics{"action_is_valid": 1, "action_is_effective": 0, "distance": 3.06, "env_step": 3,
		"task_success":        0,
		"last_action_success": 0, "format_correct": 1}, near(out.Turn))
	require.Contains(t, out.Observation.Text, "failed")
	out = play(t, e, act(env.Lite, "look_up|look_up"))
	require.Zero(t, out.Turn["last_action_success"], "the view tilts up by 30 degrees at most")
	out = play(t, e, act(env.Lite, "look_down|look_down|look_down|look_down"))
	require.Zero(t, out.Turn["last_action_success"])
	require.Equal(t, 60, e.Agent().Horizon)
	require.Zero(t, out.Turn["action_is_effective"])
}

// After any actions the agent is on free floor, and the reverse moves lead back.
func TestMovesKeepToTheFloor(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 12 {
		_, s, err := generatedSet{style: "base", split: evaluation}.At(i)
		require.NoError(t, err)
		task, _, _ := generatedSet{style: "base", split: evaluation}.At(i)
		for _, step := range []float64{0.3, 0.5, 0.25} {
			a := newAgent(task.Start, step)
			for range 300 {
				m := Action(r.IntN(int(Actions)))
				next, ok := a.Do(s, m)
				x, z := next.Position()
				require.True(t, s.Free(x, z))
				if back, reverse := map[Action]Action{MoveAhead: MoveBack, MoveBack: MoveAhead, MoveLeft: MoveRight,
					MoveRight: MoveLeft,
					TurnLeft:  TurnRight, TurnRight: TurnLeft, LookUp: LookDown, LookDown: LookUp}[m], ok; reverse {
					home, ok := next.Do(s, back)
					require.True(t, ok)
					require.Equal(t, a, home)
				} else {
					require.Equal(t, a, next)
				}
				a = next
			}
		}
	}
}

func TestStateSaysWhereThingsAre(t *testing.T) {
	e := start(t, env.Legacy, nil)
	s := e.viewState()
	require.Equal(t, "Mug", s.TargetType)
	require.Equal(t, 3.0, s.Distance)
	require.Equal(t, toAhead, s.Direction)
	require.Len(t, s.Visible, 5)
	last := 0.0
	for _, v := range s.Visible {
		require.GreaterOrEqual(t, v.Distance, last, "nearest first")
		last = v.Distance
	}
	require.Contains(t, s.Visible, visibleObject{"Safe", toRight, 1.58})
	for _, c := range []struct{ turns, want string }{{"rotateleft", toRight}, {"rotateleft", toBack},
		{"rotateleft", toLeft}, {"rotateleft", toAhead}} {
		play(t, e, act(env.Legacy, c.turns))
		require.Equal(t, c.want, e.viewState().Direction)
	}
	play(t, e, act(env.Legacy, "rotateleft"))
	require.Empty(t, e.viewState().Visible, "a wall has nothing to see")
	fields := testkit.JSON[map[string]any](t, s.json())
	require.Equal(t, "Mug", fields["target_obj_type"])
	require.Equal(t, 3.0, fields["target_distance_to_player"])
	require.Equal(t, "ahead", fields["target_direction_to_player"])
	require.Equal(t, []string{"direction_to_player", "distance_to_player", "type"},
		slices.Sorted(maps.Keys(fields["visible_objects"].([]any)[0].(map[string]any))))
	require.Equal(t, reward.Relate("target", -1, 0), s.relations()[0])
	require.Equal(t, reward.Relate("Safe", 0, 1), relate("Safe", toRight))
	require.Equal(t, reward.Relate("Safe", 1, 0), relate("Safe", toBack))
	require.Equal(t, reward.Relate("Safe", 0, -1), relate("Safe", toLeft))
}

func TestDirectionsTurnAtTheirBorders(t *testing.T) {
	a := newAgent(Pose{}, 1)
	for _, c := range []struct {
		x, z float64
		want string
	}{{1, 1, toAhead}, {-1, 1, toAhead}, {1.01, 1, toRight}, {-1.01, 1, toLeft}, {1, -0.99, toRight}, {1, -1.01, toBack},
		{-1, -0.99, toLeft}, {0, -1, toBack}, {0, 0, toAhead}} {
		require.Equal(t, c.want, a.direction(c.x, c.z), "%v", c)
	}
}

func TestClaimsComeWithTheStateBeforeAndAfter(t *testing.T) {
	e := start(t, env.Legacy, func(o *Options) { o.UseStateReward, o.PromptFormat = true, "grounding_worldmodeling" })
	say := func(answer string) string {
		return "<think><observation>o</observation><reasoning>r</reasoning><prediction>p</prediction></think><answer>" +
			answer + "</answer>"
	}
	out := play(t, e, say("moveahead"))
	require.Len(t, out.Claims, 2)
	require.Equal(t, "o", out.Claims[0].Text)
	require.Equal(t, "navigation", out.Claims[1].Env)
	require.Equal(t, 0.5, out.Claims[1].Weight)
	require.Contains(t, out.Claims[0].State, `"target_distance_to_player":3,`)
	require.Contains(t, out.Claims[1].State, `"target_distance_to_player":2.5,`)
	out = play(t, e, say("jump"))
	require.Empty(t, out.Claims)
	require.Equal(t, 0.0, out.Turn["grounding_reward"])
	require.Equal(t, 0.0, out.Turn["worldmodeling_reward"])
}

func TestObservationsSayWhatTheOriginalsDo(t *testing.T) {
	for _, rules := range []env.Rules{env.Lite, env.Legacy, env.Next} {
		e := start(t, rules, func(o *Options) { o.RenderMode = env.Vision })
		first := envtest.Reset(t, e, 2)
		require.Contains(t, first.Text, "Go to mug 2.")
		system := envtest.System(t, e)
		for _, word := range actionWords[rules] {
			require.Contains(t, system.Text, word)
		}
		require.Contains(t, first.Text, "Answer in this form")
		require.Equal(t, Heading(2), e.Agent().Look)
		require.Equal(t, 255, first.Images[0].Bounds().Dx())
		again := play(t, e, "")
		require.Equal(t, rules == env.Legacy, strings.Contains(again.Observation.Text, "Answer in this form"),
			"under the lite rules the prompt has it once")
		require.Equal(t, rules == env.Legacy, strings.Contains(again.Observation.Text, "Go to mug 2."))
		require.Equal(t, first.Images, again.Observation.Images)
	}
	text := start(t, env.Lite, nil)
	o := envtest.Reset(t, text, 0)
	require.Empty(t, o.Images)
	require.Contains(t, o.Text, "safe right 1.58 m")
	require.Contains(t, o.Text, "A step is free: ahead back right left")
	require.Contains(t, play(t, text, act(env.Lite, "move_right|move_right|turn_left")).Observation.Text,
		"A step is free: ahead right left\n")
}

func TestBadOptionsAreNamed(t *testing.T) {
	envtest.Refused(t, FromConfig)
	_, err := FromConfig(map[string]any{"rules": "legacy", "env_name": "navigation", "gpu_device": 0, "multiview": false,
		"max_action_penalty": -0.1})
	require.NoError(t, err)
	_, err = NewFrom(DefaultOptions(env.Lite), nil)
	require.ErrorIs(t, err, ErrTask)
}
