package frozenlake

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"vagen/env"
	"vagen/internal/golden"
	"vagen/reward"
)

type judgedEpisode struct {
	Env    string
	Config map[string]any
	Seed   int64
	Turns  []struct {
		Response string
		Judge    []struct {
			Type, Content string
			State         []reward.Relation
			EnvName       string             `json:"env_name"`
			Parsed        *[]reward.Relation `json:"parsed_response"`
		}
		Reward  float64
		Done    bool
		Metrics map[string]json.RawMessage `json:"turn_metrics"`
	}
}

// Recorded from whole steps of the legacy service with a scripted judge
// (testdata/envs/state_reward.json, part service).
func TestJudgedTurnsEqualTheOriginal(t *testing.T) {
	const file = "envs/state_reward.json"
	var recorded struct{ Service []judgedEpisode }
	golden.Read(t, file, &recorded)
	tally := golden.NewTally(t, file+" (service, FrozenLake)")
	for i, ep := range recorded.Service {
		if ep.Env != "frozenlake" {
			continue
		}
		tally.Case()
		what := fmt.Sprintf("episode %d", i)
		ep.Config["rules"] = string(Legacy)
		made, err := FromConfig(ep.Config)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if _, err := made.Reset(context.Background(), ep.Seed); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		scorer := reward.FrozenLakeScorer()
		for k, turn := range ep.Turns {
			what := fmt.Sprintf("%s turn %d", what, k)
			out, err := made.Step(context.Background(), turn.Response)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			golden.Equal(t, tally, what+": claims", len(out.Claims), len(turn.Judge))
			var readings []reward.Reading
			for j, c := range out.Claims {
				judge := turn.Judge[j]
				golden.Equal(t, tally, what+": kind of claim", env.ClaimMetric(c.Section), judge.Type+"_reward")
				golden.Equal(t, tally, what+": claim", c.Text, judge.Content)
				golden.Equal(t, tally, what+": environment", c.Env, judge.EnvName)
				equalLists(t, tally, what+": truth", c.Truth, judge.State)
				reading := reward.Reading{Claim: c, OK: judge.Parsed != nil}
				if reading.OK {
					reading.Relations = *judge.Parsed
				}
				readings = append(readings, reading)
			}
			if err := out.PayClaims(scorer.Score(readings)); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			tally.Float(t, what+": reward", out.Reward.Sum(), turn.Reward, sums)
			golden.Equal(t, tally, what+": done", out.Done, turn.Done)
			golden.Equal(t, tally, what+": number of metrics", len(out.Turn), len(turn.Metrics))
			for name, raw := range turn.Metrics {
				tally.Float(t, what+": "+name, out.Turn[name], metric(t, raw), sums)
			}
		}
	}
}
