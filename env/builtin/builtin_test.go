package builtin

import (
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/internal/envtest"
	"vagen/reward"
	"vagen/reward/judge"
)

// Responses in several formats, some of which are valid in each environment.
var responses = []string{
	"<think>a</think><answer>Down,Right</answer>",
	"<perception>the box is above</perception><reasoning>r</reasoning><prediction>p</prediction><answer>Right</answer>",
	"<observation>o</observation><think>t</think><answer>Left</answer><prediction>p</prediction>",
	"<think><observation>o</observation><reasoning>r</reasoning><prediction>p</prediction></think><answer>Up</answer>",
	"<think>b</think><answer>Up,Right</answer>",
	"<think><observation>o</observation><reasoning>r</reasoning><prediction>p</prediction></think><answer>Hit</answer>",
	"<think>c</think><action>move_forward|turn_left</action>",
	"<think><observation>o</observation><reasoning>r</reasoning><prediction>p</prediction></think><answer>moveahead,lookdown</answer>",
	"<observation>o</observation><think>t</think><answer>push(-100,0,20,100,0,20)</answer><prediction>p</prediction>",
	"<observation>o</observation><think>t</think><answer>pick(0,0,20)|place(0,0,20)</answer><prediction>p</prediction>",
	`<think>d</think><answer><svg viewBox="0 0 9 9"><circle cx="4" cy="4" r="3"/></svg></answer>`,
}

// Configurations with which each environment is checked; pictures are small where every
// turn draws a new one.
var (
	twoModes = []map[string]any{nil, {"render_mode": "text"}, {"render_mode": "vision"}}
	twoRules = append(twoModes[:3:3], envtest.Options("rules: legacy"),
		envtest.Options("rules: legacy, render_mode: text"),
		envtest.Options("rules: next"), map[string]any{"state_reward": block(nil), "prompt_format": "wm"})
	small = []map[string]any{{"resolution": 64}, {"render_mode": "text"}, {"rules": "legacy", "resolution": 64},
		{"rules": "legacy", "render_mode": "text"},
		{"state_reward": block(nil), "resolution": 64, "prompt_format": "wm"}, {"rules": "next", "render_mode": "text"}}

	configs = map[string][]map[string]any{
		"blackjack": twoModes, "frozenlake": twoRules, "sokoban": twoRules,
		"navigation": append(small[:6:6],
			envtest.Options("eval_set: long_horizon_train, render_mode: text, down_sample_ratio: 0.1")),
		"primitive_skill": append(small[:6:6], envtest.Options("env_id: PlaceTwoCube, render_mode: text"),
			envtest.Options("env_id: StackThreeCube, render_mode: text, mask_success: false"),
			envtest.Options("env_id: PutAppleInDrawer, render_mode: text")),
		"svg": {nil, {"rules": "service"}, {"structural_weight": 1, "perceptual_weight": 1}},
	}
)

func TestBuiltinEnvironmentsKeepTheContract(t *testing.T) {
	r := Registry()
	require.NotEmpty(t, r.Names())
	for _, name := range r.Names() {
		if strings.HasPrefix(name, "remote") || name == "openenv" {
			continue // they need a service; package remote checks its clients
		}
		require.NotEmpty(t, configs[name], name)
		for _, config := range configs[name] {
			report, err := env.Check(t.Context(), func(config map[string]any) (env.Env, error) { return r.New(name, config) },
				env.CheckOptions{Config: config, Responses: responses})
			require.NoError(t, err, "%s %v", name, config)
			require.NoError(t, report.Err(), "%s %v", name, config)
		}
	}
}

func TestStateRewardsTrainOutOfTheBox(t *testing.T) {
	r := Registry()
	say := func(observation, answer string) string {
		return "<think><observation>" + observation + "</observation><reasoning>r</reasoning></think><answer>" + answer +
			"</answer>"
	}
	e, err := r.New("frozenlake", envtest.Options(
		"rules: legacy, render_mode: text, desc: [SF, HG], use_state_reward: true, prompt_format: grounding"))
	require.NoError(t, err)
	envtest.Reset(t, e, 0)
	out := envtest.Play(t, e,
		say("The goal is below and right of the player, the hole is below and in the same column.", "Right"))
	require.Equal(t, 0.5, out.Turn["grounding_reward"])
	require.Equal(t, 0.5, out.Reward.Of("observation"))
	for _, name := range []string{"sokoban", "navigation", "primitive_skill", "blackjack"} {
		config := envtest.Options("use_state_reward: true, prompt_format: grounding, render_mode: text")
		if name != "blackjack" {
			config["rules"] = "legacy"
		}
		e, err := r.New(name, config)
		require.NoError(t, err, name)
		_, ok := e.(env.Judged)
		require.True(t, ok, name)
	}
}

// The legacy system compares relations of Sokoban exactly: half a description is worth
// less than with the score of other environments, 0.5·F1 of each kind of object.
func TestSokobanHasTheLegacyScoreByDefault(t *testing.T) {
	pay := func(config map[string]any, observation string) float64 {
		maps.Copy(config, envtest.Options(`rules: legacy, render_mode: text, prompt_format: grounding,
			desc: ['######', '#P___#', '#_X__#', '#__O_#', '######']`))
		e, err := Registry().New("sokoban", config)
		require.NoError(t, err)
		return paidFor(t, e, 0, "Right", observation)[0]
	}
	const both, half = "The box is below and to the right. The target is below and to the right.",
		"The box is below and to the right. The target is below and to the left."
	require.Equal(t, 0.5, pay(envtest.Options("use_state_reward: true"), both))
	require.Equal(t, 0.25, pay(envtest.Options("use_state_reward: true"), half),
		"a target with one wrong direction counts 0")
	rules := map[string]any{"state_reward": block(envtest.Options("scorer: rules"))}
	require.Equal(t, 0.375, pay(rules, half), "and half with the score of blocks")
}

// The description of each environment is correct: it accepts the listed rules, and the
// listed defaults are its own.
func TestKindsAreDescribed(t *testing.T) {
	for _, k := range Kinds() {
		require.NotEmpty(t, k.About, k.Name)
		if k.Defaults == nil {
			continue
		}
		for _, rules := range append([]string{""}, k.Rules...) {
			config := map[string]any{}
			if rules != "" {
				config["rules"] = rules
			} else if k.Rules != nil {
				rules = k.Rules[0]
			}
			values := env.OptionValues(k.Defaults(rules))
			require.NotEmpty(t, values, k.Name)
			if config["rules"] == nil && k.Rules != nil {
				require.EqualValues(t, rules, values["rules"], k.Name)
			}
			_, err := k.Make(config)
			require.NoError(t, err, "%s %v", k.Name, config)
		}
	}
}

func TestRemoteEnvironmentsNeedAService(t *testing.T) {
	for _, name := range []string{"remote", "remote_legacy"} {
		_, err := Registry().New(name, envtest.Options("env_name: frozenlake"))
		require.ErrorContains(t, err, "base_url", name)
	}
}

// The judge by rules reads the examples in the prompts.
func TestExamplesOfPromptsAreReadByTheJudge(t *testing.T) {
	for _, c := range []struct {
		name   string
		config map[string]any
		want   []reward.Relation
	}{
		{"frozenlake", envtest.Options("rules: legacy, prompt_format: grounding"), []reward.Relation{
			{Object: "target", Vertical: reward.Below, Horizontal: reward.Right},
			{Object: "hole", Vertical: reward.Same, Horizontal: reward.Right}}},
		{"sokoban", envtest.Options("rules: next"), []reward.Relation{
			{Object: "target", Vertical: reward.Below, Horizontal: reward.Right},
			{Object: "box", Vertical: reward.Below, Horizontal: reward.Right}}},
	} {
		c.config["use_state_reward"] = true
		e, err := Registry().New(c.name, c.config)
		require.NoError(t, err)
		o := envtest.System(t, e)
		_, example, _ := strings.Cut(o.Text, "For example:\n")
		r := env.ParserOf(e).Parse(example)
		require.True(t, r.FormatCorrect, example)
		claim := reward.Claim{Env: c.name, Text: r.Sections[reward.SectionObservation], Truth: c.want}
		read, err := (&judge.Rules{Literal: true}).Read(t.Context(), []reward.Claim{claim})
		require.NoError(t, err)
		require.Equal(t, c.want, read[0].Relations)
		require.Contains(t, o.Text, "in the same column, as seen from you")
	}
}
