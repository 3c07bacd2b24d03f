// Package pay rewards statements about the state in responses.
package pay

import (
	"vagen/env"
	"vagen/env/internal/words"
	"vagen/reward"
)

// Description rewards a section that describes the state in an environment's vocabulary:
// the share of correct words times the weight, as a part named after the section. With
// weight 0 it does nothing.
func Description(out *env.Outcome, section string, weight float64, truth func() string) {
	if weight == 0 {
		return
	}
	score := words.Score(out.Response.Sections[section], truth())
	out.Turn[section+"_score"] = score
	out.Reward.Add(section, weight*score)
}

// Turn is the information that a judge needs about the claims of a turn. S is a state of
// the environment.
type Turn[S any] struct {
	Env                      string  // name under which judges know the environment
	Before, After            S       // states before and after the turn, for observations and predictions
	Grounding, WorldModeling float64 // weights of perfect claims about them
	// Truth sets the true facts of a state.
	Truth func(*reward.Claim, S)
}

// Claims passes a response's statements to a judge if its format is rewarded; otherwise
// the judged metrics are zero.
func Claims[S any](out *env.Outcome, rewarded bool, t Turn[S]) {
	t.claim(out, rewarded, reward.SectionObservation, t.Before, t.Grounding)
	t.claim(out, rewarded, reward.SectionPrediction, t.After, t.WorldModeling)
}

func (t Turn[S]) claim(out *env.Outcome, rewarded bool, section string, state S, weight float64) {
	text := out.Response.Sections[section]
	switch {
	case text == "":
	case !rewarded:
		out.Turn[env.ClaimMetric(section)] = 0
	default:
		c := reward.Claim{Section: section, Text: text, Env: t.Env, Weight: weight}
		t.Truth(&c, state)
		out.Claims = append(out.Claims, c)
	}
}
