package sokoban

import (
	"context"
	"fmt"
	"hash/fnv"
	"image"

	"vagen/env"
	"vagen/env/internal/options"
	"vagen/env/internal/turns"
	"vagen/env/internal/words"
	"vagen/reward"
)

// Names of the reward parts.
const (
	partSuccess = "success"
	partFormat  = "format"
	partTurn    = "turn"
	partMove    = "move" // legacy: the cost of moves
	partBox     = "box"  // legacy: boxes that got on or off targets
)

// Env is one live Sokoban environment. It implements env.Env.
type Env struct {
	turns.Base
	o     Options
	draw  *renderer // nil in text mode
	fixed *Room     // the room of all episodes, nil when it is made at each Reset

	room     *Room
	turn     int // finished turns of the episode
	onTarget int // boxes on targets after the last move; always 0 at the start
	solved   bool
}

var (
	_ env.Env       = (*Env)(nil)
	_ env.Describer = (*Env)(nil)
	_ env.Claimant  = (*Env)(nil)
	_ env.Factory   = FromConfig
)

// New creates an environment. The error lists all invalid options.
func New(o Options) (*Env, error) {
	po := reward.ParserOptions{Dialect: reward.Lite, AnswerBox: true}
	base, err := turns.New("sokoban", o.Validate(), o.Ruled, placeholders, po)
	if err != nil {
		return nil, err
	}
	e := &Env{Base: base.Strict(o.StrictFormat), o: o}
	e.Prompt = turns.Prompt{Own: e.ownSystem, Format: e.ownFormat, Example: e.example, Brief: o.Prompt == options.Brief,
		Shown: o.UseExample}
	if len(o.Desc) > 0 {
		if e.fixed, err = Parse(o.Desc); err != nil {
			return nil, err
		}
	}
	if o.RenderMode == env.Vision {
		e.draw = newRenderer(o.TileSize, o.Shading, o.Edges)
	}
	return e, nil
}

// Reset starts the episode of the seed, which must not be negative.
func (e *Env) Reset(ctx context.Context, seed int64) (env.Observation, error) {
	if err := e.Calls.Reset(ctx, seed); err != nil {
		return env.Observation{}, err
	}
	room, err := e.roomOf(ctx, seed)
	if err != nil {
		return env.Observation{}, err
	}
	e.room, e.turn, e.onTarget, e.solved = room, 0, 0, false
	turns.Begin(&e.Base)
	return e.observe(nil, true), nil
}

// roomOf returns the first accepted room of the seed and its successors.
func (e *Env) roomOf(ctx context.Context, seed int64) (*Room, error) {
	if e.fixed != nil {
		return e.fixed.Clone(), nil
	}
	first := seed
	for range e.o.MaxTries {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("sokoban: reset: %w", context.Cause(ctx))
		}
		room, err := Generate(e.o.Rules, seed, e.o.Room[0], e.o.Room[1], e.o.Boxes)
		if err == nil && e.accepts(room) && e.mayPlay(first, room) {
			return room, nil
		}
		seed = e.o.Retry.Next(seed)
	}
	solution := ""
	if s := e.o.MinSolution; s != nil {
		solution = fmt.Sprintf(" and a solution of %d to %d moves", s[0], s[1])
	}
	return nil, fmt.Errorf("sokoban: reset: seed %d: %w; none of %d seeds gives one with %d boxes in %v%s",
		first, ErrRoom, e.o.MaxTries, e.o.Boxes, e.o.Room, solution)
}

func (e *Env) accepts(r *Room) bool {
	if e.o.MinSolution == nil {
		return true
	}
	moves, _ := r.Solve(e.o.SolveDepth)
	return len(moves) >= e.o.MinSolution[0] && len(moves) <= e.o.MinSolution[1]
}

// heldOutShare is the number of parts of all rooms of which one is held out.
const heldOutShare = 8

// mayPlay reports whether the room is one that a seed may get, see Options.HeldOut.
func (e *Env) mayPlay(seed int64, r *Room) bool {
	if e.o.HeldOut == 0 {
		return true
	}
	h := fnv.New64a()
	for _, row := range r.Rows() {
		h.Write([]byte(row)) // never fails
	}
	// FNV mixes its low bits badly.
	return (h.Sum64()>>32%heldOutShare == 0) == (seed < int64(e.o.HeldOut))
}

// Step plays the moves of one response. No response text makes it fail. The
// episode is done when every target holds a box. As in the originals, turns after the
// end are played, too.
func (e *Env) Step(ctx context.Context, response string) (env.Outcome, error) {
	if err := e.Calls.Step(ctx, e.room != nil); err != nil {
		return env.Outcome{}, err
	}
	r := turns.Read(&e.Base, response)
	before := e.view()
	t := e.play(r)
	e.turn++

	out := turns.Outcome(r, t.success, t.success, t.valid, t.effective)
	e.addRewards(&out, before, t)
	out.Observation = e.observe(t.moved, false)
	return out, nil
}

// turnResult is the result of a turn's moves.
type turnResult struct {
	moved     []string // words of the moves made
	valid     bool
	effective bool // the player moved
	success   bool
	boxes     int // boxes moved onto targets minus boxes moved off targets
	solved    int // moves after which every target had a box
}

// play makes the moves of a response until one is unknown or the room is solved.
func (e *Env) play(r reward.Response) turnResult {
	t := turnResult{valid: len(r.Actions) > 0 && (e.o.Rules == env.Legacy || r.FormatCorrect)}
	start := e.room.player
	for i, word := range r.Actions {
		a, ok := e.action(word)
		if !ok {
			t.valid = false
			break
		}
		e.room.Move(a)
		t.moved = r.Actions[:i+1]
		switch now := e.room.OnTarget(); {
		case now > e.onTarget:
			t.boxes++
			e.onTarget = now
		case now < e.onTarget:
			t.boxes--
			e.onTarget = now
		}
		if e.onTarget == e.room.count {
			t.solved++
			t.success = true
			break
		}
	}
	t.effective = e.room.player != start
	return t
}

// action returns the move of a word, which the legacy rules compare with its case.
func (e *Env) action(word string) (Action, bool) {
	return words.Move[Action](actionWords[:], word, e.o.Rules == env.Legacy)
}

// gym-sokoban's rewards, which the legacy rules pay.
const (
	moveCost    = 0.1
	boxReward   = 1
	finalReward = 10
)

// addRewards sets the reward parts and the claims of a turn.
func (e *Env) addRewards(out *env.Outcome, before *Room, t turnResult) {
	formatted := out.Response.FormatCorrect && len(t.moved) > 0
	if e.o.Rules == env.Legacy {
		formatted = out.Response.FormatCorrect && t.valid
		out.Reward.Add(partMove, -moveCost*float64(len(t.moved)))
		out.Reward.Add(partBox, boxReward*float64(t.boxes))
		out.Reward.Add(partSuccess, finalReward*float64(t.solved))
	} else if t.success && !(e.solved && e.o.Rules == env.Next) {
		out.Reward.Add(partSuccess, e.o.SuccessReward)
	}
	e.solved = e.solved || t.success
	if formatted {
		out.Reward.Add(partFormat, e.o.FormatReward)
		turns.Describe(out, e.o.ObservationReward, e.o.PredictionReward, before, e.room, e.o.DescribeMoves,
			(*Room).describe)
	}
	out.Reward.Add(partTurn, -e.o.TurnCost)
	turns.Claim(&e.Base, out, "sokoban", formatted, before, e.room, func(c *reward.Claim, room *Room) {
		c.Truth = room.relations()
	})
}

// view returns a copy of the room before a turn, nil if no reward needs it.
func (e *Env) view() *Room {
	if e.o.ObservationReward == 0 && !e.o.UseStateReward {
		return nil
	}
	return e.room.Clone()
}

func (e *Env) observe(moved []string, first bool) env.Observation {
	if e.draw == nil {
		return env.Observation{Text: e.observationText(e.room.Text(e.o.Rules), moved, first)}
	}
	return env.Observation{
		Text:   e.observationText(env.ImageMark, moved, first),
		Images: []image.Image{e.draw.draw(e.room)},
	}
}

// Room returns a copy of the current room, nil before the first Reset.
func (e *Env) Room() *Room {
	if e.room == nil {
		return nil
	}
	return e.room.Clone()
}

// Options returns the settings.
func (e *Env) Options() Options { return e.o }
