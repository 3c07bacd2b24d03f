package sokoban

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/internal/envtest"
	"vagen/reward"
)

func wm(answer string) string {
	return "<perception>The box is right.</perception><reasoning>r</reasoning><prediction>p</prediction><answer>" +
		answer + "</answer>"
}

func nextRoom(t *testing.T, change func(*Options)) func(string) env.Outcome {
	t.Helper()
	o := DefaultOptions(env.Next)
	o.Desc = []string{"######", "#P_XO#", "######"}
	change(&o)
	e := envtest.Started(t, New, o, 0)
	return func(text string) env.Outcome { return play(t, e, text) }
}

func TestNextLetsMalformedTurnsDoNothing(t *testing.T) {
	for name, text := range map[string]string{
		"older tags":       "<observation>o</observation><think>t</think><answer>Right</answer><prediction>p</prediction>",
		"answer alone":     "<answer>Right</answer>",
		"too many actions": wm("Left,Left,Left,Right"),
	} {
		step := nextRoom(t, func(*Options) {})
		out := step(text)
		require.False(t, out.Response.FormatCorrect, name)
		require.Zero(t, out.Turn["action_is_effective"], name)
		require.Empty(t, out.Reward, name)
		// Without strict format the actions run, and the format is not paid for.
		step = nextRoom(t, func(o *Options) { o.StrictFormat = false })
		if out = step(text); name != "too many actions" {
			require.Equal(t, 1.0, out.Turn["action_is_effective"], name)
		}
		require.Empty(t, out.Reward, name)
	}
}

func TestNextPaysSuccessOnce(t *testing.T) {
	step := nextRoom(t, func(*Options) {})
	out := step(wm("Right,Right"))
	require.True(t, out.Done)
	require.Equal(t, reward.Parts{{Name: partSuccess, Value: 1}, {Name: partFormat, Value: 0.1}}, out.Reward)
	out = step(wm("Left"))
	require.Equal(t, reward.Parts{{Name: partFormat, Value: 0.1}}, out.Reward)
}

func TestNextAttachesClaimsOfPerceptions(t *testing.T) {
	step := nextRoom(t, func(o *Options) { o.UseStateReward = true })
	out := step(wm("Right"))
	require.Len(t, out.Claims, 2)
	require.Equal(t, "The box is right.", out.Claims[0].Text)
	require.Equal(t, 0.006, out.Claims[0].Weight)
	require.Contains(t, out.Claims[0].Truth, reward.Relate("box", 0, 2))
	require.Contains(t, out.Claims[1].Truth, reward.Relate("box", 0, 1))
}

func TestNextRefusesWhatBelongsToOthers(t *testing.T) {
	o := DefaultOptions(env.Next)
	o.UseStateReward, o.PromptFormat = true, "free_think"
	_, err := New(o)
	require.ErrorContains(t, err, "no statements about the state")
	o = DefaultOptions(env.Lite)
	o.StrictFormat = true
	_, err = New(o)
	require.ErrorContains(t, err, `"strict_format"`)
	_, err = FromConfig(map[string]any{"rules": "nxt"})
	require.ErrorContains(t, err, `did you mean "next"`)
}
