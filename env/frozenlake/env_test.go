package frozenlake

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/internal/envtest"
	"vagen/env/internal/options"
	"vagen/reward"
)

// lake has its goal three moves away: right, down, right, or down, right, right.
var lake = []string{"SFH", "FFG", "FFF"}

func start(t *testing.T, change func(*Options)) *Env {
	t.Helper()
	o := DefaultOptions(env.Lite)
	o.Desc = lake
	change(&o)
	return envtest.Started(t, New, o, 0)
}

var play = envtest.Play

// tiny is the setting of the small training examples.
func tiny(o *Options) {
	o.RenderMode, o.Prompt, o.PromptFormat, o.MaxActions = env.Vision, options.Brief, reward.ObservePredict, 2
	o.FormatReward, o.ObservationReward, o.PredictionReward = 0.05, 0.05, 0.05
	o.HolePenalty, o.TurnCost, o.DescribeHoles = 0.5, 0.1, true
}

func TestBriefPromptKeepsRowsShort(t *testing.T) {
	e := start(t, tiny)
	system := envtest.System(t, e)
	require.Equal(t, env.Observation{Text: "Reach the goal avoid holes."}, system)
	first := envtest.Reset(t, e, 0)
	require.Equal(t, "<image>Turn 1", first.Text)
	require.Equal(t, 84, first.Images[0].Bounds().Dx())
	require.Equal(t, "<image>Turn 2", play(t, e, "").Observation.Text)
	again := envtest.Reset(t, e, 0)
	require.Equal(t, "<image>Turn 1", again.Text)
}

func TestTrueTextsEarnTheirWholeReward(t *testing.T) {
	e := start(t, tiny)
	require.Equal(t, "goal down right free none Down Right none", e.Describe())
	out := play(t, e, "<think><observation>goal down right free none Down Right none</observation>"+
		"<prediction>goal same right</prediction></think><answer>Right,Down</answer>")
	require.Equal(t, reward.Parts{{Name: "format", Value: 0.05}, {Name: "observation", Value: 0.05},
		{Name: "prediction", Value: 0.05}, {Name: "turn", Value: -0.1}}, out.Reward)
	require.Equal(t, 1.0, out.Turn["observation_score"])
	require.False(t, out.Done)

	// On the second turn, one of eight words of the observation and one of three
	// of the prediction are wrong.
	out = play(t, e, "<think><observation>goal same right free Left Down Right hole</observation>"+
		"<prediction>goal up same</prediction></think><answer>Right</answer>")
	require.InDelta(t, 0.05*7/8, out.Reward.Of("observation"), 1e-12)
	require.InDelta(t, 0.05*2/3, out.Reward.Of("prediction"), 1e-12)
	require.Equal(t, 1.0, out.Reward.Of("success"))
	require.True(t, out.Done && out.Success)
}

func TestStateIsPaidOnlyWithACorrectFormat(t *testing.T) {
	for name, response := range map[string]string{
		"text before":    "so <think><observation>goal down right free none Down Right none</observation><prediction>goal same right</prediction></think><answer>Right,Down</answer>",
		"no observation": "<think><prediction>goal same right</prediction></think><answer>Right,Down</answer>",
		"answer only":    "<answer>Right,Down</answer>",
	} {
		out := play(t, start(t, tiny), response)
		require.Equal(t, reward.Parts{{Name: "turn", Value: -0.1}}, out.Reward, name)
		require.Equal(t, []string{"Right", "Down"}, title(out.Response.Actions),
			"%s: moves are executed whatever text surrounds them", name)
		require.Equal(t, 1.0, out.Turn["action_is_effective"], name)
	}
	out := play(t, start(t, tiny),
		"<think><observation>goal down right free none Down Right none</observation><prediction>goal down right</prediction></think><answer>jump</answer>")
	require.Equal(t, reward.Parts{{Name: "turn", Value: -0.1}}, out.Reward, "no known move")
}

func title(words []string) []string {
	var out []string
	for _, w := range words {
		out = append(out, strings.ToUpper(w[:1])+w[1:])
	}
	return out
}

func TestProgressSumsToTheDistanceCovered(t *testing.T) {
	e := start(t, func(o *Options) { tiny(o); o.ProgressReward, o.MaxActions = 0.25, 5 })
	begin, sum := e.Map().Distance(e.Player()), 0.0
	for _, move := range []string{"Left", "Up", "Right,Down", "Left", "Down,Right", "Up"} {
		sum += play(t, e, "<answer>"+move+"</answer>").Reward.Of("progress")
		require.GreaterOrEqual(t, e.Map().Distance(e.Player()), 0, "after %s", move)
	}
	require.Equal(t, 0.25*float64(begin-e.Map().Distance(e.Player())), sum)
	require.NotZero(t, sum)

	e = start(t, func(o *Options) { tiny(o); o.ProgressReward = 0.25 })
	require.Zero(t, play(t, e, "<answer>Right,Right</answer>").Reward.Of("progress"), "a fall")
}

func TestFallingCostsOnce(t *testing.T) {
	e := start(t, tiny)
	out := play(t, e, "<answer>Right,Right</answer>")
	require.Equal(t, reward.Parts{{Name: "hole", Value: -0.5}, {Name: "turn", Value: -0.1}}, out.Reward)
	require.True(t, out.Done)
	require.False(t, out.Success)
	require.Equal(t, reward.Parts{{Name: "turn", Value: -0.1}}, play(t, e, "<answer>Left</answer>").Reward)
}

func TestMapSeedKeepsOneMap(t *testing.T) {
	seed := int64(5)
	o := DefaultOptions(env.Legacy)
	o.RenderMode, o.MapSeed = env.Text, &seed
	e, err := New(o)
	require.NoError(t, err)
	want, err := Generate(env.Legacy, seed, 4, 0.8)
	require.NoError(t, err)
	for reset := range int64(3) {
		envtest.Reset(t, e, reset)
		require.Equal(t, want.Rows(), e.Map().Rows())
	}
}

func TestSeveralStartsAreChosenBySeed(t *testing.T) {
	o := DefaultOptions(env.Lite)
	o.Desc = []string{"SFS", "FGF", "SFS"}
	e, err := New(o)
	require.NoError(t, err)
	seen := map[Cell]int{}
	for seed := range int64(64) {
		envtest.Reset(t, e, seed)
		seen[e.Player()]++
	}
	require.Len(t, seen, 4)
}

func TestSlipsFollowFromTheSeed(t *testing.T) {
	o := DefaultOptions(env.Lite)
	o.SlipProb, o.P, o.Size = 0.5, 1, 8
	walk := func(seed int64) string {
		e := envtest.Started(t, New, o, seed)
		for range 5 {
			play(t, e, "<think></think><answer>up,left,down</answer>")
		}
		return fmt.Sprint(e.Player())
	}
	differ := 0
	for seed := range int64(16) {
		require.Equal(t, walk(seed), walk(seed))
		if walk(seed) != walk(seed+100) {
			differ++
		}
	}
	require.Positive(t, differ)
}

func TestBadOptionsAreNamed(t *testing.T) {
	envtest.Refused(t, FromConfig)
}

func TestUnsolvableLevelsAreRefused(t *testing.T) {
	_, err := Generate(env.Lite, 1, 65, 0.8)
	require.ErrorIs(t, err, ErrLevel)
	_, err = Generate(env.Lite, -1, 4, 0.8)
	require.ErrorIs(t, err, ErrLevel)
	_, err = start(t, tiny).Reset(t.Context(), -1)
	require.ErrorIs(t, err, ErrLevel)
	require.ErrorIs(t, err, env.ErrSeed)
	_, err = Generate(env.Lite, 1, 4, -0.1)
	require.ErrorIs(t, err, ErrLevel)
	m, err := Generate(env.Lite, 1, 3, 0) // start and goal side by side among holes
	require.NoError(t, err)
	require.Equal(t, 1, m.Distance(m.Start()))
}
