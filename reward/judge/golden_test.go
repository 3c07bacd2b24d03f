package judge

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"vagen/internal/golden"
	"vagen/reward"
	"vagen/reward/internal/answer"
	"vagen/reward/judge/internal/read"
)

// Recorded from VAGEN next (testdata/algorithms_next/relations.json): the
// scores of relations, its reader of a judge's answers, and its reader of exact
// sentences. What is true of a room is compared in package sokoban.
func TestRelationsAreReadAndScoredAsInTheOriginal(t *testing.T) {
	const file = "algorithms_next/relations.json"
	var recorded struct{ Cases []golden.Case }
	golden.Read(t, file, &recorded)
	tally := golden.NewTally(t, file)
	for _, c := range recorded.Cases {
		kind, _, _ := strings.Cut(c.Name, "/")
		switch kind {
		case "relation_f1":
			tally.Case()
			compareScores(t, tally, c)
		case "parse_items":
			tally.Case()
			compareItems(t, tally, c)
		case "exact_relations":
			tally.Case()
			text := golden.Value[string](t, c.Inputs, "text")
			want := golden.Value[[]reward.Relation](t, c.Expected, "items")
			compareRelations(t, tally, c.Name, read.Literal(reward.Claim{Env: "sokoban", Text: text}), want)
		case "sokoban_relations":
		default:
			t.Fatalf("%s: recorded kind %q has no counterpart", c.Name, kind)
		}
	}
}

func compareRelations(t *testing.T, tally *golden.Tally, what string, got, want []reward.Relation) {
	t.Helper()
	golden.Equal(t, tally, what+": relations", len(got), len(want))
	for i := range min(len(got), len(want)) {
		golden.Equal(t, tally, fmt.Sprintf("%s: relation %d", what, i),
			[3]string{got[i].Object, got[i].Vertical, got[i].Horizontal},
			[3]string{want[i].Object, want[i].Vertical, want[i].Horizontal})
	}
}

func compareItems(t *testing.T, tally *golden.Tally, c golden.Case) {
	t.Helper()
	var text string
	var ok float64
	want := []map[string]any{}
	golden.Need(t, c.Inputs, "text", &text)
	golden.Need(t, c.Expected, "ok", &ok)
	golden.Need(t, c.Expected, "items", &want)
	got, found := answer.Outer(text)
	golden.Equal(t, tally, c.Name+": ok", found, ok == 1)
	tally.Add(1)
	if found && !reflect.DeepEqual(got, want) {
		t.Errorf("%s: items %v of %q, want %v", c.Name, got, text, want)
	}
}

func compareScores(t *testing.T, tally *golden.Tally, c golden.Case) {
	t.Helper()
	var said, truth []reward.Relation
	weights := map[string]float64{}
	golden.Need(t, c.Inputs, "predicted", &said)
	golden.Need(t, c.Inputs, "gold", &truth)
	golden.Need(t, c.Params, "object_weights", &weights)
	grouped := (&reward.AssignmentScorer{Weights: weights, Other: 1}).Compare(said, truth)
	matched := reward.Similarity(said, truth)
	for name := range c.Expected {
		var want, got float64
		golden.Need(t, c.Expected, name, &want)
		base, isBase := strings.CutPrefix(name, "above_base_")
		switch {
		case name == "f1":
			got = reward.F1(matched, len(said), len(truth))
		case name == "matched":
			got = matched
		case name == "grouped_f1":
			got = grouped
		case isBase:
			var b float64
			if _, err := fmt.Sscan(base, &b); err != nil {
				t.Fatalf("%s: %q: %v", c.Name, name, err)
			}
			got = reward.AboveBase(grouped, b)
		default:
			t.Fatalf("%s: recorded value %q has no counterpart", c.Name, name)
		}
		tally.Add(1)
		if !c.Tolerance.Within(got, want) {
			t.Errorf("%s: %s is %v, want %v", c.Name, name, got, want)
		}
	}
}
