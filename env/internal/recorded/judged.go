package recorded

import (
	"encoding/json"
	"fmt"
	"testing"

	"vagen/env"
	"vagen/internal/golden"
	"vagen/reward"
)

// Episode is an episode of the legacy service with a scripted judge.
type Episode struct {
	Env    string
	Config map[string]any
	Seed   int64
	Keep   int `json:"top_strings_m"`
	TopK   int `json:"top_strings_k"`
	Turns  []judgedTurn
}

type judgedTurn struct {
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

// Judged plays the recorded episodes of an environment (testdata/envs/
// state_reward.json, part service) with claims rewarded by a scorer, and compares them
// turn by turn. name is used in the log.
func Judged(t *testing.T, environment, name string, open env.Factory, scorer func(Episode) reward.Scorer) {
	const file = "envs/state_reward.json"
	var recorded struct{ Service []Episode }
	golden.Read(t, file, &recorded)
	tally := golden.NewTally(t, file+" (service, "+name+")")
	for i, ep := range recorded.Service {
		if ep.Env != environment {
			continue
		}
		tally.Case()
		what := fmt.Sprintf("episode %d", i)
		ep.Config["rules"] = "legacy"
		made, err := open(ep.Config)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if _, err := made.Reset(t.Context(), ep.Seed); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		by := scorer(ep)
		for k, turn := range ep.Turns {
			out, err := made.Step(t.Context(), turn.Response)
			if err != nil {
				t.Fatalf("%s turn %d: %v", what, k, err)
			}
			turn.compare(t, tally, fmt.Sprintf("%s turn %d", what, k), out, by)
		}
	}
}

func (s *judgedTurn) compare(t *testing.T, tally *golden.Tally, what string, out env.Outcome, by reward.Scorer) {
	t.Helper()
	golden.Equal(t, tally, what+": claims", len(out.Claims), len(s.Judge))
	var readings []reward.Reading
	for j, c := range out.Claims {
		judge := s.Judge[j]
		golden.Equal(t, tally, what+": kind of claim", env.ClaimMetric(c.Section), judge.Type+"_reward")
		golden.Equal(t, tally, what+": claim", c.Text, judge.Content)
		golden.Equal(t, tally, what+": environment", c.Env, judge.EnvName)
		Lists(t, tally, what+": truth", c.Truth, judge.State)
		reading := reward.Reading{Claim: c, OK: judge.Parsed != nil}
		if reading.OK {
			reading.Relations = *judge.Parsed
		}
		readings = append(readings, reading)
	}
	if err := out.PayClaims(by.Score(readings)); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	tally.Float(t, what+": reward", out.Reward.Sum(), s.Reward, Sums)
	golden.Equal(t, tally, what+": done", out.Done, s.Done)
	golden.Equal(t, tally, what+": number of metrics", len(out.Turn), len(s.Metrics))
	for name, raw := range s.Metrics {
		tally.Float(t, what+": "+name, out.Turn[name], metric(t, raw), Sums)
	}
}
