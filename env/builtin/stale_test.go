package builtin

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/reward/judge"
)

// stale says what was true some turns ago, of the state before and of the one after the turn.
func stale(turns int) func(*scene) (string, string) {
	return func(s *scene) (string, string) {
		at := func(k int) string {
			c := s.before
			if k >= 0 && k < len(s.earlier) {
				c = s.earlier[k]
			}
			if k < 0 {
				return sentences(&s.before, guess(s.r, s.before.Truth)) // nothing was seen then
			}
			return sentences(&c, c.Truth)
		}
		n := len(s.earlier)
		return at(n - turns), at(n + 1 - turns)
	}
}

// A true statement about an earlier state is partly true of the present one, because a move
// changes few relations: it earns more than chance, and less than the present truth. The
// scorers compare states, not changes, as VAGEN's do.
func TestStaleStatementsEarnLessThanTheTruth(t *testing.T) {
	walk := []string{"Left", "Right", "Up", "Down"}
	for _, w := range []struct {
		env     string
		config  map[string]any
		actions []string
		most    [2]float64 // of statements that are one and two turns old
	}{
		{"frozenlake", map[string]any{"render_mode": "text"}, walk, [2]float64{0.8, 0.6}},
		{"sokoban", map[string]any{"render_mode": "text"}, walk, [2]float64{0.8, 0.6}},
		{"navigation", map[string]any{"resolution": 32}, []string{"turn_right", "turn_left"}, [2]float64{0.4, 0.6}},
	} {
		j := &judge.Rules{Scoring: judge.Scoring{Base: 0.334, Guarded: true}}
		for k, most := range w.most {
			got := paidMean(t, w.env, w.config, w.actions, j, stale(k+1))
			t.Logf("%s: %d turns old: %.3f", w.env, k+1, got)
			require.Less(t, got, most, "%s: %d turns old", w.env, k+1)
		}
	}
}

// An agent that moves back and forth between two states and describes them is paid for each
// turn, as one that goes on is: a turn does not know the ones before it. With episode_mean
// an episode is paid the same whatever its length.
func TestMovingBackAndForthIsPaidPerTurn(t *testing.T) {
	for name, desc := range map[string][]any{"frozenlake": {"SFF", "FFF", "FFG"}, "sokoban": {"######", "#P___#", "#____#", "#__XO#", "######"}} {
		options := map[string]any{"desc": desc, "prompt_format": "wm", "render_mode": "text", "rules": "next", "use_state_reward": true, "grounding_reward_weight": 0.5, "worldmodeling_reward_weight": 0.5}
		registry := Registry()
		registry.SetJudge(nil)
		j := &judge.Rules{Scoring: judge.Scoring{Base: 0.334, Guarded: true}}
		e, err := registry.New(name, options)
		require.NoError(t, err)
		twin, err := registry.New(name, options)
		require.NoError(t, err)
		for _, x := range []env.Env{e, twin} {
			_, err := x.Reset(t.Context(), 0)
			require.NoError(t, err)
		}
		for turn := range 6 {
			act := []string{"Down", "Up"}[turn%2]
			truth, err := twin.Step(t.Context(), wm("x", "x", act))
			require.NoError(t, err)
			before, after := truth.Claims[0], truth.Claims[1]
			out, err := e.Step(t.Context(), wm(sentences(&before, before.Truth), sentences(&after, after.Truth), act))
			require.NoError(t, err)
			scores, err := j.Score(t.Context(), out.Claims)
			require.NoError(t, err)
			require.InDeltaSlice(t, []float64{1, 1}, scores, 1e-9, "%s: turn %d", name, turn)
		}
	}
}

// States of numbers: agents that do not know them earn no more than a constant guess can.
func TestNumbersWithoutKnowledgeEarnLittle(t *testing.T) {
	for name, w := range map[string]struct {
		config  map[string]any
		actions []string
		guesses []string // of all states
		random  func(s *scene) string
	}{
		"blackjack": {map[string]any{"prompt_format": "grounding_worldmodeling"}, []string{"Hit", "Stand"},
			[]string{"I hold 20 and the dealer shows 10.", "I hold 15 and the dealer shows 10."},
			func(s *scene) string {
				return fmt.Sprintf("I hold %d and the dealer shows %d.", 12+s.r.IntN(10), 1+s.r.IntN(10))
			}},
		"primitive_skill": {map[string]any{"render_mode": "text"}, []string{"pick(100,-100,20)", "place(120,50,30)"},
			[]string{"The red cube is at (125, -50, 20) and the green cube at (125, 150, 20)."},
			func(s *scene) string {
				return fmt.Sprintf("The red cube is at (%d, %d, 20) and the green cube at (%d, %d, 20).", 100+s.r.IntN(50), s.r.IntN(300)-200, 100+s.r.IntN(50), 100+s.r.IntN(100))
			}},
	} {
		j := &judge.Rules{Scoring: judge.Scoring{Base: 0.334, Guarded: false}}
		mean := func(says func(*scene) (string, string)) float64 {
			return paidMean(t, name, w.config, w.actions, j, says)
		}
		honest := mean(func(s *scene) (string, string) { return s.before.State, s.after.State })
		require.InDelta(t, 1, honest, 1e-9, name)
		agents := map[string]func(*scene) (string, string){
			"random numbers": func(s *scene) (string, string) { return same(w.random(s)) },
			"twenty guesses": func(s *scene) (string, string) {
				text := ""
				for range 20 {
					text += w.random(s) + " "
				}
				return same(text)
			},
		}
		for _, text := range w.guesses {
			agents[text] = func(*scene) (string, string) { return same(text) }
		}
		for _, g := range gamers {
			if g.name == "words to the judge" || g.name == "every number" { // the others are about directions
				agents[g.name] = g.says
			}
		}
		for agent, says := range agents {
			got := mean(says)
			t.Logf("%s: %s: %.3f", name, agent, got)
			require.LessOrEqual(t, got, 0.35, "%s: %s", name, agent)
		}
		t.Logf("%s: stale: %.3f", name, mean(func(s *scene) (string, string) {
			if n := len(s.earlier); n > 0 {
				return same(s.earlier[n-1].State)
			}
			return same(w.random(s))
		}))
	}
}
