package train_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env/builtin"
	"vagen/internal/traintest"
	"vagen/reward/judge/client"
	"vagen/train"
	"vagen/train/track"
)

// TestStepsCountStatementsWithoutAScore: with a judge that works, with one that is down, and
// with one that answers nonsense, training goes on, and steps have the share of statements
// without a score and their causes; above the limit an alarm is on. The key is in no event.
func TestStepsCountStatementsWithoutAScore(t *testing.T) {
	const key = "sk-7d1c0b9a55aa"
	t.Setenv("JUDGE_KEY", key)
	works := `[{"object_id": "target", "vertical_relation": "below", "horizontal_relation": "right"}]`
	for name, c := range map[string]struct {
		status int
		answer string
		cause  string
	}{"works": {200, works, ""}, "down": {503, "key " + key, "breaker"},
		"nonsense": {200, "I think so. " + key, "answer"}} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			text, _ := json.Marshal(c.answer)
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, `{"choices":[{"message":{"role":"assistant","content":`+string(text)+
				`},"finish_reason":"stop"}]}`)
		}))
		cfg := traintest.Small()
		cfg.Env.Name, cfg.Env.Config = "frozenlake", map[string]any{"render_mode": "text", "prompt_format": "wm",
			"desc": []any{"SFF", "FFF", "FFG"},
			"state_reward": map[string]any{"judge_base_url": s.URL + "/v1", "judge_model": "m",
				"state_estimation": map[string]any{"enable": true, "reward": 0.5},
				"judge":            map[string]any{"key_env": "JUDGE_KEY", "retries": 0, "breaker_failures": 4}}}
		cfg.Data.MaxResponse, cfg.Rollout.MaxTurns, cfg.Reward.Site = 8, 2, "turn_end"
		cfg.Env.Config["state_reward"].(map[string]any)["credit_site"] = "turn_end"
		cfg.Trainer.TestFreq = 1
		b := traintest.NewBandit("<perception>The goal is below me to the right.</perception><reasoning>r</reasoning><prediction>p</prediction><answer>Right</answer>")
		j := new(traintest.Journal)
		tr := &train.Trainer{Config: cfg, Learner: b, Envs: builtin.RegistryWith(client.Dial(nil)), Sinks: []track.Sink{j}}
		var text bytes.Buffer
		tr.Log = slog.New(slog.NewTextHandler(&text, nil))
		require.NoError(t, tr.Run(t.Context()), name)
		log, steps := text.String(), j.Steps()
		s.Close()
		require.Len(t, steps, 3, name)
		for _, e := range steps {
			m := e.Metrics
			require.Positive(t, m["judge/claims"], name)
			require.Contains(t, m, "time/judge")
			if c.cause == "" {
				require.Zero(t, m["judge/unscored"], name)
				require.Positive(t, m["train/reward/observation"])
				continue
			}
			require.InDelta(t, 1, m["judge/unscored"], 1e-12, name)
			require.Positive(t, m["judge/unscored/"+c.cause], "%s: %v", name, m)
			require.NotContains(t, m, "train/reward/observation", "no score is not 0")
		}
		require.Equal(t, c.cause != "", traintest.Has(steps[2].Metrics, "alarm/max_unscored"), name)
		all, err := json.Marshal(j)
		require.NoError(t, err)
		require.NotContains(t, log+string(all), key)
		require.Contains(t, string(all), "val/judge/unscored")
		scored := strings.Contains(string(all), "val-aux/frozenlake/observation_reward/mean@1")
		require.Equal(t, c.cause == "", scored, name)
		if c.cause != "" {
			require.Contains(t, log, "the judge leaves too many statements without a score")
		}
	}
}
