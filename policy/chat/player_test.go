package chat_test

import (
	"context"
	"encoding/json"
	"fmt"
	"image"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/policy"
	"vagen/policy/chat"
	"vagen/reward"
	"vagen/rollout"
)

// counting is an environment that shows a picture and ends after three turns.
type counting struct{ turn int }

func (*counting) System(context.Context) (env.Observation, error) {
	return env.Observation{Text: "Count."}, nil
}

func (c *counting) Reset(_ context.Context, seed int64) (env.Observation, error) {
	return c.show(fmt.Sprint("level ", seed)), nil
}

func (*counting) show(text string) env.Observation {
	return env.Observation{Text: text + " " + env.ImageMark, Images: []image.Image{image.NewGray(image.Rect(0, 0, 4, 4))}}
}

func (c *counting) Step(_ context.Context, response string) (env.Outcome, error) {
	c.turn++
	return env.Outcome{Observation: c.show("after " + response), Reward: reward.Parts{{Name: "turn", Value: 1}},
		Done: c.turn == 3}, nil
}

func (*counting) Close() error { return nil }

// TestEpisodesArePlayedWithAModelBehindAnAPI plays many at once. The service is
// stateless; it refuses long conversations of level 2, and all of level 3.
func TestEpisodesArePlayedWithAModelBehindAnAPI(t *testing.T) {
	var mu sync.Mutex
	pictures := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			Messages []struct {
				Role    string `json:"role"`
				Content any    `json:"content"`
			} `json:"messages"`
			Seed int64 `json:"seed"`
		}
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		all := fmt.Sprint(q.Messages)
		mu.Lock()
		pictures += strings.Count(all, "data:image/png")
		mu.Unlock()
		switch {
		case strings.Contains(all, "level 2 ") && len(q.Messages) > 4:
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":{"code":"context_length_exceeded","message":"too long"}}`)
		case strings.Contains(all, "level 3 "):
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"error":{"code":403,"message":"flagged","metadata":{"reasons":["lakes"]}}}`)
		default:
			fmt.Fprintf(w, `{"choices":[{"message":{"content":"%d of %d"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`,
				len(q.Messages), q.Seed)
		}
	}))
	defer server.Close()
	o := chat.DefaultOptions(chat.OpenAI, "m")
	o.BaseURL = server.URL
	model, err := chat.New(o)
	require.NoError(t, err)
	defer model.Close()

	envs := &env.Registry{}
	require.NoError(t, envs.Register("counting", func(map[string]any) (env.Env, error) { return &counting{}, nil }))
	var episodes []rollout.Episode
	for i := range 12 {
		episodes = append(episodes, rollout.Episode{Env: "counting", Seed: int64(i % 4), Group: i})
	}
	play := func(workers, waves int) []*rollout.Trajectory {
		p := rollout.Player{Policy: model, Envs: envs, Sampling: policy.Sampling{MaxTokens: 8}, MaxTurns: 5, Workers: workers,
			Waves: waves}
		out, _, err := p.Play(t.Context(), episodes, 3)
		require.NoError(t, err)
		return out
	}
	out := play(4, 1)
	for i, tr := range out {
		switch tr.Seed {
		case 2:
			require.Equal(t, rollout.EndNoRoom, tr.End)
			require.Len(t, tr.Turns, 2)
		case 3:
			require.Equal(t, rollout.EndPolicy, tr.End)
			require.ErrorIs(t, tr.Err, chat.ErrRefused)
		default:
			require.Equal(t, rollout.EndDone, tr.End)
			require.Equal(t, 3.0, tr.Return())
			for k, turn := range tr.Turns {
				require.True(t, strings.HasPrefix(turn.Response, fmt.Sprint(2*k+2, " of ")), "%d: %q", i, turn.Response)
			}
		}
	}
	// Pictures are sent again with each turn: 1+2+3 in six episodes and in three
	// that end at the last request, 1 in three.
	require.Equal(t, 9*6+3, pictures)
	require.NotEqual(t, out[0].Turns[0].Response, out[4].Turns[0].Response, "each episode has its own seed")
	again := play(1, 3)
	for i := range out {
		require.Equal(t, out[i].Turns, again[i].Turns)
	}
}
