package options

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/internal/testkit"
	"vagen/reward"
)

func TestCommonOptionsAreCheckedWithTheNameOfTheEnvironment(t *testing.T) {
	o := Level{Ruled: Ruled{Rules: "lait",
		Response: Response{RenderMode: "txt", PromptFormat: "wm", ImagePlaceholder: "<img>"}}, TileSize: 200,
		Described: Described{Prompt: "short"}, StrictFormat: true}
	c := Check("pond", &o)
	CheckLevel(c, &o)
	CheckEnvName(c, "pool", "pond")
	require.ErrorIs(t, c.Err(), env.ErrOption)
	require.EqualError(t, c.Err(), `pond: option "rules": bad option: "lait", must be one of ["lite" "legacy" "next"], did you mean "lite"?
pond: option "render_mode": bad option: "txt", must be one of ["text" "vision"], did you mean "text"?
pond: option "max_actions_per_step": bad option: 0, must be positive
pond: option "prompt": bad option: "short", must be one of ["full" "brief"]
pond: option "tile_size": bad option: 200, must be in [14, 128]
pond: option "action_sep": bad option: empty, must be a non-empty text
pond: option "image_placeholder": bad option: "<img>", must be "<image>"
pond: option "strict_format": bad option: true, but the lait rules have no such option; next have
pond: option "env_name": bad option: "pool", must be one of ["pond"], did you mean "pond"?`)
}

func TestStateRewardNeedsAFormatThatMakesStatements(t *testing.T) {
	for _, k := range []struct {
		on     bool
		rules  env.Rules
		format string
		want   string // "" for no error
	}{
		{true, env.Lite, "wm", "the lite rules have no judged state reward"},
		{true, env.Lite, reward.ObservePredict, "the lite rules have no judged state reward"},
		{true, env.Next, "answer", `the format "answer" contains no statements about the state; use wm`},
		{true, env.Next, "wm_think", ""},
		{true, env.Legacy, "free_think",
			`the format "free_think" contains no statements about the state; use grounding, worldmodeling, grounding_worldmodeling`},
		{true, env.Legacy, reward.ObservePredict, ""},
		{false, env.Lite, "answer", ""},
	} {
		c := Check("pond")
		CheckStateReward(c, &StateReward{UseStateReward: k.on}, k.rules, &Response{PromptFormat: k.format})
		if k.want == "" {
			require.NoError(t, c.Err())
		} else {
			require.EqualError(t, c.Err(), `pond: option "use_state_reward": bad option: true, but `+k.want)
		}
	}
}

func TestStatementsArePaidInFormatsThatHaveThem(t *testing.T) {
	for _, k := range []struct {
		rules  env.Rules
		format string
		own    []string // sections
		want   string   // "" for no error
	}{
		{env.Lite, "free_think", nil, `pond: option "observation_reward": bad option: 1, but the format "free_think" ` +
			"has no section observation; its sections are think, answer"},
		{env.Lite, "wm", nil, ""},
		{env.Next, "free_wm", nil, ""},
		{env.Legacy, "grounding", nil, ""},
		{env.Legacy, "worldmodeling", nil, `the format "worldmodeling" has no section observation`},
		{env.Lite, reward.ObservePredict, nil, ""},
		{env.Lite, "mine", []string{"observation", "answer"}, ""},
	} {
		o := DefaultLevel(k.rules)
		o.PromptFormat, o.FormatSections, o.ObservationReward = k.format, k.own, 1
		c := Check("pond")
		CheckDescribed(c, &o.Described, &o.Ruled, reward.Lite)
		if k.want == "" {
			require.NoError(t, c.Err())
		} else {
			require.ErrorContains(t, c.Err(), k.want)
		}
	}
}

type pond struct {
	env.Env
	o Level
}

func dig(o Level) (pond, error) { return pond{o: o}, nil }

func TestMakeStartsFromTheDefaultsOfTheRuleSet(t *testing.T) {
	for rules, want := range map[any]env.Rules{nil: env.Lite, "legacy": env.Legacy, "next": env.Next} {
		e, err := Make("pond", map[string]any{"rules": rules, "tile_size": 20}, DefaultLevel, dig)
		require.NoError(t, err)
		o := DefaultLevel(want)
		o.TileSize = 20
		require.Equal(t, o, e.(pond).o)
	}
	_, err := Make("pond", map[string]any{"rules": 3}, DefaultLevel, dig)
	testkit.Error(t, err, env.ErrOption, `pond: option "rules"`)
}

func TestUnreadOptionsAreRefusedUnlessTheyAreTheDefaults(t *testing.T) {
	type options struct {
		Ruled
		Old int `option:"old" unread:"nothing reads it"`
		Any int `option:"any" noted:"it is accepted"`
	}
	o := options{Ruled: DefaultRuled(env.Legacy), Any: 3}
	c := Check("pond")
	Unread(c, o.Rules, o, options{Ruled: DefaultRuled(env.Legacy)})
	require.NoError(t, c.Err())
	o.Old, o.SuccessReward = 1, 2
	Unread(c, o.Rules, o, options{Ruled: DefaultRuled(env.Legacy)})
	require.EqualError(t, c.Err(), `pond: option "success_reward": bad option: 2, which has no effect under the legacy rules; leave it out, or choose the rules lite or next
pond: option "old": bad option: 1, which has no effect: nothing reads it; leave it out`)
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
