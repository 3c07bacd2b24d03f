package worker

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/traintest"
	"vagen/policy"
	"vagen/reward/judge/client"
	"vagen/rollout"
	"vagen/train/config"
	"vagen/train/envs"
	"vagen/train/queue"
	"vagen/train/queue/embedded"
)

// TestTheTrainerCountsTheJudgeOfItsWorkers: claims, requests and causes are those of one process,
// for one worker and for three.
func TestTheTrainerCountsTheJudgeOfItsWorkers(t *testing.T) {
	for name, answer := range map[string]string{
		"works":    `[{"object_id": "target", "vertical_relation": "below", "horizontal_relation": "right"}]`,
		"nonsense": "I think so.",
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			text, _ := json.Marshal(answer)
			_, _ = io.WriteString(w, `{"choices":[{"message":{"role":"assistant","content":`+string(text)+
				`},"finish_reason":"stop"}],"usage":{"prompt_tokens":70,"completion_tokens":11}}`)
		}))
		defer s.Close()
		c := config.Default()
		c.Run.Queue, c.Run.QueueOptions.Listen = config.QueueEmbedded, "127.0.0.1:0"
		lake := map[string]any{"render_mode": "text", "prompt_format": "wm", "desc": []any{"SFF", "FFF", "FFG"},
			"state_reward": map[string]any{
				"judge_base_url": s.URL + "/v1", "judge_model": "m",
				"state_estimation": map[string]any{"enable": true, "reward": 0.5},
				"judge":            map[string]any{"retries": uint64(0), "breaker_failures": uint64(1000)}}}
		c.Env.Name = "frozenlake"
		newPolicy := func() policy.Policy {
			return traintest.NewBandit("<perception>The goal is below me to the right.</perception><reasoning>r</reasoning><prediction>p</prediction><answer>Right</answer>")
		}
		registry, err := envs.Open(&c, nil)
		require.NoError(t, err)
		var es []rollout.Episode
		for i := range 8 {
			es = append(es, rollout.Episode{Env: "frozenlake", Config: lake, Group: i})
		}
		play := func(d rollout.Dealer) client.Usage {
			ctx, judged := client.WithMeter(t.Context())
			p := rollout.Player{Policy: newPolicy(), Envs: registry, MaxTurns: 2, Dealer: d,
				Sampling: policy.Sampling{MaxTokens: 8}}
			ts, _, err := p.Play(ctx, es, 0)
			require.NoError(t, err)
			for _, e := range ts {
				require.NoError(t, e.Err)
			}
			u := judged.Usage()
			require.Positive(t, u.Waited)
			u.Waited = 0
			return u
		}
		want := play(nil)
		require.Positive(t, want.Claims)
		require.EqualValues(t, 70*want.Attempts, want.PromptTokens)
		require.EqualValues(t, 11*want.Attempts, want.CompletionTokens)
		require.Equal(t, name == "nonsense", want.Unscored[client.Answer] > 0)
		for _, n := range []int{1, 3} {
			trainer := Trainer{Config: &c, Dir: t.TempDir(), ID: "a run", Own: true, QueueServer: embedded.Start}
			q, err := trainer.Open(t.Context(), newPolicy(), nil)
			require.NoError(t, err)
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, n)
			for range n {
				o := DefaultOptions()
				o.URL, o.KeyFile, o.Slots = q.URL(), q.KeyFile(), 2
				o.Policy = func(context.Context, *config.Config, []byte) (policy.Policy, error) { return newPolicy(), nil }
				go func() { ended <- Work(ctx, o) }()
			}
			require.Equal(t, want, play(q), "%s, %d workers", name, n)
			stop()
			for range n {
				require.NoError(t, <-ended)
			}
			require.NoError(t, q.Close())
		}
	}
}

// TestReportsOfWorkersAreNotTrusted.
func TestReportsOfWorkersAreNotTrusted(t *testing.T) {
	for _, bad := range []string{
		"{", "7", `{"judge":{"claims":-1}}`, `{"judge":{"claims":1,"cached":2}}`,
		`{"judge":{"claims":1,"unscored":{"answer":2}}}`,
		`{"judge":{"claims":1,"unscored":{"sk-key":1}}}`, `{"judge":{"claims":5,"cached":2,"unscored":{"answer":-1}}}`,
		`{"judge":{"attempts":-1}}`, `{"judge":{"prompt_tokens":-1}}`, `{"judge":{"completion_tokens":9223372036854775807}}`,
		`{"judge":{"waited_ns":-1}}`,
	} {
		ctx, meter := client.WithMeter(t.Context())
		require.ErrorIs(t, countJudge(ctx, nil, []byte(bad)), queue.ErrResult, bad)
		require.Zero(t, meter.Usage().Claims)
	}
	ctx, meter := client.WithMeter(t.Context())
	require.NoError(t, countJudge(ctx, nil, nil))
	for range 2 {
		require.NoError(t, countJudge(ctx, nil, report{Judge: client.Usage{Claims: 5, Cached: 2, Attempts: 4,
			PromptTokens: 50, CompletionTokens: 3, Unscored: map[client.Cause]int{client.Answer: 1}, Waited: 7}}.write()))
	}
	require.Equal(t, client.Usage{Claims: 10, Cached: 4, Attempts: 8, PromptTokens: 100, CompletionTokens: 6,
		Unscored: map[client.Cause]int{client.Answer: 2}, Waited: 14}, meter.Usage())
}
