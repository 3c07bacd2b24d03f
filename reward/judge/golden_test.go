package judge

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
	"vagen/reward"
	"vagen/reward/internal/answer"
	"vagen/reward/judge/internal/read"
)

// Recorded from VAGEN next (testdata/algorithms_next/relations.json): the
// scores of relations, its reader of a judge's answers, and its reader of exact
// sentences. What is true of a room is compared in package sokoban.
func TestRelationsAreReadAndScoredAsInTheOriginal(t *testing.T) {
	golden.Each(t, "algorithms_next/relations.json", func(c *golden.Run) {
		switch kind, _, _ := strings.Cut(c.Case.Name, "/"); kind {
		case "relation_f1":
			compareScores(c)
		case "parse_items":
			got, found := answer.Outer(golden.Input[string](c, "text"))
			c.Equal("ok", found, golden.Expected[float64](c, "ok") == 1)
			if found {
				golden.Same(c, "items", got)
			}
		case "exact_relations":
			got := read.Literal(reward.Claim{Env: "sokoban", Text: golden.Input[string](c, "text")})
			want := golden.Expected[[]reward.Relation](c, "items")
			c.Equal("relations", len(got), len(want))
			for i := range got {
				c.Equal("relation", [3]string{got[i].Object, got[i].Vertical, got[i].Horizontal},
					[3]string{want[i].Object, want[i].Vertical, want[i].Horizontal})
			}
		default:
			require.Equal(c, "sokoban_relations", kind, "the recorded kind has no counterpart")
		}
	})
}

func compareScores(c *golden.Run) {
	c.Helper()
	said, truth := golden.Input[[]reward.Relation](c, "predicted"), golden.Input[[]reward.Relation](c, "gold")
	weights := golden.Param[map[string]float64](c, "object_weights")
	grouped := (&reward.AssignmentScorer{Weights: weights, Other: 1}).Compare(said, truth)
	matched := reward.Similarity(said, truth)
	for name := range c.Expected {
		var got float64
		base, isBase := strings.CutPrefix(name, "above_base_")
		switch {
		case name == "f1":
			got = reward.F1(matched, len(said), len(truth))
		case name == "matched":
			got = matched
		case name == "grouped_f1":
			got = grouped
		case isBase:
			b, err := strconv.ParseFloat(base, 64)
			require.NoError(c, err, name)
			got = reward.AboveBase(grouped, b)
		default:
			c.Fatalf("the recorded value %q has no counterpart", name)
		}
		c.Number(name, got)
	}
}
