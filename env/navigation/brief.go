package navigation

import (
	"math"
	"strings"

	"vagen/env"
	"vagen/env/internal/words"
	"vagen/reward"
)

// The brief prompt keeps rows short and the vocabulary small.
const briefSystem = "Go to the target."

// brief returns the observation of the brief prompt: the target and the view, which is a picture
// or briefView's.
func (e *Env) brief(view string) string {
	target := "Target " + Spoken(e.task.TargetType)
	if e.o.RenderMode == env.Vision {
		return view + target
	}
	return target + view
}

// briefView describes the view in few words: where the target is if it is in view, the
// directions in which a step is free, and the other objects in view, at most MaxObjects, with
// their positions.
func (e *Env) briefView() string {
	var b strings.Builder
	b.WriteString(" " + e.whereTarget(e.agent) + e.free(e.agent))
	before := " see "
	for _, i := range e.seen(e.agent, e.o.MaxObjects) {
		if o := &e.scene.objects[i]; o.Type != e.task.TargetType {
			b.WriteString(before + Spoken(o.Type) + " " + e.place(e.agent, o.Center[0], o.Center[2]))
			before = ", "
		}
	}
	return b.String()
}

// whereTarget is the position of the target as seen by an agent.
func (e *Env) whereTarget(a Agent) string {
	for _, i := range e.seen(a, len(e.scene.objects)) {
		if e.scene.objects[i].Type == e.task.TargetType {
			return e.place(a, e.task.Target.X, e.task.Target.Z)
		}
	}
	return "hidden hidden"
}

// describing reports whether sections are to be written in the words of describe. Judges
// expect sentences, unless these words are rewarded, too.
func (e *Env) describing() bool {
	paid := e.o.ObservationReward != 0 || e.o.PredictionReward != 0
	return paid || !e.o.UseStateReward && e.o.Describing(e.o.PromptFormat)
}

// describe describes what an agent knows of the state in a few words,
//
//	target V H
//
// gives the position of the target in steps as seen by the agent, with its view upwards: V is
// up, down or same, H is left, right or same, and both are hidden if the target is not in view. With free set, " free a b c d" follows: the words ahead, back, right
// and left, or blocked where no step is possible.
func (e *Env) describe(a Agent, free bool) string {
	text := "target " + e.whereTarget(a)
	if free {
		text += e.free(a)
	}
	return text
}

// place describes a position in steps to the front and to the side.
func (e *Env) place(a Agent, x, z float64) string {
	ax, az := a.Position()
	front, side := headings[a.Look], headings[(a.Look+1)%4]
	steps := func(axis [2]float64) int {
		return int(math.Round(((x-ax)*axis[0] + (z-az)*axis[1]) / a.step))
	}
	return words.DirectionText(reward.Relate("", -steps(front), steps(side)))
}

// free describes in which directions an agent can go.
func (e *Env) free(a Agent) string {
	text := " free"
	for move, name := range []string{toAhead, toBack, toRight, toLeft} {
		if a.blocked(e.scene, Action(move)) {
			name = "blocked"
		}
		text += " " + name
	}
	return text
}

// wordsOfDescribe asks for sections in the words of describe.
const wordsOfDescribe = " Say where the target is from you, in steps, as: target up|down|same left|right|same, where up is ahead of you, " +
	"or target hidden hidden if you do not see it. In the observation, add: free, and then for ahead, back, right and left one word each: " +
	"the direction if you can go there, or blocked."
