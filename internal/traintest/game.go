package traintest

import (
	"context"
	"errors"
	"fmt"
	"image"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/frozenlake"
	"vagen/reward"
)

var ErrBroken = errors.New("broken on purpose")

// Arena creates small environments: they show a colour, 0 to 2, give a reward of 1 for its
// number and −0.5 otherwise, and end after some turns. The colours depend on the level's
// seed.
type Arena struct {
	// Fault, if set, is called before every step.
	Fault func(seed int64, turn int) error

	mu    sync.Mutex
	Seeds []int64 // of all resets
}

type Guess struct {
	arena *Arena
	turns int
	all   bool // all answers so far were correct
	seed  int64
	turn  int
}

// Registry contains the guessing game and the real FrozenLake.
func (a *Arena) Registry(t testing.TB) *env.Registry {
	t.Helper()
	r, err := a.Open()
	require.NoError(t, err)
	return r
}

func (a *Arena) Open() (*env.Registry, error) {
	r := new(env.Registry)
	guessing := func(cfg map[string]any) (env.Env, error) {
		var o struct {
			Turns int `option:"turns"`
		}
		if err := env.Decode(cfg, &o); err != nil || o.Turns < 1 {
			return nil, fmt.Errorf("turns is %v (%w)", cfg["turns"], err)
		}
		return &Guess{arena: a, turns: o.Turns}, nil
	}
	return r, errors.Join(r.Register("guess", guessing), r.Register("frozenlake", frozenlake.FromConfig))
}

func (g *Guess) System(context.Context) (env.Observation, error) {
	return env.Observation{Text: "Say the number of the colour."}, nil
}

func (g *Guess) Reset(_ context.Context, seed int64) (env.Observation, error) {
	g.arena.mu.Lock()
	defer g.arena.mu.Unlock()
	g.arena.Seeds = append(g.arena.Seeds, seed)
	g.seed, g.turn, g.all = seed, 0, true
	return g.observe(), nil
}

func (g *Guess) Colour() int64 { return (g.seed + int64(g.turn)*g.seed/3) % 3 }

func (g *Guess) observe() env.Observation {
	return env.Observation{
		Text:   fmt.Sprintf("<image> colour %d", g.Colour()),
		Images: []image.Image{image.NewGray(image.Rect(0, 0, 1, 1))},
	}
}

func (g *Guess) Step(_ context.Context, response string) (env.Outcome, error) {
	if g.arena.Fault != nil {
		if err := g.arena.Fault(g.seed, g.turn); err != nil {
			return env.Outcome{}, err
		}
	}
	pay := -0.5
	said := strings.TrimSuffix(strings.TrimPrefix(response, "<guess>"), "</guess>")
	if said == fmt.Sprint(g.Colour()) {
		pay = 1
	} else {
		g.all = false
	}
	g.turn++
	o := env.Outcome{
		Reward: reward.Parts{{Name: "guess", Value: pay}}, Done: g.turn == g.turns, Success: g.turn == g.turns && g.all,
		Response: reward.Response{FormatCorrect: len(said) == 1, Sections: map[string]string{"guess": said}},
	}
	if !o.Done {
		o.Observation = g.observe()
	}
	return o, nil
}

func (g *Guess) Close() error { return nil }
