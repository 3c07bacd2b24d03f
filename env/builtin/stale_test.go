package builtin

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env/internal/envtest"
	"vagen/reward"
	"vagen/reward/judge"
)

// stale says what was true some turns ago, of the state before and of the one after the turn,
// and what it cannot know at random.
func stale(turns int) func(*scene) (string, string) {
	return func(s *scene) (string, string) {
		n := len(s.earlier)
		at := func(k int) string {
			switch {
			case k < 0:
				return misread(s.r, &s.before, 1.0/3) // nothing was seen then
			case k == n:
				return sentences(&s.before, s.before.Truth)
			}
			return sentences(&s.earlier[k], s.earlier[k].Truth)
		}
		return at(n - turns), at(n + 1 - turns)
	}
}

// misread says the state with each direction, and of states of numbers each value, right with a
// probability, and else another one.
func misread(r *rand.Rand, c *reward.Claim, right float64) string {
	if ofNumbers(c) {
		return values.ReplaceAllStringFunc(c.State, func(value string) string {
			switch {
			case r.Float64() < right:
				return value
			case value[0] == ':':
				return fmt.Sprintf(": %d", 1+r.IntN(20))
			}
			return fmt.Sprintf("[%d, %d, 20]", r.IntN(300)-150, r.IntN(300)-150)
		})
	}
	list := slices.Clone(c.Truth)
	for i := range list {
		t := &list[i]
		if c.Env == "navigation" { // one of four sides
			for was := *t; right < 1 && *t == was && r.Float64() >= right; {
				side := [][2]int{{-1, 0}, {1, 0}, {0, -1}, {0, 1}}[r.IntN(4)]
				*t = reward.Relate(was.Object, side[0], side[1])
			}
			continue
		}
		if r.Float64() >= right {
			t.Vertical = other(r, verticals, t.Vertical)
		}
		if r.Float64() >= right {
			t.Horizontal = other(r, horizontals, t.Horizontal)
		}
	}
	return sentences(c, list)
}

// values are the positions and numbers of states without directions.
var values = regexp.MustCompile(`\[[^\]]*\]|: \d+`)

// other is a random one of the list's other words.
func other(r *rand.Rand, list []string, than string) string {
	return list[(slices.Index(list, than)+1+r.IntN(len(list)-1))%len(list)]
}

// reader looks at every state and reads it with some errors.
func reader(right float64) func(*scene) (string, string) {
	return func(s *scene) (string, string) {
		return misread(s.r, &s.before, right), misread(s.r, &s.after, right)
	}
}

// copier says what it read a turn ago, with some errors, and copies its present reading as the
// prediction.
func copier() func(*scene) (string, string) {
	past := ""
	return func(s *scene) (string, string) {
		if len(s.earlier) == 0 {
			past = misread(s.r, &s.before, 1.0/3)
		}
		now := past
		past = misread(s.r, &s.before, 0.7)
		return now, past
	}
}

// A copy of the observation of the step before, true then, earns no more than random statements
// with the guard, and much without it. An honest agent that reads part of the state right is paid
// more than a copier, and more the more it reads right.
func TestStaleStatementsEarnNoMoreThanChance(t *testing.T) {
	for _, w := range append(walks[:len(walks):len(walks)],
		walk{"primitive_skill", envtest.Options("render_mode: text"),
			[]string{"pick(100,-100,20)", "place(120,50,30)", "push(-100,-200,20,150,200,20)"}},
		walk{"blackjack", envtest.Options("render_mode: text, prompt_format: grounding_worldmodeling"),
			[]string{"Hit"}},
	) {
		on := &judge.Rules{Scoring: judge.Scoring{Base: 0.334, Guarded: true}}
		mean := func(agent string, says func() func(*scene) (string, string)) float64 {
			paid, share := paidShare(t, 36, w.env, w.config, w.actions, on, says())
			t.Logf("%s %v: %s: %.3f of the %.2f that can earn", w.env, w.config, agent, paid, share)
			return paid
		}
		of := func(says func(*scene) (string, string)) func() func(*scene) (string, string) {
			return func() func(*scene) (string, string) { return says }
		}
		require.InDelta(t, 1, mean("truth", of(reader(1))), 1e-9, w.env)
		good, fair, poor := mean("reads 90 % right", of(reader(0.9))), mean("reads 70 % right", of(reader(0.7))),
			mean("reads 50 % right", of(reader(0.5)))
		chance := mean("random", of(reader(1.0/3)))
		old, own := mean("one turn old", of(stale(1))), mean("own reading, one turn old", copier)
		// Each mean is of about 60 scores or more whose standard deviation is at most 0.4.
		require.LessOrEqual(t, old, chance+0.05, w.env)
		require.LessOrEqual(t, own, chance+0.1, w.env)
		if w.env != "navigation" { // each turn there changes all
			off := &judge.Rules{Scoring: judge.Scoring{Base: 0.334}}
			without, _ := paidShare(t, 36, w.env, w.config, w.actions, off, stale(1))
			require.Greater(t, without, chance+0.1, w.env)
		}
		require.Greater(t, good, fair, w.env)
		require.Greater(t, fair, poor, w.env)
		require.Greater(t, fair, old+0.1, w.env)
	}
}

// An agent that moves back and forth between two states in which different things are true,
// and describes them, is paid for each turn, as one that goes on is: a turn knows only the one
// before it. With episode_mean an episode is paid the same whatever its length.
func TestMovingBackAndForthIsPaidPerTurn(t *testing.T) {
	for name, desc := range map[string][]any{"frozenlake": {"SFF", "FFG", "FFF"},
		"sokoban": {"######", "#P___#", "#__XO#", "#____#", "######"}} {
		options := map[string]any{"desc": desc, "prompt_format": "wm", "render_mode": "text", "rules": "next",
			"use_state_reward": true, "grounding_reward_weight": 0.5, "worldmodeling_reward_weight": 0.5}
		j := &judge.Rules{Scoring: judge.Scoring{Base: 0.334, Guarded: true}}
		pair := reset(t, name, options, options, 0)
		for turn := range 6 {
			act := []string{"Down", "Up"}[turn%2]
			out := pair.step(t, act, wm, honest)
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
		"blackjack": {envtest.Options("prompt_format: grounding_worldmodeling"), []string{"Hit", "Stand"},
			[]string{"I hold 20 and the dealer shows 10.", "I hold 15 and the dealer shows 10."},
			func(s *scene) string {
				return fmt.Sprintf("I hold %d and the dealer shows %d.", 12+s.r.IntN(10), 1+s.r.IntN(10))
			}},
		"primitive_skill": {envtest.Options("render_mode: text"), []string{"pick(100,-100,20)", "place(120,50,30)"},
			[]string{"The red cube is at (125, -50, 20) and the green cube at (125, 150, 20)."},
			func(s *scene) string {
				return fmt.Sprintf("The red cube is at (%d, %d, 20) and the green cube at (%d, %d, 20).", 100+s.r.IntN(50),
					s.r.IntN(300)-200, 100+s.r.IntN(50), 100+s.r.IntN(100))
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
	}
}
