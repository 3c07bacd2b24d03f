package judge

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
	"vagen/reward"
)

// labelled is a description of a state with the relations that it asserts and the scores
// that it deserves (testdata/judge).
type labelled struct {
	ID, Env, Section, Category, Form, Text string
	Truth, Relations                       []reward.Relation
	Scores                                 map[string]any
	MayAbstain                             bool `json:"may_abstain"`
}

// bag counts relations that state something.
func bag(list []reward.Relation) map[[3]string]int {
	out := make(map[[3]string]int)
	for _, r := range list {
		if r.Vertical != "" || r.Horizontal != "" {
			out[[3]string{r.Object, r.Vertical, r.Horizontal}]++
		}
	}
	return out
}

// agreement counts relations: stated by text and label, by the text, by the label.
type agreement struct{ both, said, labelled int }

func (a *agreement) add(got, want map[[3]string]int) {
	for k, n := range got {
		a.said += n
		a.both += min(n, want[k])
	}
	for _, n := range want {
		a.labelled += n
	}
}

func (a agreement) f1() float64 { return reward.F1(float64(a.both), a.said, a.labelled) }

// The bounds leave room for phrasings that other sets of the same kind have: on the set
// that the reader was written with, F1 is 0.99 and no description is paid too much.
func TestLabelledDescriptionsAreReadAsLabelled(t *testing.T) {
	const file = "judge/labelled.json"
	var set struct{ Cases []labelled }
	golden.Read(t, file, &set)
	tally := golden.NewTally(t, file)
	var all agreement
	forms := map[string]*agreement{"natural": {}, "structured": {}, "symbolic": {}}
	paid, unscored := 0, 0
	for _, c := range set.Cases {
		tally.Case()
		claim := reward.Claim{Env: c.Env, Section: c.Section, Text: c.Text, Truth: c.Truth}
		got, want := bag(relations(claim)), bag(c.Relations)
		tally.Add(len(want))
		all.add(got, want)
		forms[c.Form].add(got, want)
		if n := len(got); n > 0 && len(want) == 0 {
			t.Logf("%s: %q asserts nothing, read as %v", c.ID, c.Text, got)
		}
		rules := Rules{Pricing{Scorers: map[string]reward.Scorer{
			"frozenlake": &reward.AssignmentScorer{Weights: map[string]float64{"target": 1, "hole": 1}}}}}
		score, err := rules.Score(context.Background(), []reward.Claim{claim})
		require.NoError(t, err)
		label, ok := c.Scores["next"].(float64)
		switch {
		case !ok:
			require.True(t, math.IsNaN(score[0]), "%s: %q has no score, got %v", c.ID, c.Text, score[0])
			unscored++
		case score[0] > label+1e-9:
			paid++
			t.Logf("%s: %q is paid %v instead of %v", c.ID, c.Text, score[0], label)
		}
	}
	t.Logf("F1 %.3f of %d descriptions (natural %.3f, structured %.3f, symbolic %.3f), %d paid too much, %d without score",
		all.f1(), len(set.Cases), forms["natural"].f1(), forms["structured"].f1(), forms["symbolic"].f1(), paid, unscored)
	require.Greater(t, all.f1(), 0.9)
	require.LessOrEqual(t, paid, len(set.Cases)/50)
}
