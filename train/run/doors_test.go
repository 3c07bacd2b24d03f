package run_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/remote"
	"vagen/env/remote/openenv"
	"vagen/internal/traintest"
	"vagen/rollout"
	"vagen/rollout/gateway"
	"vagen/train"
	"vagen/train/config"
	"vagen/train/track"
)

// guessTurns is the number of turns of the guessing game where nothing limits them.
const guessTurns = 4

func game() (env.Env, error) {
	r, err := new(traintest.Arena).Open()
	if err != nil {
		return nil, err
	}
	return r.New("guess", map[string]any{"turns": uint64(guessTurns)})
}

// guesses is an agent that plays the guessing game with tools of its own until it gets no more answers.
func guesses(ctx context.Context, e *gateway.Episode) (*gateway.Score, error) {
	g, err := game()
	if err != nil {
		return nil, err
	}
	o, err := g.Reset(ctx, e.Seed)
	var ms []map[string]string
	score := new(gateway.Score)
	for done := false; err == nil && !done; {
		ms = append(ms, map[string]string{"role": "user", "content": o.Text})
		body, _ := json.Marshal(map[string]any{"messages": ms})
		var r *http.Response
		if r, err = http.Post(e.URL+"/v1/chat/completions", "application/json", bytes.NewReader(body)); err != nil {
			break
		}
		var a struct {
			Choices []struct{ Message struct{ Content string } }
		}
		err = json.NewDecoder(r.Body).Decode(&a)
		if _ = r.Body.Close(); len(a.Choices) == 0 {
			break // there is no room for another answer
		}
		var out env.Outcome
		answer := a.Choices[0].Message.Content
		if err == nil {
			out, err = g.Step(ctx, answer)
		}
		o, done = out.Observation, out.Done
		score.Reward += out.Reward.Sum()
		ms = append(ms, map[string]string{"role": "assistant", "content": answer})
	}
	return score, err
}

// throughDoors is a run of the guessing game in this process, on a server of OpenEnv and with an agent, of which the last
// two are also played with less room. open gives a trainer the environments.
func throughDoors(t *testing.T) (c config.Config, open func(*train.Trainer)) {
	t.Helper()
	s, err := openenv.NewServer(openenv.Hosted{Name: "guess", Make: func(map[string]any) (env.Env, error) {
		return game()
	}},
		remote.DefaultServerOptions())
	require.NoError(t, err)
	h := httptest.NewServer(s)
	g, err := gateway.New(gateway.Settings{Agent: guesses})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, g.Close())
		require.NoError(t, s.Close(context.Background()))
		h.Close()
	})
	web := fmt.Sprintf("name: openenv, n_envs: 8, weight: 1, config: {base_urls: %q}", h.URL)
	const agent = "name: agent, n_envs: 8, weight: 1"
	files := traintest.WriteFile(t, `
envs:
  - {name: guess, data_source: here, n_envs: 20, seed: [1, 20, 1], weight: 2, max_turns: 2, config: {turns: 4}}
  - {`+web+`, seed: [31, 38, 1], data_source: web, reward_scale: 0.5}
  - {`+web+`, seed: [31, 38, 1], data_source: web_short, max_response_length: 8}
  - {`+agent+`, seed: [51, 58, 1], data_source: agent, reward_scale: 0.25}
  - {`+agent+`, seed: [51, 58, 1], data_source: agent_short, max_response_length: 8}`)
	val := traintest.WriteFile(t, "envs: [{name: guess, n_envs: 2, config: {turns: 2}}]")
	c, err = config.Load("", "data.train_files=["+files+"]", "data.val_files=["+val+"]", "data.train_batch_size=12",
		"data.max_response_length=4", "actor_rollout_ref.actor.ppo_mini_batch_size=6", "actor_rollout_ref.actor.optim.lr=0.5",
		"trainer.total_training_steps=4", "data.pools.share=0.5", "trainer.save_freq=2", "trainer.test_freq=-1", "trainer.val_before_train=false",
		"rollout_manager.max_turns=4", "algorithm.adv_estimator=bi_level_gae")
	require.NoError(t, err)
	return c, func(tr *train.Trainer) {
		r, err := new(traintest.Arena).Open()
		require.NoError(t, err)
		require.NoError(t, r.Register("openenv", openenv.Factory()))
		require.NoError(t, r.Register(gateway.Name, g.Env))
		r.SetRemote("openenv")
		r.SetRemote(gateway.Name)
		tr.Envs = r
	}
}

// TestOneRunTrainsThroughAllDoors: shares, turns, lengths and rewards are those of the entries, and a run that stops
// resumes to the same bytes.
func TestOneRunTrainsThroughAllDoors(t *testing.T) {
	t.Parallel()
	c, open := throughDoors(t)
	turns := map[string]int{"here": 2, "web": 4, "web_short": 2, "agent": 4, "agent_short": 2}
	scales := map[string]float64{"here": 1, "web": 0.5, "web_short": 1, "agent": 0.25, "agent_short": 1}
	played := map[string]int{}
	whole := filepath.Join(t.TempDir(), "whole")
	require.NoError(t, trainIn(t.Context(), whole, c, func(tr *train.Trainer) {
		open(tr)
		tr.Observer = traintest.Hooks{OnPlayed: func(_ int, ts []*rollout.Trajectory) error {
			for _, e := range ts {
				require.NoError(t, e.Err, e.Source)
				require.Len(t, e.Turns, turns[e.Source], e.Source)
				right := (e.Return()/scales[e.Source] + 0.5*float64(len(e.Turns))) / 1.5 // each pays 1 and the others -0.5
				require.InDelta(t, float64(int(right+0.5)), right, 1e-9, "%s: return %v", e.Source, e.Return())
				played[e.Source]++
			}
			return nil
		}}
	}))
	require.Equal(t, map[string]int{"here": 16, "web": 8, "web_short": 8, "agent": 8, "agent_short": 8}, played)
	want := traintest.Files(t, whole)
	require.Equal(t, 4, strings.Count(want["metrics.jsonl"], `"train/by_source/agent_short/turns":2,`))
	dir := filepath.Join(t.TempDir(), "resumed")
	require.ErrorIs(t, trainIn(t.Context(), dir, c, func(tr *train.Trainer) {
		open(tr)
		tr.Sinks = append(tr.Sinks, track.SinkFunc(func(e track.Event) error {
			if e.Step == 3 {
				return traintest.ErrBroken
			}
			return nil
		}))
	}), traintest.ErrBroken)
	require.NoError(t, trainIn(t.Context(), dir, c, open))
	require.Equal(t, want, traintest.Files(t, dir))
}
