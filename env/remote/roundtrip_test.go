package remote

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/blackjack"
	"vagen/env/frozenlake"
	"vagen/env/internal/envtest"
	"vagen/env/sokoban"
	"vagen/reward"
)

var liteEnvs = map[string]env.Factory{
	"blackjack": blackjack.FromConfig, "frozenlake": frozenlake.FromConfig, "sokoban": sokoban.FromConfig,
}

// ownTransport gives a client connections that end with the test.
func ownTransport(t testing.TB) http.RoundTripper {
	tr := http.DefaultTransport.(*http.Transport).Clone()
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// hosted serves an environment in one of the protocols and returns a factory of
// clients for it.
func hosted(t testing.TB, protocol, name string, change func(*ServerOptions)) env.Factory {
	t.Helper()
	s := serve(t, func(o *ServerOptions) {
		if protocol == "legacy" {
			o.Lite, o.Legacy = nil, legacyEnvs(t)
		} else {
			o.Lite = liteEnvs[name]
		}
		if change != nil {
			change(o)
		}
	})
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	o := DefaultClientOptions()
	o.URLs, o.Transport, o.Name = []string{h.URL}, ownTransport(t), name
	if protocol == "legacy" {
		return LegacyFactory(o)
	}
	return Factory(o)
}

var lines = []string{
	"<think>one</think><answer>Right,Down</answer>",
	"<observation>é</observation><think>\"two\"</think><answer>Up, left</answer><prediction>漢</prediction>",
	"no tags <image> \x00",
	"<think><observation>o</observation><reasoning>r</reasoning><prediction>p</prediction></think><answer>Down,Fly</answer>",
	"<think><observation>o</observation><reasoning>r</reasoning><prediction>p</prediction></think><answer>Hit</answer>",
	"<think>x</think><answer></answer>",
	"<think><observation>o</observation><reasoning>r</reasoning><prediction>p</prediction></think><answer>Right,Right,Right,Right</answer>",
}

type setting struct {
	protocol, name string
	config         map[string]any
}

func allSettings() []setting {
	return []setting{
		{"lite", "frozenlake", envtest.Options("size: 5")},
		{"lite", "frozenlake", envtest.Options("render_mode: vision, prompt_format: wm")},
		{"lite", "sokoban", envtest.Options("prompt_format: free_wm")},
		{"lite", "sokoban", envtest.Options("rules: legacy, tile_size: 14")},
		{"legacy", "frozenlake", envtest.Options("render_mode: text, map_seed: 4")},
		{"legacy", "frozenlake", envtest.Options("use_state_reward: true, prompt_format: grounding")},
		{"legacy", "sokoban", envtest.Options("dim_room: [6, 7], tile_size: 14")},
		{"legacy", "blackjack", envtest.Options("render_mode: text")},
		{"lite", "blackjack", envtest.Options("render_mode: text, prompt_format: free_think")},
	}
}

// local makes the environment that a setting serves.
func (s setting) local(t testing.TB) env.Env {
	t.Helper()
	config := maps.Clone(s.config)
	if s.protocol == "legacy" && s.name != "blackjack" {
		config["rules"] = "legacy"
	}
	e, err := liteEnvs[s.name](config)
	require.NoError(t, err)
	return e
}

// An episode over HTTP equals the same episode in the process: texts, pixels, rewards, end,
// parsed responses and metrics.
func TestRemoteEpisodesEqualLocalOnes(t *testing.T) {
	for _, s := range allSettings() {
		t.Run(fmt.Sprintf("%s %s %v", s.protocol, s.name, s.config), func(t *testing.T) {
			far, err := hosted(t, s.protocol, s.name, nil)(s.config)
			require.NoError(t, err)
			near := s.local(t)
			ctx := t.Context()
			for seed := range int64(2) {
				want, err := near.System(ctx)
				require.NoError(t, err)
				got, err := far.System(ctx)
				require.NoError(t, err)
				sameObservation(t, want, got)
				want, err = near.Reset(ctx, seed)
				require.NoError(t, err)
				got, err = far.Reset(ctx, seed)
				require.NoError(t, err)
				sameObservation(t, want, got)
				for _, text := range lines {
					want, err := near.Step(ctx, text)
					require.NoError(t, err)
					got, err := far.Step(ctx, text)
					require.NoError(t, err)
					sameOutcome(t, want, got)
					if want.Done {
						break
					}
				}
			}
			require.NoError(t, far.Close())
		})
	}
}

func sameObservation(t *testing.T, want, got env.Observation) {
	t.Helper()
	require.Equal(t, want.Text, got.Text)
	require.Len(t, got.Images, len(want.Images))
	for i := range want.Images {
		require.Equal(t, pixelText(want.Images[i]), pixelText(got.Images[i]))
	}
}

func sameOutcome(t *testing.T, want, got env.Outcome) {
	t.Helper()
	sameObservation(t, want.Observation, got.Observation)
	require.Equal(t, want.Reward.Sum(), got.Reward.Sum())
	require.Equal(t, want.Done, got.Done)
	require.Equal(t, want.Success, got.Success)
	require.Equal(t, want.Response.Raw, got.Response.Raw)
	require.Equal(t, want.Response.FormatCorrect, got.Response.FormatCorrect)
	require.True(t, slices.Equal(want.Response.Actions, got.Response.Actions), "%q, %q", want.Response.Actions,
		got.Response.Actions)
	for _, name := range []string{reward.SectionThink, reward.SectionObservation, reward.SectionReasoning,
		reward.SectionPrediction, reward.SectionAnswer} {
		require.Equal(t, want.Response.Sections[name], got.Response.Sections[name], name)
	}
	require.Equal(t, want.Turn, got.Turn)
	require.Equal(t, want.Trajectory, got.Trajectory)
}

// The clients fulfil the contract of environments. The checker of package env tests it with
// hostile texts, ended contexts and calls in the wrong order.
func TestRemoteEnvironmentsKeepTheContract(t *testing.T) {
	for _, s := range allSettings() {
		report, err := env.Check(t.Context(), hosted(t, s.protocol, s.name, nil),
			env.CheckOptions{Config: s.config, Responses: lines, Seeds: []int64{5}, Turns: 6})
		require.NoError(t, err, "%v", s)
		require.NoError(t, report.Err(), "%v", s)
	}
}

// Many clients share a server without getting each other's episodes.
func TestClientsDoNotMix(t *testing.T) {
	for _, protocol := range []string{"lite", "legacy"} {
		make := hosted(t, protocol, "frozenlake", func(o *ServerOptions) { o.MaxInFlight = 4 })
		config := envtest.Options("render_mode: text, size: 6")
		s := setting{protocol, "frozenlake", config}
		var wg sync.WaitGroup
		for k := range 16 {
			wg.Go(func() {
				assert.NoError(t, playBoth(t.Context(), make, s.local(t), config, int64(k)))
			})
		}
		wg.Wait()
	}
}

// playBoth plays one episode locally and through the service.
func playBoth(ctx context.Context, make env.Factory, near env.Env, config map[string]any, seed int64) error {
	far, err := make(config)
	if err != nil {
		return err
	}
	defer far.Close()
	want, err := near.Reset(ctx, seed)
	if err != nil {
		return err
	}
	got, err := far.Reset(ctx, seed)
	if err != nil {
		return err
	}
	if want.Text != got.Text {
		return fmt.Errorf("seed %d: %q, want %q", seed, got.Text, want.Text)
	}
	for _, text := range lines {
		a, err := near.Step(ctx, text)
		if err != nil {
			return err
		}
		b, err := far.Step(ctx, text)
		if err != nil {
			return err
		}
		if a.Observation.Text != b.Observation.Text || a.Reward.Sum() != b.Reward.Sum() {
			return fmt.Errorf("seed %d: %+v, want %+v", seed, b, a)
		}
	}
	return nil
}
