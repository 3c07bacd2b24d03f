package primitiveskill

import (
	"context"
	"hash/fnv"
	"image"
	"strconv"

	"vagen/env"
	"vagen/env/internal/prompts"
	"vagen/env/internal/turns"
	"vagen/env/internal/words"
	"vagen/internal/rng"
	"vagen/reward"
)

// Names of the reward parts.
const (
	partSuccess = "success"
	partFormat  = "format"
	partStage   = "stage"
	partSkills  = "skills"
)

// skillCost is the legacy rules' cost of a skill.
const skillCost = 0.1

// Env is one live environment. It implements env.Env.
type Env struct {
	turns.Base
	o    Options
	task *task

	world  *world // nil before the first Reset
	first  float64
	skills int // run in this episode
}

var (
	_ env.Env       = (*Env)(nil)
	_ env.Describer = (*Env)(nil)
	_ env.Claimant  = (*Env)(nil)
	_ env.Factory   = FromConfig
)

// New creates an environment. The error lists all invalid options.
func New(o Options) (*Env, error) {
	po := reward.ParserOptions{Dialect: reward.LitePrimitiveSkill, KeepCase: true}
	base, err := turns.New("primitiveskill", o.Validate(), o.Ruled, placeholders, po)
	if err != nil {
		return nil, err
	}
	e := &Env{Base: base, o: o, task: tasks[o.Task]}
	e.Prompt = turns.Prompt{Own: e.ownSystem, Format: e.ownFormat, Example: e.example, Shown: true,
		Lead: "\nFor example, to put a red cube at (40,-60,20) onto a blue one at (-30,80,20):\n",
		More: prompts.Values{"max_steps": strconv.Itoa(o.MaxSteps), "object_names": e.names()}}
	return e, nil
}

// Reset starts the episode of the seed, which must not be negative.
func (e *Env) Reset(ctx context.Context, seed int64) (env.Observation, error) {
	if err := e.Calls.Reset(ctx, seed); err != nil {
		return env.Observation{}, err
	}
	name := fnv.New64a()
	name.Write([]byte(e.o.Task))
	e.world = e.task.start(rng.New(name.Sum64(), rng.Level, uint64(seed)))
	e.first, e.skills = e.task.judge(e.world).potential(), 0
	turns.Begin(&e.Base)
	return e.observe(nil, true), nil
}

// Step runs the skills of one response. No response text makes it fail. The episode is
// done when the task is solved or the skills are used up. As in the originals, turns
// after the end are played, too.
func (e *Env) Step(ctx context.Context, response string) (env.Outcome, error) {
	if err := e.Calls.Step(ctx, e.world != nil); err != nil {
		return env.Outcome{}, err
	}
	r := turns.Read(&e.Base, response)
	before := e.world
	was := e.task.judge(before).potential()
	t := e.play(r)
	now := e.task.judge(e.world)
	out := turns.Outcome(r, t.done, now.success, t.valid, len(t.words) > 0)
	out.Turn["env_step"] = float64(e.skills)
	if e.o.Rules != env.Legacy {
		out.Turn["format_correct"] = words.Number(r.FormatCorrect)
	} else {
		delete(out.Turn, "action_is_effective")
	}
	e.setRewards(&out, t, now, now.potential()-was)
	turns.Claim(&e.Base, &out, "primitive_skill", r.FormatCorrect && t.valid, before, e.world,
		func(c *reward.Claim, w *world) { c.State = e.task.state(w).JSON() })
	out.Observation = e.observe(t.words, false)
	return out, nil
}

// turnResult is the result of a turn's skills.
type turnResult struct {
	words []string // of the skills run
	valid bool     // there are actions, and all were run
	done  bool
}

// play runs the skills of a response until one is not valid, the task is solved or
// the skills of the episode are used up.
func (e *Env) play(r reward.Response) (t turnResult) {
	for i, text := range r.Actions {
		s, ok := e.task.parseSkill(text)
		if !ok {
			break
		}
		e.world = e.world.clone()
		e.world.do(s)
		e.skills++
		t.words = r.Actions[:i+1]
		if t.done = e.task.judge(e.world).success || e.skills >= e.o.MaxSteps; t.done {
			break
		}
	}
	t.valid = len(t.words) > 0 && len(t.words) == len(r.Actions)
	return t
}

// setRewards sets the reward parts of a turn.
func (e *Env) setRewards(out *env.Outcome, t turnResult, now verdict, progress float64) {
	if t.valid && out.Response.FormatCorrect {
		out.Reward.Add(partFormat, e.o.FormatReward)
	}
	switch {
	case e.o.Rules != env.Legacy:
		out.Reward.Add(partStage, progress)
		if now.success {
			out.Reward.Add(partSuccess, e.o.SuccessReward)
		}
	case e.o.EachTurn:
		out.Reward.Add(partStage, progress)
		out.Reward.Add(partSkills, -skillCost*float64(len(t.words)))
	}
}

// FinalReward returns the legacy rules' reward at the end of the episode in addition to
// the turns': 0 if the turns already include it (see Options.EachTurn), or under the
// lite rules.
func (e *Env) FinalReward() float64 {
	if e.world == nil || e.o.Rules != env.Legacy || e.o.EachTurn {
		return 0
	}
	return e.task.judge(e.world).potential() - e.first - skillCost*float64(e.skills)
}

func (e *Env) observe(done []string, first bool) env.Observation {
	if e.o.RenderMode == env.Text {
		return env.Observation{Text: e.observationText("", done, first)}
	}
	return env.Observation{Text: e.observationText(env.ImageMark, done, first), Images: []image.Image{e.View()}}
}

// View draws the table, nil before the first Reset.
func (e *Env) View() image.Image {
	if e.world == nil {
		return nil
	}
	return e.world.draw(e.o.Task, e.o.Resolution)
}

// Options returns the settings.
func (e *Env) Options() Options { return e.o }
