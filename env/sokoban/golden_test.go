package sokoban

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/internal/envtest"
	"vagen/env/internal/recorded"
	"vagen/internal/golden"
	"vagen/internal/testkit"
	"vagen/reward"
)

type episode struct {
	Config  map[string]any `json:"config"`
	Name    string         `json:"config_name"`
	Seed    int64          `json:"seed"`
	Initial struct {
		Fixed  []string `json:"room_fixed"`
		State  []string `json:"room_state"`
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
	RoomState []string `json:"room_state"`
	OnTarget  int      `json:"boxes_on_target"`
}

// digits writes a room as the originals number it: fixed cells, and with them
// boxes on targets 3, boxes 4 and the player 5.
func digits(r *Room) (fixed, state []string) {
	for row := range r.rows {
		var f, s []byte
		for col := range r.cols {
			c := Cell{row, col}
			kind := r.fixed[r.index(c)]
			f = append(f, '0'+kind)
			switch {
			case c == r.player:
				kind = 5
			case r.Box(c) && kind == target:
				kind = 3
			case r.Box(c):
				kind = 4
			}
			s = append(s, '0'+kind)
		}
		fixed, state = append(fixed, string(f)), append(state, string(s))
	}
	return fixed, state
}

// The recorded episodes are those of the original environments, run with
// PYTHONHASHSEED=0 (testdata/envs/sokoban_*.json). Rooms come from the seed, so
// that making them and playing in them are compared at once.
func TestEpisodesEqualTheOriginals(t *testing.T) {
	for _, rules := range []env.Rules{env.Lite, env.Legacy} {
		t.Run(string(rules), func(t *testing.T) {
			name := "envs/sokoban_" + string(rules) + ".json"
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
	envtest.Reset(r, e, ep.Seed)
	fixed, state := digits(e.room)
	recorded.Lists(r, "fixed", fixed, ep.Initial.Fixed)
	recorded.Lists(r, "state", state, ep.Initial.State)
	r.Equal("player", [2]int{e.room.player.Row, e.room.player.Col}, ep.Initial.Player)
	r.Equal("grid", e.room.Text(rules), ep.ResetGrid)
	if ep.ResetState != nil {
		recorded.Lists(r, "relations", e.room.relations(), ep.ResetState)
	}
	total := 0.0
	for i, s := range ep.Steps {
		r := r.In("turn %d (%s, %q)", i, s.Kind, s.Response)
		out := envtest.Play(r, e, s.Response)
		compareTurn(r, e, out, s)
		total += out.Reward.Sum()
	}
	r.Equal("extra reward of the end", ep.ComputeReward, 0.0)
	r.Within("total reward", total, ep.TotalReward, recorded.Sums)
}

func compareTurn(r *golden.Run, e *Env, out env.Outcome, s step) {
	s.Compare(r, out, partFormat)
	r.Equal("grid", e.room.Text(e.o.Rules), s.Grid)
	r.Equal("player", [2]int{e.room.player.Row, e.room.player.Col}, s.Player)
	r.Equal("boxes on target", e.onTarget, s.OnTarget)
	_, state := digits(e.room)
	recorded.Lists(r, "state", state, s.RoomState)
	if e.draw == nil {
		text := e.observationText(e.room.Text(e.o.Rules), s.ValidActions, false)
		r.Equal("observation", out.Observation.Text, text)
	}
}

// The recorded rooms are those of the original generators, without retries
// (testdata/envs/levels_*.json).
func TestRoomsEqualTheOriginals(t *testing.T) {
	for _, rules := range []env.Rules{env.Lite, env.Legacy} {
		name := "envs/levels_" + string(rules) + ".json"
		var file struct {
			Cases []struct {
				Env   string   `json:"env"`
				Dim   [2]int   `json:"dim_room"`
				Boxes int      `json:"num_boxes"`
				Seed  int64    `json:"seed"`
				Fixed []string `json:"room_fixed"`
				State []string `json:"room_state"`
				Error bool     `json:"error"`
			}
		}
		golden.Read(t, name, &file)
		all := golden.Of(t, name+" (Sokoban)")
		for _, c := range file.Cases {
			if c.Env != "sokoban_"+string(rules) {
				continue
			}
			r := all.Next("%s seed %d, %v with %d boxes", rules, c.Seed, c.Dim, c.Boxes)
			room, err := Generate(rules, c.Seed, c.Dim[0], c.Dim[1], c.Boxes)
			r.Equal("failed", errors.Is(err, ErrRoom), c.Error)
			if err != nil || c.Error {
				continue
			}
			fixed, state := digits(room)
			recorded.Lists(r, "fixed", fixed, c.Fixed)
			recorded.Lists(r, "state", state, c.State)
		}
	}
}

// The recorded seeds are Python's, with PYTHONHASHSEED=0 (testdata/envs/rng.json).
// A folder of recorded numbers may come without that file; one recording serves
// all of them.
func TestRetrySeedsEqualPythons(t *testing.T) {
	path := golden.Path(t, "envs", "rng.json")
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		path = filepath.Join("..", "..", "testdata", "envs", "rng.json")
	}
	raw := testkit.Read(t, path)
	var file struct {
		Retry [][2]int64 `json:"retry_seed_hashseed0"`
	}
	require.NoError(t, json.Unmarshal(raw, &file))
	r := golden.Of(t, "envs/rng.json (retry seeds)")
	for _, pair := range file.Retry {
		r := r.Next("seed %d", pair[0])
		r.Equal("next", RetryHash.Next(pair[0]), pair[1])
	}
}
