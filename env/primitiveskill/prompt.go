package primitiveskill

import (
	"fmt"
	"strings"

	"vagen/env"
	"vagen/env/internal/prompts"
	"vagen/env/internal/words"
	"vagen/reward"
)

// placeholders are those of templates of the user.
var placeholders = prompts.Names{
	System: []string{"max_steps", "object_names"},
	Observation: []string{
		prompts.Action, "instruction", "x_workspace", "y_workspace", "z_workspace", "object_names", "object_positions",
		"other_information",
	},
}

// ownSystem describes the world and the skills.
func (e *Env) ownSystem() string {
	var b strings.Builder
	b.WriteString("You command a robot arm with a gripper. Each observation gives the task, the places of the objects, and what else is known")
	if e.o.RenderMode == env.Vision {
		b.WriteString(", with a picture of the scene")
	}
	b.WriteString(".\n\nSkills, all numbers in whole millimetres:\n" +
		"pick(x,y,z): take the object whose centre is there\n" +
		"place(x,y,z): let go of it over that place; z may be much higher than needed\n" +
		"push(x1,y1,z1,x2,y2,z2): move the open gripper from the first place straight to the second\n\n" +
		"You look along the x-axis, against its direction: larger x is nearer to you, larger y further to your right, larger z higher. " +
		"Places are centres of objects; ")
	if e.o.RenderMode == env.Vision {
		b.WriteString("find out from the picture which is which. ")
	} else {
		b.WriteString("they come in the order of the task's objects: " + e.names() + ". ")
	}
	fmt.Fprintf(&b, "Stay inside the workspace. Give at most %s in a turn, with %q between them; there are %d in all.\n\n",
		words.Plural(e.o.MaxActions, "skill"), e.o.ActionSep, e.o.MaxSteps)
	return b.String()
}

// names lists the objects of the task.
func (e *Env) names() string {
	list := make([]string, len(e.task.stateKeys))
	for i, key := range e.task.stateKeys {
		list[i] = spoken(key)
	}
	return strings.Join(list, ", ")
}

// observationText describes the state; image is the mark of the picture, if any.
func (e *Env) observationText(image string, done []string, first bool) string {
	return e.Texts.Observation(first, func() string { return e.ownObservation(image, done, first) }, func() prompts.Values {
		v := prompts.Values{
			prompts.Observation: image, prompts.Action: words.List(clean(done)), prompts.Format: e.FormatText(),
			"instruction": e.task.instruction, "object_names": e.names(),
			"object_positions": e.task.state(e.world).list(), "other_information": e.task.other(e.world, e.o.MaskSuccess),
		}
		for i, axis := range []string{"x", "y", "z"} {
			limit := e.task.workspace[i]
			v[axis+"_workspace"] = fmt.Sprintf("(%d, %d)", millimetres(limit[0]), millimetres(limit[1]))
		}
		return v
	})
}

func (e *Env) ownObservation(image string, done []string, first bool) string {
	var b strings.Builder
	if first {
		b.WriteString("This is the scene")
	} else {
		b.WriteString("Skills run: ")
		b.WriteString(words.List(clean(done)))
		b.WriteString(". This is the scene now")
	}
	if image != "" {
		b.WriteString(":\n" + image)
	} else {
		b.WriteString(".")
	}
	fmt.Fprintf(&b, "\nTask: %s", e.task.instruction)
	for i, axis := range "xyz" {
		limit := e.task.workspace[i]
		fmt.Fprintf(&b, "\nWorkspace of %c: %d to %d", axis, millimetres(limit[0]), millimetres(limit[1]))
	}
	fmt.Fprintf(&b, "\nPlaces of objects: %s\nOther information: %s\nWhat do you do?\n%s",
		e.task.state(e.world).list(), e.task.other(e.world, e.o.MaskSuccess), e.FormatText())
	return b.String()
}

// clean rewrites commands from their parsed form, so that no other text of a response
// gets into an observation.
func clean(commands []string) []string {
	list := make([]string, len(commands))
	for i, c := range commands {
		name, numbers := parts(c)
		list[i] = name + "(" + strings.Join(numbers, ",") + ")"
	}
	return list
}

// ownFormat is the instruction about the response's format, including the notation of positions in a
// structured one.
func (e *Env) ownFormat() string {
	text := words.Format(e.Parser())
	if !strings.HasSuffix(e.o.PromptFormat, "_structured") {
		return text
	}
	parts := make([]string, len(e.task.stateKeys))
	for i, key := range e.task.stateKeys {
		parts[i] = fmt.Sprintf("%q: [x, y, z]", key)
	}
	return text + " Give what you see and expect as JSON: {" + strings.Join(parts, ", ") + "}."
}

// example is a response in the format.
func (e *Env) example() string {
	command := "pick(40,-60,20)"
	if e.o.MaxActions > 1 {
		command += e.o.ActionSep + "place(-30,80,80)"
	}
	structured := strings.HasSuffix(e.o.PromptFormat, "_structured")
	return e.Parser().Compose(func(section string) string {
		switch section {
		case reward.SectionAnswer:
			return command
		case reward.SectionObservation:
			if structured {
				return State{{"red_cube_position", [3]int{40, -60, 20}}, {"blue_cube_position", [3]int{-30, 80, 20}}}.JSON()
			}
			return "The red cube is to the left at (40,-60,20), the blue one to the right at (-30,80,20)."
		case reward.SectionPrediction:
			if structured {
				return State{{"red_cube_position", [3]int{-30, 80, 60}}, {"blue_cube_position", [3]int{-30, 80, 20}}}.JSON()
			}
			return "The red cube will lie on the blue one, at (-30,80,60)."
		}
		return "I take the red cube and let go of it well above the blue one."
	})
}
