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
	for name, part := range map[string]func(*golden.Run, *stateFile){
		"bipartite": compareBipartite, "matching": compareMatching, "relations": compareRelations,
		"top_strings": compareTopStrings, "json_extract": compareExtract,
	} {
		t.Run(name, func(t *testing.T) {
			part(golden.Of(t, file+" ("+name+")"), &recorded)
		})
	}
}

func compareBipartite(all *golden.Run, f *stateFile) {
	for i, c := range f.Bipartite {
		r := all.Next("case %d", i)
		s := AssignmentScorer{Weights: c.Weights}
		r.Within("score", s.Compare(c.Predicted, c.GroundTruth), c.Expected, exactly)
	}
}

func compareMatching(all *golden.Run, f *stateFile) {
	for i, c := range f.Matching {
		r := all.Next("case %d", i)
		n := exactMatches(c.Predicted, c.GroundTruth)
		r.Equal("matches", n, c.Expected.Matches)
		f1 := 0.0 // where both are empty, this one of the original's two formulas has 0
		if len(c.Predicted)+len(c.GroundTruth) > 0 {
			f1 = F1(float64(n), len(c.Predicted), len(c.GroundTruth))
		}
		r.Within("f1", f1, c.Expected.F1, exactly)
	}
	for _, c := range f.F1Score {
		all.Next("f1%v", c.Args).Within("f1", F1(c.Args[0], int(c.Args[1]), int(c.Args[2])), c.Expected, exactly)
	}
}

func compareRelations(all *golden.Run, f *stateFile) {
	for i, c := range slices.Concat(f.Sokoban, f.FrozenLake) {
		run := all.Next("case %d", i)
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
		run.Equal("relations", list, c.List)
		run.Equal("sentences", sentences, c.Sentences)
	}
}

func compareTopStrings(all *golden.Run, f *stateFile) {
	decode := func(raw json.RawMessage, dst any) {
		require.NoError(all, json.Unmarshal(raw, dst), string(raw))
	}
	for i, c := range f.TopStrings {
		r := all.Next("case %d", i)
		var top topStrings
		for k, op := range c.Ops {
			r := r.In("op %d (%s %s)", k, op.Op, op.Arg)
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
				r.Add(1)
				require.ElementsMatch(r, want, top.top(n))
			case "size":
				var want int
				decode(op.Expected, &want)
				r.Equal("number", len(top.seen), want)
			case "counts":
				var want map[string]int
				decode(op.Expected, &want)
				r.Equal("number", len(top.seen), len(want))
				for text, n := range want {
					r.Equal(text, top.seen[text].count, n)
				}
			default:
				r.Fatalf("unknown operation %s", op.Op)
			}
		}
	}
}

func compareExtract(all *golden.Run, f *stateFile) {
	for _, c := range f.Extract {
		r := all.Next("%q", c.Text)
		got, ok := answer.List(c.Text)
		r.Equal("found", ok, c.Expected != nil)
		r.Equal("length", len(got), len(c.Expected))
		for i := range min(len(got), len(c.Expected)) {
			for name, value := range c.Expected[i] {
				if value == "NaN" { // how the recording writes a number that is none
					value = nil
				}
				r.Equal(name, fmt.Sprint(got[i][name]), fmt.Sprint(value))
			}
		}
	}
}
