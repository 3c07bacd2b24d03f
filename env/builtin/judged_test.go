package builtin

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/frozenlake"
	"vagen/env/internal/envtest"
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
		all := golden.Of(t, file+" (service, "+c.name+")")
		for i, ep := range list.Service {
			if ep.Env != strings.ToLower(c.name) {
				continue
			}
			r := all.Next("episode %d", i)
			ep.Config["rules"] = "legacy"
			e, err := c.open(ep.Config)
			require.NoError(t, err)
			envtest.Reset(t, e, ep.Seed)
			by := c.scorer(ep)
			for k, turn := range ep.Turns {
				turn.compare(r.In("turn %d", k), envtest.Play(t, e, turn.Response), by)
			}
		}
	}
}

func (s *judgedTurn) compare(r *golden.Run, out env.Outcome, by reward.Scorer) {
	r.Helper()
	r.Equal("claims", len(out.Claims), len(s.Judge))
	var readings []reward.Reading
	for j, c := range out.Claims {
		judge := s.Judge[j]
		r.Equal("kind of claim", env.ClaimMetric(c.Section), judge.Type+"_reward")
		r.Equal("claim", c.Text, judge.Content)
		r.Equal("environment", c.Env, judge.EnvName)
		recorded.Lists(r, "truth", c.Truth, judge.State)
		reading := reward.Reading{Claim: c, OK: judge.Parsed != nil}
		if reading.OK {
			reading.Relations = *judge.Parsed
		}
		readings = append(readings, reading)
	}
	require.NoError(r, out.PayClaims(by.Score(readings)))
	r.Within("reward", out.Reward.Sum(), s.Reward, recorded.Sums)
	r.Equal("done", out.Done, s.Done)
	r.Equal("number of metrics", len(out.Turn), len(s.Metrics))
	for name, raw := range s.Metrics {
		r.Within(name, out.Turn[name], recorded.Metric(r, raw), recorded.Sums)
	}
}
