package reward

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
	"vagen/reward/internal/answer"
)

// Scores are sums and quotients of few small numbers.
var exactly = golden.Tolerance{Abs: 1e-9}

type stateFile struct {
	Bipartite []struct {
		Predicted, GroundTruth []Relation
		Weights                map[string]float64
		Expected               float64
	}
	Matching []struct {
		Predicted, GroundTruth []Relation
		Expected               struct {
			F1             float64
			Matches        int
			TotalPredicted int `json:"total_predicted"`
			TotalTrue      int `json:"total_ground_truth"`
		}
	} `json:"f1_max_matching"`
	F1Score []struct {
		Args     [3]float64
		Expected float64
	} `json:"f1_score"`
	Sokoban    []relationCase `json:"relations_sokoban"`
	FrozenLake []relationCase `json:"relations_frozenlake"`
	TopStrings []struct {
		M   int
		Ops []struct {
			Op            string
			Arg, Expected json.RawMessage
		}
	} `json:"top_strings"`
	Extract []struct {
		Text     string
		Expected []map[string]any
	} `json:"json_extract"`
}

type relationCase struct {
	State struct {
		Player  [2]int   `json:"player_position"`
		Target  *[2]int  `json:"target_position"`
		Targets [][2]int `json:"target_positions"`
		Boxes   [][2]int `json:"box_positions"`
		Holes   [][2]int `json:"hole_positions"`
	}
	List      []Relation
	Sentences []string
}

// Recorded from the legacy system's state reward (testdata/envs/state_reward.json).
func TestStateRewardEqualsTheOriginal(t *testing.T) {
	const file = "envs/state_reward.json"
	var recorded stateFile
	golden.Read(t, file, &recorded)
	for name, part := range map[string]func(*testing.T, *golden.Tally, *stateFile){
		"bipartite": compareBipartite, "matching": compareMatching, "relations": compareRelations,
		"top_strings": compareTopStrings, "json_extract": compareExtract,
	} {
		t.Run(name, func(t *testing.T) {
			part(t, golden.NewTally(t, file+" ("+name+")"), &recorded)
		})
	}
}

func compareBipartite(t *testing.T, tally *golden.Tally, f *stateFile) {
	for i, c := range f.Bipartite {
		tally.Case()
		s := AssignmentScorer{Weights: c.Weights}
		tally.Float(t, fmt.Sprintf("case %d", i), s.Compare(c.Predicted, c.GroundTruth), c.Expected, exactly)
	}
}

func compareMatching(t *testing.T, tally *golden.Tally, f *stateFile) {
	for i, c := range f.Matching {
		tally.Case()
		n := exactMatches(c.Predicted, c.GroundTruth)
		golden.Equal(t, tally, fmt.Sprintf("case %d: matches", i), n, c.Expected.Matches)
		f1 := 0.0 // where both are empty, this one of the original's two formulas has 0
		if len(c.Predicted)+len(c.GroundTruth) > 0 {
			f1 = F1(float64(n), len(c.Predicted), len(c.GroundTruth))
		}
		tally.Float(t, fmt.Sprintf("case %d: f1", i), f1, c.Expected.F1, exactly)
	}
	for _, c := range f.F1Score {
		tally.Case()
		tally.Float(t, fmt.Sprintf("f1%v", c.Args), F1(c.Args[0], int(c.Args[1]), int(c.Args[2])), c.Expected, exactly)
	}
}

func compareRelations(t *testing.T, tally *golden.Tally, f *stateFile) {
	for i, c := range slices.Concat(f.Sokoban, f.FrozenLake) {
		tally.Case()
		from := func(base, at [2]int) (int, int) { return at[0] - base[0], at[1] - base[1] }
		var list []Relation
		var sentences []string
		add := func(object, name string, at [2]int, speak bool) {
			rows, cols := from(c.State.Player, at)
			r := Relate(object, rows, cols)
			if speak {
				sentences = append(sentences, r.Sentence(name, "the player"))
			} else {
				list = append(list, r)
			}
		}
		numbered := func(name string, places [][2]int, speak bool) {
			for k, at := range places {
				add(name, fmt.Sprintf("%s%d", name, k), at, speak)
			}
		}
		if c.State.Target != nil {
			for _, speak := range []bool{false, true} {
				add("target", "target", *c.State.Target, speak)
				numbered("hole", c.State.Holes, speak)
			}
		} else {
			numbered("target", c.State.Targets, false)
			numbered("box", c.State.Boxes, false)
			numbered("box", c.State.Boxes, true)
			numbered("target", c.State.Targets, true)
			for k, target := range c.State.Targets {
				for b, box := range c.State.Boxes {
					rows, cols := from(box, target)
					sentences = append(sentences, Relate("", rows, cols).Sentence(fmt.Sprintf("target%d", k), fmt.Sprintf("box%d", b)))
				}
			}
		}
		tally.Add(2)
		require.Equal(t, c.List, list, "case %d: relations", i)
		require.Equal(t, c.Sentences, sentences, "case %d: sentences", i)
	}
}

func compareTopStrings(t *testing.T, tally *golden.Tally, f *stateFile) {
	decode := func(raw json.RawMessage, dst any) {
		require.NoError(t, json.Unmarshal(raw, dst), string(raw))
	}
	for i, c := range f.TopStrings {
		tally.Case()
		var top topStrings
		for k, op := range c.Ops {
			what := fmt.Sprintf("case %d op %d (%s %s)", i, k, op.Op, op.Arg)
			switch op.Op {
			case "add_strings":
				var texts []string
				decode(op.Arg, &texts)
				for _, text := range texts {
					top.add(text, 1)
				}
			case "add_string_dict":
				var counts map[string]int
				decode(op.Arg, &counts)
				for text, n := range counts {
					top.add(text, n)
				}
			case "trim_to_m":
				top.trim(c.M)
			case "get_top_k":
				var n int
				var want []string
				decode(op.Arg, &n)
				decode(op.Expected, &want)
				tally.Add(1)
				require.ElementsMatch(t, want, top.top(n), what)
			case "size":
				var want int
				decode(op.Expected, &want)
				golden.Equal(t, tally, what, len(top.seen), want)
			case "counts":
				var want map[string]int
				decode(op.Expected, &want)
				golden.Equal(t, tally, what+": number", len(top.seen), len(want))
				for text, n := range want {
					golden.Equal(t, tally, what+": "+text, top.seen[text].count, n)
				}
			default:
				t.Fatalf("%s: unknown operation", what)
			}
		}
	}
}

func compareExtract(t *testing.T, tally *golden.Tally, f *stateFile) {
	for _, c := range f.Extract {
		tally.Case()
		got, ok := answer.List(c.Text)
		golden.Equal(t, tally, fmt.Sprintf("%q: found", c.Text), ok, c.Expected != nil)
		golden.Equal(t, tally, fmt.Sprintf("%q: length", c.Text), len(got), len(c.Expected))
		for i := range min(len(got), len(c.Expected)) {
			for name, value := range c.Expected[i] {
				if value == "NaN" { // how the recording writes a number that is none
					value = nil
				}
				golden.Equal(t, tally, fmt.Sprintf("%q: %s", c.Text, name), fmt.Sprint(got[i][name]), fmt.Sprint(value))
			}
		}
	}
}
