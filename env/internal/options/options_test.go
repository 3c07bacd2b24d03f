package options

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/reward"
)

func TestFaultsAreReportedAtOnceInTheOrderFound(t *testing.T) {
	f := Check("pond")
	require.NoError(t, f.Err())
	f.OneOf("mode", "txt", "text", "vision")
	f.OneOf("mode", "text", "text", "vision")
	Within(f, "size", 1, 2, 64)
	Within(f, "size", 64, 2, 64)
	Within(f, "share", math.NaN(), 0.5, 1)
	f.Positive("steps", 0)
	f.Positive("steps", 1)
	f.Finite("reward", math.Inf(-1))
	f.Finite("reward", -1)
	f.ActionSep("")
	f.ActionSep(",")
	f.ImagePlaceholder("<img>")
	f.ImagePlaceholder(env.ImageMark)
	f.StateReward(true, "lite", "wm")
	f.StateReward(true, "next", "answer")
	f.StateReward(true, "next", "wm_think")
	f.StateReward(true, "legacy", "free_think")
	f.StateReward(false, "lite", "answer")
	require.ErrorIs(t, f.Err(), env.ErrOption)
	require.EqualError(t, f.Err(), `pond: option "mode": bad option: "txt" is not one of text, vision, did you mean "text"?
pond: option "size": bad option: 1 is outside 2..64
pond: option "share": bad option: NaN is outside 0.5..1
pond: option "steps": bad option: 0 is below 1
pond: option "reward": bad option: -Inf is not finite
pond: option "action_sep": bad option: empty, must be a non-empty text
pond: option "image_placeholder": bad option: "<img>", must be "<image>"
pond: option "use_state_reward": bad option: the lite rules have no judged state reward
pond: option "use_state_reward": bad option: the format "answer" contains no statements about the state; use wm
pond: option "use_state_reward": bad option: the format "free_think" contains no statements about the state; use grounding, worldmodeling or grounding_worldmodeling`)
}

type rules string

type settings struct {
	Rules rules `option:"rules"`
	Size  int   `option:"size"`
}

func defaults(r rules) settings {
	if r == "legacy" {
		return settings{Rules: r, Size: 8}
	}
	return settings{Rules: "lite", Size: 4}
}

func TestReadStartsFromTheDefaultsOfTheRuleSet(t *testing.T) {
	for _, c := range []struct {
		config map[string]any
		want   settings
	}{
		{nil, settings{"lite", 4}},
		{map[string]any{"size": 5}, settings{"lite", 5}},
		{map[string]any{"rules": "legacy"}, settings{"legacy", 8}},
		{map[string]any{"rules": "unknown"}, settings{"unknown", 4}},
	} {
		got, err := Read("pond", c.config, defaults)
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
	_, err := Read("pond", map[string]any{"rules": 3}, defaults)
	require.ErrorIs(t, err, env.ErrOption)
	require.ErrorContains(t, err, `pond: option "rules"`)
}

func TestFormatsAreThoseOfTheRuleSet(t *testing.T) {
	require.Equal(t, reward.Formats(reward.LiteNavigation), Formats("lite", reward.LiteNavigation, "_symbolic"))
	require.Equal(t, reward.Formats(reward.Next), Formats("next", reward.Lite))
	require.Nil(t, Formats("unknown", reward.Lite))
	all, some := Formats("legacy", reward.Lite), Formats("legacy", reward.Lite, "_symbolic", "_structured")
	require.Contains(t, all, "grounding_symbolic")
	require.NotContains(t, all, "raw_response")
	require.Contains(t, some, "grounding")
	require.NotContains(t, some, "grounding_symbolic")
	require.NotContains(t, some, "worldmodeling_structured")
}
