package builtin

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/remote"
	"vagen/reward"
	"vagen/reward/judge"
)

// Responses in several formats, so that each environment finds some that act.
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
	`<think>d</think><answer><svg viewBox="0 0 9 9"><circle cx="4" cy="4" r="3"/></svg></answer>`,
}

// Configurations to check each environment in; small pictures where they are
// drawn anew each turn.
var (
	twoModes = []map[string]any{nil, {"render_mode": "text"}, {"render_mode": "vision"}}
	twoRules = append(twoModes[:3:3], map[string]any{"rules": "legacy"}, map[string]any{"rules": "legacy", "render_mode": "text"},
		map[string]any{"rules": "next"}, map[string]any{"state_reward": block(nil), "prompt_format": "wm"})
	small = []map[string]any{{"resolution": 64}, {"render_mode": "text"}, {"rules": "legacy", "resolution": 64}, {"rules": "legacy", "render_mode": "text"},
		{"state_reward": block(nil), "resolution": 64, "prompt_format": "wm"}, {"rules": "next", "render_mode": "text"}}

	configs = map[string][]map[string]any{
		"blackjack": twoModes, "frozenlake": twoRules, "sokoban": twoRules, "navigation": small, "primitive_skill": small,
		"svg": {nil, {"rules": "service"}},
	}
)

func TestBuiltinEnvironmentsKeepTheContract(t *testing.T) {
	r := Registry()
	require.NotEmpty(t, r.Names())
	for _, name := range r.Names() {
		if strings.HasPrefix(name, "remote") {
			continue // they need a service, see below
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
		return "<think><observation>" + observation + "</observation><reasoning>r</reasoning></think><answer>" + answer + "</answer>"
	}
	e, err := r.New("frozenlake", map[string]any{"rules": "legacy", "render_mode": "text", "desc": []any{"SF", "HG"},
		"use_state_reward": true, "prompt_format": "grounding"})
	require.NoError(t, err)
	_, err = e.Reset(t.Context(), 0)
	require.NoError(t, err)
	out, err := e.Step(t.Context(), say("The goal is below and right of the player, the hole is below and in the same column.", "Right"))
	require.NoError(t, err)
	require.Equal(t, 0.5, out.Turn["grounding_reward"])
	require.Equal(t, 0.5, out.Reward.Of("observation"))
	for _, name := range []string{"sokoban", "navigation", "primitive_skill", "blackjack"} {
		config := map[string]any{"use_state_reward": true, "prompt_format": "grounding", "render_mode": "text"}
		if name != "blackjack" {
			config["rules"] = "legacy"
		}
		e, err := r.New(name, config)
		require.NoError(t, err, name)
		_, ok := e.(env.Judged)
		require.True(t, ok, name)
	}
}

// What a kind says of itself is so: its rules are taken, and its defaults are those
// of the environment.
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
		_, err := Registry().New(name, map[string]any{"env_name": "frozenlake"})
		require.ErrorContains(t, err, "base_url", name)
	}
}

// A service that hosts one of the environments is itself one that keeps the
// contract, over either protocol.
func TestRemoteEnvironmentsKeepTheContract(t *testing.T) {
	r := Registry()
	o := remote.DefaultServerOptions()
	o.Lite = func(config map[string]any) (env.Env, error) { return r.New("frozenlake", config) }
	o.Legacy = r
	s, err := remote.NewServer(o)
	require.NoError(t, err)
	web := httptest.NewServer(s)
	defer func() {
		web.Close()
		require.NoError(t, s.Close(t.Context()))
	}()
	for name, config := range map[string]map[string]any{
		"remote":        {"base_urls": []any{web.URL}, "render_mode": "vision"},
		"remote_legacy": {"base_urls": []any{web.URL}, "env_name": "frozenlake"},
	} {
		report, err := env.Check(t.Context(), func(config map[string]any) (env.Env, error) { return r.New(name, config) },
			env.CheckOptions{Config: config, Responses: responses, Seeds: []int64{3}})
		require.NoError(t, err, name)
		require.NoError(t, report.Err(), name)
	}
}

// What the prompts show as an example is what the judge by rules reads.
func TestExamplesOfPromptsAreReadByTheJudge(t *testing.T) {
	for _, c := range []struct {
		name   string
		config map[string]any
		want   []reward.Relation
	}{
		{"frozenlake", map[string]any{"rules": "legacy", "prompt_format": "grounding"}, []reward.Relation{
			{Object: "target", Vertical: reward.Below, Horizontal: reward.Right}, {Object: "hole", Vertical: reward.Same, Horizontal: reward.Right}}},
		{"sokoban", map[string]any{"rules": "next"}, []reward.Relation{
			{Object: "target", Vertical: reward.Below, Horizontal: reward.Right}, {Object: "box", Vertical: reward.Below, Horizontal: reward.Right}}},
	} {
		c.config["use_state_reward"] = true
		e, err := Registry().New(c.name, c.config)
		require.NoError(t, err)
		o, err := e.System(t.Context())
		require.NoError(t, err)
		_, example, _ := strings.Cut(o.Text, "For example:\n")
		r := e.(env.Judged).Env.(interface{ Parser() *reward.Parser }).Parser().Parse(example)
		require.True(t, r.FormatCorrect, example)
		require.Equal(t, c.want, judge.Read(r.Sections[reward.SectionObservation], map[string]string{"target": "target", "hole": "hole", "box": "box"}))
		require.Contains(t, o.Text, "in the same column, as seen from you")
	}
}
