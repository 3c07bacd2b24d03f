package navigation

import "math"

// Action is what the agent can do.
type Action uint8

// The actions, in the order of the original's numbers.
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

var liteWords = [Actions]string{"move_forward", "move_backward", "move_right", "move_left", "turn_right", "turn_left", "look_up", "look_down"}

// actionWords are the words of the actions by rule set.
var actionWords = map[Rules][Actions]string{
	Next:   liteWords,
	Lite:   liteWords,
	Legacy: {"moveahead", "moveback", "moveright", "moveleft", "rotateright", "rotateleft", "lookup", "lookdown"},
}

// Word returns the word of an action in a rule set, "" when there is none.
func (a Action) Word(r Rules) string {
	if a >= Actions {
		return ""
	}
	return actionWords[r][a]
}

// turn is the heading of a move, relative to where the agent looks.
var turn = [4]Heading{MoveAhead: 0, MoveBack: 2, MoveRight: 1, MoveLeft: 3}

// Limits of looking up and down in degrees, with the step between.
const (
	highest  = -30
	lowest   = 60
	lookStep = 30
)

// Agent is where the agent stands and how it looks. It moves on a lattice around
// its start, so that ways back lead exactly there.
type Agent struct {
	Look    Heading
	Horizon int // degrees downwards

	startX, startZ float64
	step           float64
	i, j           int // steps to the east and north of the start
}

// newAgent starts at a pose; its rotation is taken to the nearest quarter, its
// horizon to the nearest that looking leads to.
func newAgent(p Pose, step float64) Agent {
	quarter := int(math.Round(p.Rotation/90)) % 4
	horizon := int(math.Round(p.Horizon/lookStep)) * lookStep
	return Agent{Look: Heading((quarter + 4) % 4), Horizon: min(max(horizon, highest), lowest),
		startX: p.Position.X, startZ: p.Position.Z, step: step}
}

// Position returns where the agent stands.
func (a Agent) Position() (x, z float64) {
	return a.startX + float64(a.i)*a.step, a.startZ + float64(a.j)*a.step
}

// Yaw returns where the agent looks, in degrees clockwise from north.
func (a Agent) Yaw() float64 { return 90 * float64(a.Look) }

// Do returns the agent after an action, and whether the action succeeded: a move
// whose way is blocked, or a look beyond the limits, changes nothing.
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
