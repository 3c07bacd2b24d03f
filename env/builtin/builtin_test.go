package builtin

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
)

// Responses in several formats, so that each environment finds some that act.
var responses = []string{
	"<think>a</think><answer>Down,Right</answer>",
	"<observation>o</observation><think>t</think><answer>Left</answer><prediction>p</prediction>",
	"<think><observation>o</observation><reasoning>r</reasoning><prediction>p</prediction></think><answer>Up</answer>",
	"<think>b</think><answer>Up,Right</answer>",
	"<think><observation>o</observation><reasoning>r</reasoning><prediction>p</prediction></think><answer>Hit</answer>",
}

func TestBuiltinEnvironmentsKeepTheContract(t *testing.T) {
	r := Registry()
	require.NotEmpty(t, r.Names())
	for _, name := range r.Names() {
		configs := []map[string]any{nil, {"render_mode": "text"}, {"render_mode": "vision"}}
		if name != "blackjack" { // it has one rule set
			configs = append(configs, map[string]any{"rules": "legacy"}, map[string]any{"rules": "legacy", "render_mode": "text"})
		}
		for _, config := range configs {
			report, err := env.Check(t.Context(), func(config map[string]any) (env.Env, error) { return r.New(name, config) },
				env.CheckOptions{Config: config, Responses: responses})
			require.NoError(t, err, "%s %v", name, config)
			require.NoError(t, report.Err(), "%s %v", name, config)
		}
	}
}
