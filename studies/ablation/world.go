package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	"vagen/env"
	"vagen/env/frozenlake"
	"vagen/reward"
)

// worldName is the environment's name in the registry.
const worldName = "told_lake"

// partProgress names the reward for getting closer to the goal.
const partProgress = "progress"

// hintedLake is FrozenLake with observations in text: the whole map, which is long and changes
// little between turns, followed by the moves towards the goal and the safe moves. A move
// that shortens the path to the goal gets a reward, a move that lengthens it a penalty.
type hintedLake struct {
	*frozenlake.Env
	progress float64
}

// newHintedLake is the environment's factory. The option progress is the reward for one
// cell closer to the goal; the others are FrozenLake's.
func newHintedLake(config map[string]any) (env.Env, error) {
	rest := map[string]any{}
	t := &hintedLake{}
	for name, value := range config {
		if name != partProgress {
			rest[name] = value
			continue
		}
		x, ok := value.(float64)
		if !ok {
			return nil, fmt.Errorf("option %q: %w: %v is not a number", name, env.ErrOption, value)
		}
		t.progress = x
	}
	e, err := frozenlake.FromConfig(rest)
	if err != nil {
		return nil, err
	}
	lake, ok := e.(*frozenlake.Env)
	if !ok {
		return nil, fmt.Errorf("%w: FrozenLake made a %T", env.ErrOption, e)
	}
	t.Env = lake
	return t, nil
}

// Reset implements env.Env.
func (t *hintedLake) Reset(ctx context.Context, seed int64) (env.Observation, error) {
	o, err := t.Env.Reset(ctx, seed)
	return t.addHints(o), err
}

// Step implements env.Env.
func (t *hintedLake) Step(ctx context.Context, response string) (env.Outcome, error) {
	before := t.distance()
	out, err := t.Env.Step(ctx, response)
	if err != nil {
		return out, err
	}
	if after := t.distance(); before >= 0 && after >= 0 && after != before {
		out.Reward = append(out.Reward, reward.Part{Name: partProgress, Value: t.progress * float64(before-after)})
	}
	out.Observation = t.addHints(out.Observation)
	return out, nil
}

// addHints appends to the map the moves that decrease the straight-line distance to the
// goal, and those that do not end in a hole.
func (t *hintedLake) addHints(o env.Observation) env.Observation {
	m, at := t.Map(), t.Player()
	if m == nil {
		return o
	}
	var near, safe []string
	for i, step := range []frozenlake.Cell{{Col: -1}, {Row: 1}, {Col: 1}, {Row: -1}} {
		name := strings.ToLower(frozenlake.Action(i).String())
		next := frozenlake.Cell{Row: at.Row + step.Row, Col: at.Col + step.Col}
		if apart(next, m.Goal()) < apart(at, m.Goal()) {
			near = append(near, " to-"+name)
		}
		if kind := m.At(next); kind != 0 && kind != frozenlake.Hole {
			safe = append(safe, " free-"+name)
		}
	}
	o.Text += "\n" + strings.Join(near, "") + strings.Join(safe, "")
	return o
}

// apart is the number of moves between two cells if there were no holes.
func apart(a, b frozenlake.Cell) int {
	dr, dc := a.Row-b.Row, a.Col-b.Col
	return max(dr, -dr) + max(dc, -dc)
}

// distance is the number of moves to the goal, −1 if there is no path.
func (t *hintedLake) distance() int {
	if t.Map() == nil {
		return -1
	}
	return t.Map().Distance(t.Player())
}

// scriptedResponse returns a response that the warm start imitates: a random move with
// probability noise, otherwise a step of the shortest path, in the correct format.
func (t *hintedLake) scriptedResponse(r *rand.Rand, noise float64) string {
	return t.Script(r, frozenlake.Noisy(noise, frozenlake.ShortestPath), 1)
}
