package navigation

import (
	"math"
	"slices"

	"vagen/env"
)

// Action is an action of the agent.
type Action uint8

// The actions, in the order of the original's action numbers.
const (
	MoveAhead Action = iota
	MoveBack
	MoveRight
	MoveLeft
	TurnRight
	TurnLeft
	LookUp
	LookDown
	Actions // their number
)

var liteWords = [Actions]string{"move_forward", "move_backward", "move_right", "move_left", "turn_right", "turn_left",
	"look_up", "look_down"}

// actionWords are the words of the actions by rule set.
var actionWords = map[env.Rules][Actions]string{
	env.Next:   liteWords,
	env.Lite:   liteWords,
	env.Legacy: {"moveahead", "moveback", "moveright", "moveleft", "rotateright", "rotateleft", "lookup", "lookdown"},
}

// Word returns the word of an action in a rule set, "" if it has none.
func (a Action) Word(r env.Rules) string {
	if a >= Actions {
		return ""
	}
	return actionWords[r][a]
}

// turn is the heading of a move, relative to the agent's.
var turn = [4]Heading{MoveAhead: 0, MoveBack: 2, MoveRight: 1, MoveLeft: 3}

// towards returns the move in a compass direction.
func (a Agent) towards(h Heading) Action {
	return Action(slices.Index(turn[:], (h+4-a.Look)%4))
}

// Limits of the camera's horizon in degrees, and the step of one action.
const (
	highest  = -30
	lowest   = 60
	lookStep = 30
)

// Agent is the agent's position and view. It moves on a lattice around its start, so
// that moving back leads exactly to the start.
type Agent struct {
	Look    Heading
	Horizon int // degrees downwards

	startX, startZ float64
	step           float64
	i, j           int // steps to the east and north of the start
}

// newAgent starts at a pose. It rounds the rotation to a multiple of 90 degrees and
// the horizon to a value that looking up and down can reach.
func newAgent(p Pose, step float64) Agent {
	quarter := int(math.Round(p.Rotation/90)) % 4
	horizon := int(math.Round(p.Horizon/lookStep)) * lookStep
	return Agent{Look: Heading((quarter + 4) % 4), Horizon: min(max(horizon, highest), lowest),
		startX: p.Position.X, startZ: p.Position.Z, step: step}
}

// Position returns the agent's position.
func (a Agent) Position() (x, z float64) {
	return a.startX + float64(a.i)*a.step, a.startZ + float64(a.j)*a.step
}

// Yaw returns the agent's rotation in degrees clockwise from north.
func (a Agent) Yaw() float64 { return 90 * float64(a.Look) }

// Do returns the agent after an action, and whether the action succeeded: a blocked
// move, or a look beyond the limits, changes nothing.
func (a Agent) Do(s *Scene, action Action) (Agent, bool) {
	switch action {
	case MoveAhead, MoveBack, MoveRight, MoveLeft:
		return a.move(s, (a.Look+turn[action])%4)
	case TurnRight:
		a.Look = (a.Look + 1) % 4
	case TurnLeft:
		a.Look = (a.Look + 3) % 4
	case LookUp:
		if a.Horizon-lookStep < highest {
			return a, false
		}
		a.Horizon -= lookStep
	case LookDown:
		if a.Horizon+lookStep > lowest {
			return a, false
		}
		a.Horizon += lookStep
	default:
		return a, false
	}
	return a, true
}

func (a Agent) move(s *Scene, h Heading) (Agent, bool) {
	next := a
	next.i += int(headings[h][0])
	next.j += int(headings[h][1])
	x, z := a.Position()
	nx, nz := next.Position()
	if !s.clear(x, z, nx, nz) {
		return a, false
	}
	return next, true
}

// blocked reports which of the moves ahead, back, right and left are not
// possible.
func (a Agent) blocked(s *Scene, m Action) bool {
	_, ok := a.Do(s, m)
	return !ok
}
