package frozenlake

import (
	"context"
	"fmt"
	"image"

	"vagen/env"
	"vagen/env/internal/options"
	"vagen/env/internal/turns"
	"vagen/env/internal/words"
	"vagen/reward"
)

// Names of the reward parts.
const (
	partSuccess  = "success"
	partFormat   = "format"
	partHole     = "hole"
	partProgress = "progress"
	partTurn     = "turn"
)

// Env is one live FrozenLake environment. It implements env.Env.
type Env struct {
	turns.Base
	o      Options
	draw   *renderer // nil in text mode
	fixed  *Map      // the map of all episodes, nil when it is drawn at each Reset
	random randomness

	level *Map
	at    Cell
	turn  int // finished turns of the episode
}

var (
	_ env.Env       = (*Env)(nil)
	_ env.Describer = (*Env)(nil)
	_ env.Claimant  = (*Env)(nil)
	_ env.Factory   = FromConfig
)

// New creates an environment. The error lists all invalid options.
func New(o Options) (*Env, error) {
	po := reward.ParserOptions{Dialect: reward.Lite}
	base, err := turns.New("frozenlake", o.Validate(), o.Ruled, placeholders, po)
	if err != nil {
		return nil, err
	}
	e := &Env{Base: base.Strict(o.StrictFormat), o: o, random: new(streams)}
	e.Prompt = turns.Prompt{Own: e.ownSystem, Format: e.ownFormat, Example: e.example, Brief: o.Prompt == options.Brief,
		Shown: o.UseExample}
	switch {
	case len(o.Desc) > 0:
		e.fixed, err = Parse(o.Desc)
	case o.MapSeed != nil:
		e.fixed, err = Generate(o.Rules, *o.MapSeed, o.Size, o.P)
	}
	if err != nil {
		return nil, err
	}
	if o.RenderMode == env.Vision {
		e.draw = newRenderer(o.TileSize, o.Shading, o.Cracks)
	}
	return e, nil
}

// Reset starts the episode of the seed, which must not be negative.
func (e *Env) Reset(ctx context.Context, seed int64) (env.Observation, error) {
	if err := e.Calls.Open(ctx); err != nil {
		return env.Observation{}, err
	}
	if seed < 0 {
		return env.Observation{}, fmt.Errorf("frozenlake: reset: seed %d: %w: %w", seed, ErrLevel, env.ErrSeed)
	}
	level := e.fixed
	if level == nil {
		var err error
		if level, err = Generate(e.o.Rules, seed, e.o.Size, e.o.P); err != nil {
			return env.Observation{}, err
		}
	}
	e.random.seed(seed)
	e.level, e.at, e.turn = level, level.begin(e.random.gym()), 0
	turns.Begin(&e.Base)
	return e.observe(nil, true), nil
}

// Step plays the moves of one response. No response text makes it fail. Once
// the player is in a hole or on the goal, further moves change nothing. As in the
// originals, a later turn with a valid move is done again, and is rewarded again at the
// goal except under the next rules; a turn without one is neither.
func (e *Env) Step(ctx context.Context, response string) (env.Outcome, error) {
	if err := e.Calls.Step(ctx, e.level != nil); err != nil {
		return env.Outcome{}, err
	}
	before := e.at
	r := turns.Read(&e.Base, response)
	moved, valid, first := e.play(r)
	e.turn++

	acted := len(moved) > 0
	out := turns.Outcome(r, acted && e.level.ends(e.at), acted && e.level.At(e.at) == Goal, valid, e.at != before)
	e.addRewards(&out, before, acted, valid, first)
	out.Observation = e.observe(moved, false)
	return out, nil
}

// play makes the moves of a response until one is unknown or the episode ends.
// It returns the words of the moves made, whether the turn counts as valid, and
// whether the last move brought the player to the cell that ends the episode,
// rather than finding it there.
func (e *Env) play(r reward.Response) (moved []string, valid, first bool) {
	valid = len(r.Actions) > 0 && (e.o.Rules == env.Legacy || r.FormatCorrect)
	for i, word := range r.Actions {
		a, ok := e.action(word)
		if !ok {
			return moved, false, first
		}
		from := e.at
		e.at = e.level.Move(from, slipped(a, e.o.Slippery, e.o.SlipProb, e.random))
		moved = r.Actions[:i+1]
		if e.level.ends(e.at) {
			first = from != e.at
			break
		}
	}
	return moved, valid, first
}

// action returns the move of a word, which the legacy rules compare with its case.
func (e *Env) action(word string) (Action, bool) {
	return words.Move[Action](actionWords[:], word, e.o.Rules == env.Legacy)
}

// Rewards of the legacy rules for reaching the goal: gym's own reward, once, and a bonus.
const (
	gymReward   = 1
	legacyBonus = 9
)

// addRewards sets the reward parts and the claims of a turn.
func (e *Env) addRewards(out *env.Outcome, before Cell, acted, valid, first bool) {
	formatted := out.Response.FormatCorrect && acted
	if e.o.Rules == env.Legacy {
		formatted = out.Response.FormatCorrect && valid
	}
	if out.Success && (first || e.o.Rules != env.Next) {
		bonus := e.o.SuccessReward
		if e.o.Rules == env.Legacy {
			bonus = legacyBonus
			if first {
				bonus += gymReward
			}
		}
		out.Reward.Add(partSuccess, bonus)
	}
	if formatted {
		out.Reward.Add(partFormat, e.o.FormatReward)
		turns.Describe(out, e.o.ObservationReward, e.o.PredictionReward, before, e.at, e.o.DescribeHoles,
			e.level.describe)
	}
	if first && e.level.At(e.at) == Hole {
		out.Reward.Add(partHole, -e.o.HolePenalty)
	}
	if from, to := e.level.Distance(before), e.level.Distance(e.at); from >= 0 && to >= 0 {
		out.Reward.Add(partProgress, e.o.ProgressReward*float64(from-to))
	}
	out.Reward.Add(partTurn, -e.o.TurnCost)
	turns.Claim(&e.Base, out, "frozenlake", formatted, before, e.at, func(c *reward.Claim, at Cell) {
		c.Truth = e.level.relations(at)
	})
}

func (e *Env) observe(moved []string, first bool) env.Observation {
	if e.draw == nil {
		return env.Observation{Text: e.observationText(e.level.Text(e.o.Rules, e.at), moved, first)}
	}
	return env.Observation{
		Text:   e.observationText(env.ImageMark, moved, first),
		Images: []image.Image{e.draw.draw(e.level, e.at)},
	}
}

// Map returns the level of the current episode, nil before the first Reset.
func (e *Env) Map() *Map { return e.level }

// Player returns where the player is.
func (e *Env) Player() Cell { return e.at }

// Options returns the settings.
func (e *Env) Options() Options { return e.o }
