package builtin

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/internal/envtest"
	"vagen/env/remote"
)

// served is a service of one environment in both protocols.
func served(t *testing.T, name string, open env.Factory) *httptest.Server {
	o := remote.DefaultServerOptions()
	o.Lite, o.Legacy = open, new(env.Registry)
	require.NoError(t, o.Legacy.Register(name, open))
	s, err := remote.NewServer(o)
	require.NoError(t, err)
	h := httptest.NewServer(s)
	t.Cleanup(func() {
		h.Close()
		require.NoError(t, s.Close(context.Background()))
	})
	return h
}

// Over HTTP the service pays, in both protocols, what the environment pays in the process:
// nothing for a copy, although no client sees the earlier truth.
func TestCopiesAreNotPaidOverHTTP(t *testing.T) {
	both := envtest.Options("enable: true, reward: 0.5")
	config := map[string]any{"desc": []any{"SFF", "FGF", "FFF"}, "prompt_format": "wm", "render_mode": "text",
		"format_reward": 0.0,
		"state_reward":  map[string]any{"scorer": "rules", "state_estimation": both, "transition_prediction": both}}
	here := func(config map[string]any) (env.Env, error) { return Registry().New("frozenlake", config) }
	h := served(t, "frozenlake", here)
	transport := http.DefaultTransport.(*http.Transport).Clone()
	defer transport.CloseIdleConnections()
	far := remote.DefaultClientOptions()
	far.URLs, far.Name, far.Transport = []string{h.URL}, "frozenlake", transport
	const start, right = "The goal is below me and to my right.", "The goal is below me, in the same column."
	for protocol, open := range map[string]env.Factory{"none": here, "lite": remote.Factory(far),
		"legacy": remote.LegacyFactory(far)} {
		e, err := open(config)
		require.NoError(t, err, protocol)
		_, err = e.System(t.Context())
		require.NoError(t, err, protocol)
		_, err = e.Reset(t.Context(), 0)
		require.NoError(t, err, protocol)
		for turn, k := range []struct {
			observation, prediction, action string
			want                            float64
		}{
			{start, start, "Right", 0.5}, // the prediction is a copy of what is seen
			{start, right, "Left", 0},    // both are of the state before
			{start, right, "Right", 1},   // true again
		} {
			out, err := e.Step(t.Context(), wm(k.observation, k.prediction, k.action))
			require.NoError(t, err, protocol)
			require.InDelta(t, k.want, out.Reward.Sum(), 1e-9, "%s: turn %d", protocol, turn)
		}
		require.NoError(t, e.Close())
	}
}
