package navigation

import (
	"context"
	"fmt"
	"image"
	"strconv"
	"strings"

	"vagen/env"
	"vagen/env/internal/options"
	"vagen/env/internal/prompts"
	"vagen/env/internal/turns"
	"vagen/env/internal/words"
	"vagen/reward"
)

// Names of the reward parts.
const (
	partSuccess    = "success"
	partFormat     = "format"
	partAllFormats = "all_formats"
	partTurn       = "turn"
)

// legacySuccess is the legacy rules' reward at the target.
const legacySuccess = 10

// Env is one live environment. It implements env.Env.
type Env struct {
	turns.Base
	o     Options
	tasks TaskSet

	index     int // of the task
	task      Task
	scene     *Scene // nil before the first Reset
	agent     Agent
	steps     int  // actions that count
	succeeded bool // the last action succeeded
	formatted bool // every turn's format was correct
}

var (
	_ env.Env       = (*Env)(nil)
	_ env.Describer = (*Env)(nil)
	_ env.Claimant  = (*Env)(nil)
	_ env.Factory   = FromConfig
)

// New creates an environment. The error lists all invalid options.
func New(o Options) (*Env, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	tasks, err := o.taskSet()
	if err != nil {
		return nil, err
	}
	return NewFrom(o, tasks)
}

// NewFrom is New with the caller's tasks.
func NewFrom(o Options, tasks TaskSet) (*Env, error) {
	if tasks == nil || tasks.Len() == 0 {
		return nil, fmt.Errorf("navigation: %w: the task set is empty", ErrTask)
	}
	po := reward.ParserOptions{Dialect: reward.LiteNavigation}
	base, err := turns.New("navigation", o.Validate(), o.Ruled, placeholders, po)
	if err != nil {
		return nil, err
	}
	e := &Env{Base: base, o: o, tasks: tasks}
	e.Prompt = turns.Prompt{Own: e.ownSystem, Format: e.ownFormat, Example: e.example, Brief: o.Prompt == options.Brief,
		Shown: o.ExampleCount > 0, More: prompts.Values{"step_length": number(o.StepLength),
			"success_threshold": number(o.SuccessThreshold), "max_steps": strconv.Itoa(o.MaxSteps)}}
	return e, nil
}

// Reset starts the task of the seed, which must not be negative: the one at seed
// mod number of tasks.
func (e *Env) Reset(ctx context.Context, seed int64) (env.Observation, error) {
	if err := e.Calls.Reset(ctx, seed); err != nil {
		return env.Observation{}, err
	}
	index := int(seed % int64(e.tasks.Len()))
	task, scene, err := e.tasks.At(index)
	if err != nil {
		return env.Observation{}, err
	}
	e.index, e.task, e.scene, e.agent = index, task, scene, newAgent(task.Start, e.o.StepLength)
	e.steps, e.succeeded, e.formatted = 0, true, true
	turns.Begin(&e.Base)
	return e.observe(e.firstText), nil
}

// Step plays the actions of one response, if its format is correct. No response text
// makes it fail. As in the originals, turns after the end are played, too, and are
// rewarded again at the target.
func (e *Env) Step(ctx context.Context, response string) (env.Outcome, error) {
	if err := e.Calls.Step(ctx, e.scene != nil); err != nil {
		return env.Outcome{}, err
	}
	r := turns.Read(&e.Base, response)
	before := e.agent
	e.formatted = e.formatted && r.FormatCorrect
	t := e.play(r)
	out := turns.Outcome(r, t.done, t.success, t.valid, before.i != e.agent.i || before.j != e.agent.j)
	e.setMetrics(&out)
	e.setRewards(&out, t)
	if out.Response.FormatCorrect && t.valid {
		turns.Describe(&out, e.o.ObservationReward, e.o.PredictionReward, before, e.agent, true, e.describe)
	}
	out.Reward.Add(partTurn, -e.o.TurnCost)
	turns.Claim(&e.Base, &out, "navigation", out.Response.FormatCorrect && t.valid, before, e.agent,
		func(c *reward.Claim, a Agent) {
			s := e.state(a)
			c.Truth, c.State = s.relations(), s.json()
		})
	out.Observation = e.observe(func(view string) string { return e.nextText(view, t.words, out.Reward.Sum()) })
	return out, nil
}

// turnResult is the result of a turn's actions.
type turnResult struct {
	words   []string // of the executed actions
	valid   bool     // the turn counts as valid
	done    bool
	success bool
}

// play executes the actions of a response until one is unknown, the target is reached
// or the actions are used up. Under the legacy rules a turn is valid if it has actions
// and all are known, under the lite rules if at least one was executed.
func (e *Env) play(r reward.Response) (t turnResult) {
	t.valid = len(r.Actions) > 0
	if r.FormatCorrect {
		for i, word := range r.Actions {
			a, ok := e.action(word)
			if !ok {
				t.valid = false
				break
			}
			e.agent, e.succeeded = e.agent.Do(e.scene, a)
			t.words = r.Actions[:i+1]
			if e.arrived() {
				t.done, t.success = true, true
				break
			}
			if e.steps++; e.steps >= e.o.MaxSteps {
				t.done = true
				break
			}
		}
	}
	if e.o.Rules != env.Legacy {
		t.valid = len(t.words) > 0
	}
	return t
}

// action returns the action of a word, in upper or lower case.
func (e *Env) action(word string) (Action, bool) {
	word = strings.ToLower(word)
	for a, name := range actionWords[e.o.Rules] {
		if word == name {
			return Action(a), true
		}
	}
	return 0, false
}

// arrived reports whether the agent is within the threshold of the target.
func (e *Env) arrived() bool {
	return e.agent.distance(e.task.Target.X, e.task.Target.Z) <= e.o.SuccessThreshold
}

// setMetrics sets the metrics that are this environment's own.
func (e *Env) setMetrics(out *env.Outcome) {
	out.Turn["distance"] = e.agent.distance(e.task.Target.X, e.task.Target.Z)
	out.Turn["env_step"] = float64(e.steps)
	out.Turn["task_success"] = words.Number(e.arrived())
	out.Turn["last_action_success"] = words.Number(e.succeeded)
	if e.o.Rules != env.Legacy {
		out.Turn["format_correct"] = words.Number(out.Response.FormatCorrect)
		out.Trajectory["is_format_correct"] = words.Number(e.formatted)
	}
}

// setRewards sets the reward parts of a turn.
func (e *Env) setRewards(out *env.Outcome, t turnResult) {
	if e.o.Rules == env.Legacy {
		if t.success {
			out.Reward.Add(partSuccess, legacySuccess)
		}
		if t.valid && out.Response.FormatCorrect {
			out.Reward.Add(partFormat, e.o.FormatReward)
		}
		return
	}
	if t.valid && out.Response.FormatCorrect {
		out.Reward.Add(partFormat, e.o.PerTurnFormat)
	}
	if t.success {
		out.Reward.Add(partSuccess, e.o.SuccessReward)
		if e.formatted {
			out.Reward.Add(partAllFormats, e.o.FormatReward)
		}
	}
}

// observe returns the agent's view as an observation; text formats the view, which is
// a description or the mark of a picture.
func (e *Env) observe(text func(view string) string) env.Observation {
	if e.o.RenderMode == env.Text {
		return env.Observation{Text: text(e.viewText())}
	}
	return env.Observation{Text: text(env.ImageMark), Images: []image.Image{e.View()}}
}

// View draws the agent's view, nil before the first Reset.
func (e *Env) View() image.Image {
	if e.scene == nil {
		return nil
	}
	x, z := e.agent.Position()
	return e.scene.Render(x, z, e.agent.Yaw(), float64(e.agent.Horizon), e.o.FOV, e.o.Resolution)
}

// Task returns the task of the current episode.
func (e *Env) Task() Task { return e.task }

// Scene returns the task's scene, nil before the first Reset.
func (e *Env) Scene() *Scene { return e.scene }

// Agent returns the agent's position and view.
func (e *Env) Agent() Agent { return e.agent }

// Options returns the settings.
func (e *Env) Options() Options { return e.o }
