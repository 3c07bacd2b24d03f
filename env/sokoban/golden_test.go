package sokoban

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"vagen/env"
	"vagen/env/internal/words"
	"vagen/internal/golden"
	"vagen/reward"
)

// Sums may be added in another order than the original's.
var sums = golden.Tolerance{Abs: 1e-9}

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
	Kind     string  `json:"kind"`
	Response string  `json:"response"`
	Grid     string  `json:"grid"`
	Reward   float64 `json:"reward"`
	Done     bool    `json:"done"`
	Success  *bool   `json:"success"`
	Metrics  struct {
		Turn map[string]json.RawMessage `json:"turn_metrics"`
		Traj map[string]bool            `json:"traj_metrics"`
	} `json:"metrics"`
	ValidActions []string `json:"valid_actions"`
	Parsed       struct {
		Actions        []string          `json:"actions"`
		FormatCorrect  bool              `json:"format_correct"`
		FormatRewarded *bool             `json:"is_format_rewarded"`
		Observation    []reward.Relation `json:"observation_state"`
		Prediction     []reward.Relation `json:"prediction_state"`
	} `json:"parsed"`
	RoomState []string `json:"room_state"`
	OnTarget  int      `json:"boxes_on_target"`
	Player    [2]int   `json:"player"`
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
	for _, rules := range []Rules{Lite, Legacy} {
		t.Run(string(rules), func(t *testing.T) {
			name := "envs/sokoban_" + string(rules) + ".json"
			var file struct{ Episodes []episode }
			golden.Read(t, name, &file)
			tally := golden.NewTally(t, name)
			for _, ep := range file.Episodes {
				tally.Case()
				playEpisode(t, tally, rules, ep)
			}
		})
	}
}

func playEpisode(t *testing.T, tally *golden.Tally, rules Rules, ep episode) {
	what := fmt.Sprintf("%s seed %d", ep.Name, ep.Seed)
	ctx := context.Background()
	ep.Config["rules"] = string(rules)
	made, err := FromConfig(ep.Config)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	e := made.(*Env)
	if _, err := e.Reset(ctx, ep.Seed); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	fixed, state := digits(e.room)
	equalLists(t, tally, what+": fixed", fixed, ep.Initial.Fixed)
	equalLists(t, tally, what+": state", state, ep.Initial.State)
	golden.Equal(t, tally, what+": player", [2]int{e.room.player.Row, e.room.player.Col}, ep.Initial.Player)
	golden.Equal(t, tally, what+": grid", e.room.Text(rules), ep.ResetGrid)
	if ep.ResetState != nil {
		equalLists(t, tally, what+": relations", e.room.Relations(), ep.ResetState)
	}
	total := 0.0
	for i, s := range ep.Steps {
		what := fmt.Sprintf("%s turn %d (%s, %q)", what, i, s.Kind, s.Response)
		out, err := e.Step(ctx, s.Response)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		compareTurn(t, tally, what, e, out, s)
		total += out.Reward.Sum()
	}
	golden.Equal(t, tally, what+": extra reward of the end", ep.ComputeReward, 0)
	tally.Float(t, what+": total reward", total, ep.TotalReward, sums)
}

func compareTurn(t *testing.T, tally *golden.Tally, what string, e *Env, out env.Outcome, s step) {
	tally.Float(t, what+": reward", out.Reward.Sum(), s.Reward, sums)
	golden.Equal(t, tally, what+": done", out.Done, s.Done)
	golden.Equal(t, tally, what+": grid", e.room.Text(e.o.Rules), s.Grid)
	golden.Equal(t, tally, what+": player", [2]int{e.room.player.Row, e.room.player.Col}, s.Player)
	golden.Equal(t, tally, what+": boxes on target", e.onTarget, s.OnTarget)
	_, state := digits(e.room)
	equalLists(t, tally, what+": state", state, s.RoomState)
	if s.Success != nil {
		golden.Equal(t, tally, what+": success", out.Success, *s.Success)
	}
	golden.Equal(t, tally, what+": number of turn metrics", len(out.Turn), len(s.Metrics.Turn))
	for name, raw := range s.Metrics.Turn {
		golden.Equal(t, tally, what+": "+name, out.Turn[name], metric(t, raw))
	}
	for name, want := range s.Metrics.Traj {
		golden.Equal(t, tally, what+": "+name, out.Trajectory[name], words.Number(want))
	}
	equalLists(t, tally, what+": actions", out.Response.Actions, s.Parsed.Actions)
	golden.Equal(t, tally, what+": format", out.Response.FormatCorrect, s.Parsed.FormatCorrect)
	text := e.observationText(e.room.Text(e.o.Rules), s.ValidActions, false)
	if e.draw == nil {
		golden.Equal(t, tally, what+": observation", out.Observation.Text, text)
	}
	if s.Parsed.FormatRewarded != nil {
		golden.Equal(t, tally, what+": format rewarded", out.Reward.Of(PartFormat) != 0, *s.Parsed.FormatRewarded)
	}
	golden.Equal(t, tally, what+": state reward", len(out.Claims) > 0, s.Parsed.Observation != nil || s.Parsed.Prediction != nil)
	for _, c := range out.Claims {
		want := s.Parsed.Observation
		if c.Section == reward.SectionPrediction {
			want = s.Parsed.Prediction
		}
		equalLists(t, tally, what+": claim about "+c.Section, c.Truth, want)
	}
}

func metric(t *testing.T, raw json.RawMessage) float64 {
	var b bool
	if json.Unmarshal(raw, &b) == nil {
		return words.Number(b)
	}
	var f float64
	if err := json.Unmarshal(raw, &f); err != nil {
		t.Fatalf("metric %s: %v", raw, err)
	}
	return f
}

func equalLists[T comparable](t *testing.T, tally *golden.Tally, what string, got, want []T) {
	t.Helper()
	tally.Add(1)
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// The recorded rooms are those of the original generators, without retries
// (testdata/envs/levels_*.json).
func TestRoomsEqualTheOriginals(t *testing.T) {
	for _, rules := range []Rules{Lite, Legacy} {
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
		tally := golden.NewTally(t, name+" (Sokoban)")
		for _, c := range file.Cases {
			if c.Env != "sokoban_"+string(rules) {
				continue
			}
			tally.Case()
			what := fmt.Sprintf("%s seed %d, %v with %d boxes", rules, c.Seed, c.Dim, c.Boxes)
			room, err := Generate(rules, c.Seed, c.Dim[0], c.Dim[1], c.Boxes)
			golden.Equal(t, tally, what+": failed", errors.Is(err, ErrRoom), c.Error)
			if err != nil || c.Error {
				continue
			}
			fixed, state := digits(room)
			equalLists(t, tally, what+": fixed", fixed, c.Fixed)
			equalLists(t, tally, what+": state", state, c.State)
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
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Retry [][2]int64 `json:"retry_seed_hashseed0"`
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	tally := golden.NewTally(t, "envs/rng.json (retry seeds)")
	for _, pair := range file.Retry {
		tally.Case()
		golden.Equal(t, tally, fmt.Sprintf("seed %d", pair[0]), RetryHash.Next(pair[0]), pair[1])
	}
}

type judgedEpisode struct {
	Env    string
	Config map[string]any
	Seed   int64
	Keep   int `json:"top_strings_m"`
	TopK   int `json:"top_strings_k"`
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
	tally := golden.NewTally(t, file+" (service, Sokoban)")
	for i, ep := range recorded.Service {
		if ep.Env != "sokoban" {
			continue
		}
		tally.Case()
		playJudged(t, tally, fmt.Sprintf("episode %d", i), ep)
	}
}

func playJudged(t *testing.T, tally *golden.Tally, what string, ep judgedEpisode) {
	ep.Config["rules"] = string(Legacy)
	made, err := FromConfig(ep.Config)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if _, err := made.Reset(context.Background(), ep.Seed); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	scorer := reward.SokobanScorer()
	scorer.Keep, scorer.TopK = ep.Keep, ep.TopK
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
