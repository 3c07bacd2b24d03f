package judge

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/reward"
)

// moved is a claim after the player went down and past the target: of its four directions,
// those of the target's row and the box's row changed.
func moved(text string) reward.Claim {
	c := claim("sokoban", text, reward.Relate("target", -1, 2), reward.Relate("box", 0, -1))
	c.Earlier = []reward.Relation{reward.Relate("target", 0, 2), reward.Relate("box", 1, -1)}
	return c
}

const (
	nowTrue  = "The target is above and right of me. The box is in the same row, to the left."
	thenTrue = "The target is in the same row, to the right. The box is below and left of me."
)

func TestOnlyWhatFitsThePresentBetterThanThePastIsPaid(t *testing.T) {
	for _, j := range []env.Judge{&Rules{Scoring: Scoring{Guarded: true}},
		&Rules{Scoring: Scoring{Guarded: true}, Literal: true},
		&Rules{Scoring: Scoring{Guarded: true, Scorers: map[string]reward.Scorer{"sokoban": &reward.AssignmentScorer{
			Weights: map[string]float64{"box": 1, "target": 1}}}}}} {
		scores := score(t, j, moved(nowTrue), moved(thenTrue),
			// One of the two changes: now 3/4, then 3/4.
			moved("The target is above and right of me. The box is below and left of me."),
			// One of the two changes, the other direction is neither: now 3/4, then 1/2; the truth leads by 1/2.
			moved("The target is above and right of me. The box is above and left of me."),
			// Both changes and nothing else: its score 1/2 is less than its lead, 1.
			moved("The target is above and left of me. The box is in the same row, to the right."))
		require.InDeltaSlice(t, []float64{1, 0, 0, 0.5, 0.5}, scores, 1e-12)
	}
	without := score(t, new(Rules), moved(nowTrue), moved(thenTrue))
	require.InDeltaSlice(t, []float64{1, 0.5}, without, 1e-12, "as in VAGEN")
}

func TestTheFirstTurnIsPaidByTheOrdinaryBase(t *testing.T) {
	first := moved(thenTrue)
	first.Earlier = nil
	require.False(t, first.HasEarlier())
	require.InDelta(t, 0.25, score(t, &Rules{Scoring: Scoring{Base: 1.0 / 3, Guarded: true}}, first)[0], 1e-12)
}

func TestTruthsThatAreNotNewAreNotPaid(t *testing.T) {
	j := &Rules{Scoring: Scoring{Guarded: true}}
	same := moved(nowTrue)
	same.Earlier = []reward.Relation{same.Truth[1], same.Truth[0]} // in another order
	require.Equal(t, []float64{0}, score(t, j, same))
	// Nothing was visible before, so that all is new.
	view := claim("navigation", "The mug is to the right.", reward.Relate("Mug", 0, 1))
	view.EarlierState = "{}"
	require.InDelta(t, 1, score(t, j, view)[0], 1e-12)
}

// A penalty is not limited, and the comparison with the past stores no text: the frequent texts
// are those of claims alone.
func TestExactMatchesKeepTheirPenalty(t *testing.T) {
	s := reward.SokobanScorer()
	s.TopK = 1
	j := &Rules{Scoring: Scoring{Guarded: true, Scorers: map[string]reward.Scorer{"sokoban": s}}}
	nothing := moved("nothing")
	require.Equal(t, []float64{-0.1, 1}, score(t, j, nothing, moved(nowTrue)))
	require.Equal(t, []float64{0}, score(t, j, moved(thenTrue)))
}

func TestNumbersOfThePastAreNotPaid(t *testing.T) {
	hand := func(text string) reward.Claim {
		c := claim("blackjack", text)
		c.State, c.EarlierState = `{"player_sum": 17, "dealer_showing": 10}`, `{"player_sum": 13, "dealer_showing": 10}`
		return c
	}
	j := &Rules{Scoring: Scoring{Guarded: true}}
	require.InDeltaSlice(t, []float64{1, 0, 2.0 / 3}, score(t, j, hand("I hold 17 and the dealer shows 10."), hand(
		"I hold 13 and the dealer shows 10."), hand("I hold 17.")), 1e-12)
	require.InDelta(t, 0.5, score(t, new(Rules), hand("I hold 13 and the dealer shows 10."))[0], 1e-12)
	same := hand("I hold 17 and the dealer shows 10.")
	same.EarlierState = same.State
	require.Zero(t, score(t, j, same)[0])
	blank := hand(" ")
	require.True(t, math.IsNaN(score(t, j, blank)[0]), "no score stays no score")
}

// A language model reads relations once, and they are compared with both truths. About a state
// of numbers it is asked twice, in the same call.
func TestALanguageModelIsAskedWhetherAClaimWasTrueBefore(t *testing.T) {
	var asked []string
	m := &Model{Scoring: Scoring{Guarded: true}, Complete: func(_ context.Context, prompts []string) ([]string, []error,
		error) {
		asked = prompts
		out, errs := make([]string, len(prompts)), make([]error, len(prompts))
		for i, p := range prompts {
			past := strings.Contains(p, "STATE 1")
			switch {
			case strings.Contains(p, "below"):
				out[i] = `[{"object_id": "target", "vertical_relation": "same", "horizontal_relation": "right"}, {"object_id": "box", "vertical_relation": "below", "horizontal_relation": "left"}]`
			case strings.Contains(p, "\nlost\n") && past:
				errs[i] = errors.New("no answer")
			case strings.Contains(p, "\nvague\n"), strings.Contains(p, "\nnew\n") && !past, strings.Contains(p, "\nlost\n"),
				strings.Contains(p, "\nold\n") && past:
				out[i] = "<answer>YES</answer>"
			default:
				out[i] = "<answer>NO</answer>"
			}
		}
		return out, errs, nil
	}}
	about := func(text string) reward.Claim {
		c := claim("blackjack", text)
		c.State, c.EarlierState = "STATE 2", "STATE 1"
		return c
	}
	scores := score(t, m, moved(thenTrue), about("new"), about("old"), about("vague"), about("lost"))
	require.Equal(t, []float64{0, 1, 0, 0}, scores[:4])
	require.True(t, math.IsNaN(scores[4]), "an outage is no score")
	require.Len(t, asked, 9)
	first, still := about("vague"), about("vague")
	first.EarlierState, still.EarlierState = "", still.State
	require.Equal(t, []float64{1, 0}, score(t, m, first, still))
	require.Len(t, asked, 2, "nothing to compare with")
	m.Guarded = false
	require.InDeltaSlice(t, []float64{0.5, 1}, score(t, m, moved(thenTrue), about("vague")), 1e-12)
	require.Len(t, asked, 2)
}
