package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"go/build"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/remote/internal/pyjson"
	"vagen/internal/golden"
	"vagen/reward"
)

// decoded turns an Info into what a client decodes from it.
func decoded(t *testing.T, in any) map[string]any {
	t.Helper()
	b, err := pyjson.Append(nil, in, pyjson.Lite)
	require.NoError(t, err)
	v, err := pyjson.Parse(b)
	require.NoError(t, err)
	return v.(map[string]any)
}

// The recorded dictionaries are what the original parsers put into info
// (testdata/envs/parse_*.json): ours have the same names and values.
func TestParseInfoEqualsTheOriginals(t *testing.T) {
	for _, file := range []string{"envs/parse_legacy.json", "envs/parse_lite.json"} {
		var recorded struct {
			Cases []struct {
				Parser        string
				Response      string
				ActionSep     string          `json:"action_sep"`
				MaxActions    int             `json:"max_actions"`
				SpecialTokens []string        `json:"special_token_list"`
				Expected      json.RawMessage `json:"expected"`
			}
		}
		golden.Read(t, file, &recorded)
		tally := golden.Of(t, file+" (info)")
		for i, c := range recorded.Cases {
			run := tally.Next("case %d, %s on %q", i, c.Parser, c.Response)
			dialect, format, _ := strings.Cut(c.Parser, "/")
			if dialect == "lite_sokoban" || dialect == "lite_frozenlake" {
				dialect = string(reward.Lite)
			}
			p, err := reward.NewParser(format, reward.ParserOptions{Dialect: reward.Dialect(dialect), ActionSep: c.ActionSep,
				MaxActions: c.MaxActions, SpecialTokens: c.SpecialTokens})
			require.NoError(run, err)
			v, err := pyjson.Parse(c.Expected)
			require.NoError(run, err)
			want := v.(map[string]any)
			if _, there := want["llm_raw_response"]; !there { // recorded only when it differs
				want["llm_raw_response"] = c.Response
			}
			got := decoded(t, parseInfo(p, p.Parse(c.Response)))
			names := slices.Sorted(maps.Keys(want))
			run.Equal("names", slices.Sorted(maps.Keys(got)), names)
			for _, name := range names {
				run.Equal(name, fmt.Sprintf("%#v", got[name]), fmt.Sprintf("%#v", want[name]))
			}
		}
	}
}

// The order is that of the original's dictionaries, which the Lite protocol keeps.
func TestInfoKeepsTheOrderOfTheOriginal(t *testing.T) {
	for _, c := range []struct{ env, config, text, want string }{
		{"frozenlake", `{"size": 3}`, "<think>t</think><answer>jump</answer>",
			`{"llm_raw_response": "<think>t</think><answer>jump</answer>", "llm_response": "<think>t</think><answer>jump</answer>", ` +
				`"think_content": "t", "action_content": "jump", "actions": ["jump"], "format_correct": true, ` +
				`"metrics": {"turn_metrics": {"action_is_valid": false, "action_is_effective": false}, "traj_metrics": {"success": false}}, "success": false}`},
		{"sokoban", `{}`, "none",
			`{"llm_raw_response": "none", "llm_response": "<observation></observation><think></think><answer></answer><prediction></prediction>", ` +
				`"observation_content": "", "think_content": "", "reasoning_content": "", "prediction_content": "", "action_content": "", ` +
				`"actions": [], "format_correct": false, ` +
				`"metrics": {"turn_metrics": {"action_is_valid": false, "action_is_effective": false}, "traj_metrics": {"success": false}}, "success": false}`},
	} {
		v, err := pyjson.Parse([]byte(c.config))
		require.NoError(t, err)
		config := v.(map[string]any)
		e, err := liteEnvs[c.env](config)
		require.NoError(t, err)
		_, err = e.Reset(context.Background(), 1)
		require.NoError(t, err)
		out, err := e.Step(context.Background(), c.text)
		require.NoError(t, err)
		got, err := pyjson.Append(nil, informerFor(e).StepInfo(out), pyjson.Lite)
		require.NoError(t, err)
		assert.Equal(t, c.want, string(got), c.env)
	}
}

// What legacy environments add, on turns with and without format reward.
func TestLegacyInfo(t *testing.T) {
	r := legacyEnvs(t)
	const rich = "<think><observation>o</observation><reasoning>r</reasoning><prediction>p</prediction></think><answer>%s</answer>"
	play := func(name string, config map[string]any, text string) map[string]any {
		e, err := r.New(name, config)
		require.NoError(t, err)
		_, err = e.Reset(context.Background(), 3)
		require.NoError(t, err)
		out, err := e.Step(context.Background(), text)
		require.NoError(t, err)
		return decoded(t, informerFor(e).StepInfo(out))
	}
	board := map[string]any{"desc": []any{"SF", "HG"}, "use_state_reward": true}
	info := play("frozenlake", board, fmt.Sprintf(rich, "Left"))
	assert.Equal(t, true, info["is_format_rewarded"])
	assert.Equal(t, true, info["use_state_reward"])
	goal := map[string]any{"object_id": "target", "vertical_relation": "below", "horizontal_relation": "right"}
	hole := map[string]any{"object_id": "hole", "vertical_relation": "below", "horizontal_relation": "same"}
	assert.Equal(t, []any{goal, hole}, info["observation_state"])
	assert.Equal(t, []any{goal, hole}, info["prediction_state"])
	assert.NotContains(t, info, "success", "legacy dictionaries have it among the metrics alone")

	info = play("frozenlake", board, fmt.Sprintf(rich, "Fly"))
	assert.Equal(t, false, info["is_format_rewarded"])
	assert.Equal(t, false, info["use_state_reward"])
	assert.NotContains(t, info, "observation_state")
	turn := info["metrics"].(map[string]any)["turn_metrics"].(map[string]any)
	assert.Equal(t, map[string]any{"action_is_valid": false, "action_is_effective": false, "grounding_reward": 0.0,
		"worldmodeling_reward": 0.0}, turn)

	// The cards come with turns that played, as value, face and suit.
	config := map[string]any{"prompt_format": "grounding_worldmodeling"}
	info = play("blackjack", config, fmt.Sprintf(rich, "Hit"))
	cards := info["Player Card"].([]any)
	require.Len(t, cards, 3)
	for _, c := range append(cards, info["Dealer Card"].([]any)...) {
		card := c.([]any)
		require.Len(t, card, 3)
		assert.Contains(t, "A23456789JQK", card[1])
		assert.Contains(t, "CDHS", card[2])
	}
	assert.NotContains(t, play("blackjack", config, "nothing"), "Player Card")
}

// Every legacy environment with rewarded claims reports in each turn whether they were
// rewarded, because the original wraps all of them.
func TestLegacyInfoSaysWhetherClaimsArePaid(t *testing.T) {
	r := legacyEnvs(t)
	for _, name := range []string{"sokoban", "frozenlake", "blackjack"} {
		config := map[string]any{"prompt_format": "grounding_worldmodeling", "use_state_reward": true}
		e, err := r.New(name, config)
		require.NoError(t, err)
		_, err = e.Reset(context.Background(), 3)
		require.NoError(t, err)
		out, err := e.Step(context.Background(), "nothing")
		require.NoError(t, err)
		assert.Equal(t, false, decoded(t, informerFor(e).StepInfo(out))["use_state_reward"], name)
	}
}

// A service works with any environment, so the package imports only the interface.
func TestThePackageImportsNoConcreteEnvironment(t *testing.T) {
	p, err := build.ImportDir(".", 0)
	require.NoError(t, err)
	for _, path := range p.Imports {
		if strings.HasPrefix(path, "vagen/env") {
			assert.Contains(t, []string{"vagen/env", "vagen/env/internal/calls", "vagen/env/remote/hosts",
				"vagen/env/remote/internal/pyjson", "vagen/env/remote/internal/wire"}, path)
		}
	}
}

// bare is an environment without additional info.
type bare struct{ env.Env }

type parsing struct {
	bare
	parser *reward.Parser
}

func (p parsing) Parser() *reward.Parser { return p.parser }

func TestInformerForEnvironmentsOfOthers(t *testing.T) {
	out := env.Outcome{
		Response: reward.Response{Raw: "raw", FormatCorrect: true, Sections: map[string]string{"think": "t", "answer": "go"},
			Actions: []string{"go"}},
		Turn:       env.Metrics{"action_is_valid": 1, "distance": 1, "stage_0_success": 0, "score": 0.5},
		Trajectory: env.Metrics{"success": 1}, Success: true,
	}
	got, err := pyjson.Append(nil, informerFor(bare{}).StepInfo(out), pyjson.Lite)
	require.NoError(t, err)
	assert.Equal(t, `{"llm_raw_response": "raw", "action_content": "go", "think_content": "t", "actions": ["go"], "format_correct": true, `+
		`"metrics": {"turn_metrics": {"action_is_valid": true, "distance": 1.0, "score": 0.5, "stage_0_success": false}, "traj_metrics": {"success": true}}, "success": true}`,
		string(got), "boolean metrics are recognised by their names")
	p, err := reward.NewParser("free_think", reward.ParserOptions{Dialect: reward.Legacy})
	require.NoError(t, err)
	info := decoded(t, informerFor(parsing{parser: p}).StepInfo(out))
	assert.Equal(t, "<think>t</think><answer>go</answer>", info["llm_response"])
	assert.Equal(t, true, info["is_format_rewarded"])
	assert.Equal(t, Info{}, informerFor(bare{}).ResetInfo())
}
