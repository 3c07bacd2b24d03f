package navigation

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strconv"

	"vagen/env/internal/rays"
	"vagen/reward"
)

// viewState is the world's state as the legacy environment gives it to a judge. Distances
// are in metres over the floor, with two decimals; directions are ahead, right, left
// and back, relative to the agent's view.
type viewState struct {
	TargetType string          `json:"target_obj_type"`
	Distance   float64         `json:"target_distance_to_player"`
	Direction  string          `json:"target_direction_to_player"`
	Visible    []visibleObject `json:"visible_objects"` // nearest first
}

// visibleObject is an object in view.
type visibleObject struct {
	Type      string  `json:"type"`
	Direction string  `json:"direction_to_player"`
	Distance  float64 `json:"distance_to_player"`
}

// json returns the state as one line of JSON.
func (s viewState) json() string {
	raw, err := json.Marshal(s)
	if err != nil {
		return "" // numbers are finite
	}
	return string(raw)
}

// Directions relative to the agent's view.
const (
	toAhead = "ahead"
	toRight = "right"
	toLeft  = "left"
	toBack  = "back"
)

// direction returns the direction of a position for an agent: ahead up to 45 degrees to
// either side, right and left up to 135.
func (a Agent) direction(x, z float64) string {
	ax, az := a.Position()
	switch angle := math.Remainder(math.Atan2(x-ax, z-az)*180/math.Pi-a.Yaw(), 360); {
	case angle >= -45 && angle <= 45:
		return toAhead
	case angle > 45 && angle <= 135:
		return toRight
	case angle >= -135 && angle < -45:
		return toLeft
	}
	return toBack
}

// distance is the distance of a position over the floor.
func (a Agent) distance(x, z float64) float64 {
	ax, az := a.Position()
	return math.Hypot(x-ax, z-az)
}

// roundCents rounds to two decimals, as Python's round does.
func roundCents(v float64) float64 {
	r, err := strconv.ParseFloat(strconv.FormatFloat(v, 'f', 2, 64), 64)
	if err != nil {
		return v
	}
	return r
}

// state describes the world from an agent's view, with at most MaxObjects objects.
func (e *Env) state(a Agent) viewState {
	t := e.task.Target
	s := viewState{TargetType: e.task.TargetType, Distance: roundCents(a.distance(t.X, t.Z)),
		Direction: a.direction(t.X, t.Z), Visible: []visibleObject{}}
	for _, i := range e.seen(a, e.o.MaxObjects) {
		c := e.scene.objects[i].Center
		s.Visible = append(s.Visible, visibleObject{e.scene.objects[i].Type, a.direction(c[0], c[2]),
			roundCents(a.distance(c[0], c[2]))})
	}
	return s
}

// seen returns the objects in an agent's view, at most so many, nearest first.
func (e *Env) seen(a Agent, most int) []int {
	x, z := a.Position()
	eye := rays.Eye{At: rays.V(x, eyeHeight, z), Yaw: a.Yaw(), Pitch: float64(a.Horizon), FOV: e.o.FOV}
	var list []int
	for i := range e.scene.objects {
		if e.scene.visible(eye, i) {
			list = append(list, i)
		}
	}
	away := func(i int) float64 {
		c := e.scene.objects[i].Center
		return roundCents(a.distance(c[0], c[2]))
	}
	slices.SortStableFunc(list, func(p, q int) int { return cmp.Compare(away(p), away(q)) })
	return list[:min(len(list), most)]
}

// relations returns the state as relations: ahead is above and back is below, as on a
// map with the agent's view upwards. The target is first, with the name "target".
func (s viewState) relations() []reward.Relation {
	list := []reward.Relation{relate("target", s.Direction)}
	for _, v := range s.Visible {
		list = append(list, relate(v.Type, v.Direction))
	}
	return list
}

func relate(name, direction string) reward.Relation {
	switch direction {
	case toAhead:
		return reward.Relate(name, -1, 0)
	case toRight:
		return reward.Relate(name, 0, 1)
	case toLeft:
		return reward.Relate(name, 0, -1)
	}
	return reward.Relate(name, 1, 0)
}

// Describe returns what is in view and where the target is as JSON, as judges get it, or in
// the words that observations have to use if they are rewarded by words. It is "" before
// Reset.
func (e *Env) Describe() string {
	switch {
	case e.scene == nil:
		return ""
	case e.describing():
		return e.describe(e.agent, true)
	}
	return e.state(e.agent).json()
}
