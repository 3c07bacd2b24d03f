package navigation

import (
	"fmt"
	"strconv"
	"strings"

	"vagen/env"
	"vagen/env/internal/options"
	"vagen/env/internal/prompts"
	"vagen/env/internal/words"
	"vagen/reward"
)

// placeholders are those of templates of the user.
var placeholders = prompts.Names{
	System:      []string{"step_length", "success_threshold", "max_steps"},
	Observation: []string{prompts.Action, "instruction", "env_feedback", "reward", "done"},
}

func number(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// ownSystem describes the world and the actions.
func (e *Env) ownSystem() string {
	if e.o.Prompt == options.Brief {
		return briefSystem
	}
	w := actionWords[e.o.Rules]
	var b strings.Builder
	b.WriteString("You are a robot in a home. Each task names or describes an object; go near to it.\n\n")
	if e.o.RenderMode == env.Vision {
		b.WriteString("Each picture shows what you see from eye height. Every wall has a shade of its own, the floor is chequered with squares of half a metre.")
	} else {
		b.WriteString("Each observation lists the objects in view with their direction from you and their distance in metres, and says on which sides a step is free.")
	}
	step := number(e.o.StepLength)
	fmt.Fprintf(&b, "\n\nYour actions:\n%s, %s, %s, %s: go %s m without turning; nothing happens when the way is blocked\n%s, %s: turn by 90 degrees on the spot\n%s, %s: tilt your view by 30 degrees\n",
		w[MoveAhead], w[MoveBack], w[MoveRight], w[MoveLeft], step, w[TurnRight], w[TurnLeft], w[LookUp], w[LookDown])
	fmt.Fprintf(&b, "Give at most %s in a turn, with %q between them. You have %s in all, and are there when the object is no more than %s m away over the floor. "+
		"When it is far, go several steps at once. When you do not see it, turn.\n\n",
		words.Plural(e.o.MaxActions, "action"), e.o.ActionSep, words.Plural(e.o.MaxSteps, "action"),
		number(e.o.SuccessThreshold))
	return b.String()
}

// firstText is the first observation: the task and the view.
func (e *Env) firstText(view string) string {
	own := func() string { return e.ownFirst(view) }
	return e.Texts.Observation(true, own, func() prompts.Values { return e.values(view, nil, 0) })
}

// values are the texts of the placeholders in observations.
func (e *Env) values(view string, done []string, earned float64) prompts.Values {
	return prompts.Values{
		prompts.Observation: view, prompts.Action: words.List(done), prompts.Format: e.FormatText(),
		"instruction": env.WithoutMarks(e.task.Instruction), "env_feedback": e.feedback(), "reward": number(earned),
		"done": strconv.FormatBool(e.arrived()),
	}
}

// feedback says whether the last action did something.
func (e *Env) feedback() string {
	if e.succeeded {
		return "The last action succeeded."
	}
	return "The last action failed."
}

func (e *Env) ownFirst(view string) string {
	if e.o.Prompt == options.Brief {
		return e.brief(view)
	}
	return "Your task: " + env.WithoutMarks(e.task.Instruction) + "\nThis is what you see:\n" + view +
		"\nWhat do you do?\n" + e.FormatText()
}

// nextText is the observation after a turn.
func (e *Env) nextText(view string, done []string, earned float64) string {
	own := func() string { return e.ownNext(view, done, earned) }
	return e.Texts.Observation(false, own, func() prompts.Values { return e.values(view, done, earned) })
}

func (e *Env) ownNext(view string, done []string, earned float64) string {
	if e.o.Prompt == options.Brief {
		return e.brief(view)
	}
	text := "Actions made: " + words.List(done) + ". " + e.feedback() + " This turn earned " +
		strconv.FormatFloat(earned, 'g', 6, 64)
	if e.arrived() {
		text += "; you are there"
	}
	text += ". This is what you see now:\n" + view
	if e.o.LayoutOf(e.o.Rules) == env.Legacy {
		return text + "\nYour task: " + env.WithoutMarks(e.task.Instruction) + "\nWhat do you do?\n" + e.FormatText()
	}
	return text + "\nWhat do you do?"
}

// ownFormat is the instruction about the response's format.
func (e *Env) ownFormat() string {
	text := words.Format(e.Parser())
	switch {
	case e.describing():
		text += wordsOfDescribe
	case e.o.UseStateReward:
		text += " Say of the target, by that name, and of each thing in view whether it is ahead, behind, left or right of you."
	}
	return text
}

// example is a response in the format.
func (e *Env) example() string {
	w := actionWords[e.o.Rules]
	moves := w[MoveAhead]
	if e.o.MaxActions > 1 {
		moves += e.o.ActionSep + w[MoveLeft]
	}
	return e.Parser().Compose(func(section string) string {
		switch {
		case e.describing() && section == reward.SectionObservation:
			return "target up left free ahead back blocked left"
		case e.describing() && section == reward.SectionPrediction:
			return "target up same"
		case e.o.UseStateReward && section == reward.SectionObservation:
			return "The target is ahead, the table is ahead, the lamp is left."
		case e.o.UseStateReward && section == reward.SectionPrediction:
			return "The target is ahead, the table is right, the lamp is left."
		}
		switch section {
		case reward.SectionAnswer:
			return moves
		case reward.SectionObservation:
			return "The lamp stands ahead, a little to the left, behind a table."
		case reward.SectionPrediction:
			return "The lamp will be nearer, straight ahead, and the table to my right."
		}
		return "The way ahead is free; beside the table I get past it."
	})
}

// viewText describes the view in words.
func (e *Env) viewText() string {
	if e.o.Prompt == options.Brief {
		return e.briefView()
	}
	var b strings.Builder
	s := e.state(e.agent)
	if len(s.Visible) == 0 {
		b.WriteString("No objects are in view.")
	}
	for i, v := range s.Visible {
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%s %s %.2f m", Spoken(v.Type), v.Direction, v.Distance)
	}
	b.WriteString("\nA step is free:")
	none := true
	for a, name := range []string{toAhead, toBack, toRight, toLeft} {
		if !e.agent.blocked(e.scene, Action(a)) {
			b.WriteString(" " + name)
			none = false
		}
	}
	if none {
		b.WriteString(" nowhere")
	}
	return b.String()
}
