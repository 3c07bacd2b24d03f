package frozenlake

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/internal/envtest"
	"vagen/env/internal/recorded"
	"vagen/internal/golden"
	"vagen/reward"
)

type episode struct {
	Config  map[string]any `json:"config"`
	Name    string         `json:"config_name"`
	Seed    int64          `json:"seed"`
	Initial struct {
		Desc   []string `json:"desc"`
		Player [2]int   `json:"player"`
	} `json:"initial"`
	ResetGrid     string            `json:"reset_grid"`
	ResetState    []reward.Relation `json:"reset_env_state"`
	Steps         []step            `json:"steps"`
	TotalReward   float64           `json:"total_reward"`
	ComputeReward float64           `json:"compute_reward"`
}

type step struct {
	recorded.Turn
	GymUniforms []float64 `json:"gym_uniforms"`
	SlipDraws   [][2]any  `json:"slip_draws"`
}

// replay is the randomness of a recorded episode: gym's numbers must be those of the
// recording, the slips of the lite rules, which the original didn't seed, are
// taken from it.
type replay struct {
	streams
	*golden.Run
	gyms  []float64
	slips [][2]any
}

func (p *replay) gym() float64 {
	u := p.streams.gym()
	if len(p.gyms) > 0 {
		p.Equal("gym's uniform number", u, p.gyms[0])
		p.gyms = p.gyms[1:]
	}
	return u
}

func (p *replay) next(kind string) float64 {
	if len(p.slips) == 0 || p.slips[0][0] != kind {
		p.Fatalf("a draw of kind %q was made, recorded is %v", kind, p.slips)
	}
	x := p.slips[0][1].(float64)
	p.slips = p.slips[1:]
	return x
}

func (p *replay) slip() float64 { return p.next("u") }

func (p *replay) side(n int) int {
	// Recorded is the move itself: 1, 3 for a horizontal one, 0, 2 for a vertical.
	return int(p.next("perp")) / n
}

// The recorded episodes are those of the original environments
// (testdata/envs/frozenlake_*.json). Levels come from the seed, so that drawing
// them and playing on them are compared at once.
func TestEpisodesEqualTheOriginals(t *testing.T) {
	for _, rules := range []env.Rules{env.Lite, env.Legacy} {
		t.Run(string(rules), func(t *testing.T) {
			name := "envs/frozenlake_" + string(rules) + ".json"
			var file struct{ Episodes []episode }
			golden.Read(t, name, &file)
			r := golden.Of(t, name)
			for _, ep := range file.Episodes {
				playEpisode(r.Next("%s seed %d", ep.Name, ep.Seed), rules, ep)
			}
		})
	}
}

func playEpisode(r *golden.Run, rules env.Rules, ep episode) {
	ep.Config["rules"] = string(rules)
	made, err := FromConfig(ep.Config)
	require.NoError(r, err, ep.Name)
	e := made.(*Env)
	play := &replay{Run: r}
	e.random = play
	envtest.Reset(r, e, ep.Seed)
	recorded.Lists(r, "level", e.level.Rows(), ep.Initial.Desc)
	r.Equal("player", [2]int{e.at.Row, e.at.Col}, ep.Initial.Player)
	r.Equal("grid", e.level.Text(rules, e.at), ep.ResetGrid)
	if ep.ResetState != nil {
		recorded.Lists(r, "state", e.level.relations(e.at), ep.ResetState)
	}
	total := 0.0
	for i, s := range ep.Steps {
		r := r.In("turn %d (%s, %q)", i, s.Kind, s.Response)
		play.gyms, play.slips = s.GymUniforms, s.SlipDraws
		out := envtest.Play(r, e, s.Response)
		compareTurn(r, e, out, s)
		total += out.Reward.Sum()
		r.Equal("slip draws left", len(play.slips), 0)
	}
	r.Equal("extra reward of the end", ep.ComputeReward, 0.0)
	r.Equal("number of turns", len(ep.Steps) > 0, true)
	r.Within("total reward", total, ep.TotalReward, recorded.Sums)
}

func compareTurn(r *golden.Run, e *Env, out env.Outcome, s step) {
	s.Compare(r, out, partFormat)
	r.Equal("grid", e.level.Text(e.o.Rules, e.at), s.Grid)
	r.Equal("player", [2]int{e.at.Row, e.at.Col}, s.Player)
	if e.draw == nil {
		text := e.observationText(e.level.Text(e.o.Rules, e.at), s.ValidActions, false)
		r.Equal("observation", out.Observation.Text, text)
	}
}

// The recorded levels are those of the original generators
// (testdata/envs/levels_*.json).
func TestLevelsEqualTheOriginals(t *testing.T) {
	for _, rules := range []env.Rules{env.Lite, env.Legacy} {
		name := "envs/levels_" + string(rules) + ".json"
		var file struct {
			Cases []struct {
				Env  string   `json:"env"`
				Size int      `json:"size"`
				P    float64  `json:"p"`
				Seed int64    `json:"seed"`
				Desc []string `json:"desc"`
			}
		}
		golden.Read(t, name, &file)
		all := golden.Of(t, name+" (FrozenLake)")
		for _, c := range file.Cases {
			if c.Env != "frozenlake_"+string(rules) {
				continue
			}
			r := all.Next("%s seed %d size %d p %v", rules, c.Seed, c.Size, c.P)
			m, err := Generate(rules, c.Seed, c.Size, c.P)
			require.NoError(t, err, c.Seed)
			recorded.Lists(r, "level", m.Rows(), c.Desc)
		}
	}
}
