package builtin

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/frozenlake"
	"vagen/env/internal/recorded"
	"vagen/env/sokoban"
	"vagen/internal/golden"
	"vagen/reward"
)

// judged is an episode of the legacy service with a scripted judge.
type judged struct {
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

// Recorded from whole steps of the legacy service with a scripted judge
// (testdata/envs/state_reward.json, part service).
func TestJudgedTurnsEqualTheOriginal(t *testing.T) {
	const file = "envs/state_reward.json"
	var list struct{ Service []judged }
	golden.Read(t, file, &list)
	for _, c := range []struct {
		name   string
		open   env.Factory
		scorer func(judged) reward.Scorer
	}{
		{"FrozenLake", frozenlake.FromConfig, func(judged) reward.Scorer { return reward.FrozenLakeScorer() }},
		{"Sokoban", sokoban.FromConfig, func(ep judged) reward.Scorer {
			s := reward.SokobanScorer()
			s.Keep, s.TopK = ep.Keep, ep.TopK
			return s
		}},
	} {
		tally := golden.NewTally(t, file+" (service, "+c.name+")")
		for i, ep := range list.Service {
			if ep.Env != strings.ToLower(c.name) {
				continue
			}
			tally.Case()
			what := fmt.Sprintf("%s episode %d", c.name, i)
			ep.Config["rules"] = "legacy"
			e, err := c.open(ep.Config)
			require.NoError(t, err, what)
			_, err = e.Reset(t.Context(), ep.Seed)
			require.NoError(t, err, what)
			by := c.scorer(ep)
			for k, turn := range ep.Turns {
				out, err := e.Step(t.Context(), turn.Response)
				require.NoError(t, err, what)
				turn.compare(t, tally, fmt.Sprintf("%s turn %d", what, k), out, by)
			}
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
		recorded.Lists(t, tally, what+": truth", c.Truth, judge.State)
		reading := reward.Reading{Claim: c, OK: judge.Parsed != nil}
		if reading.OK {
			reading.Relations = *judge.Parsed
		}
		readings = append(readings, reading)
	}
	require.NoError(t, out.PayClaims(by.Score(readings)), what)
	tally.Float(t, what+": reward", out.Reward.Sum(), s.Reward, recorded.Sums)
	golden.Equal(t, tally, what+": done", out.Done, s.Done)
	golden.Equal(t, tally, what+": number of metrics", len(out.Turn), len(s.Metrics))
	for name, raw := range s.Metrics {
		tally.Float(t, what+": "+name, out.Turn[name], recorded.Metric(t, raw), recorded.Sums)
	}
}
