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
	"<think>b</think><answer>Up,Right,Hit</answer>",
}

func TestBuiltinEnvironmentsKeepTheContract(t *testing.T) {
	r := Registry()
	require.NotEmpty(t, r.Names())
	for _, name := range r.Names() {
		for _, config := range []map[string]any{nil, {"rules": "lite", "render_mode": "vision"}, {"rules": "legacy"}} {
			report, err := env.Check(t.Context(), func(config map[string]any) (env.Env, error) { return r.New(name, config) },
				env.CheckOptions{Config: config, Responses: responses})
			require.NoError(t, err, "%s %v", name, config)
			require.NoError(t, report.Err(), "%s %v", name, config)
		}
	}
}
