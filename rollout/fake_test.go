package rollout_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"image"
	"image/color"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/policy"
	"vagen/reward"
	"vagen/rollout"
)

// errBroken is the error of failing environments and policies in tests.
var errBroken = errors.New("broken on purpose")

// world creates environments and checks how they are used. Its environments show the
// seed and the turn, pay 1 if seed plus length of the response is odd, and end after
// as many turns as their option "turns" says, else never.
type world struct {
	// fault, when set, is asked at every call: which environment (by seed; before
	// Reset by its option "level", else -1), which method, how many turns were played before. It may
	// block, panic, change the outcome or return an error.
	fault func(ctx context.Context, seed int64, method string, turn int, o *env.Outcome) error
	// delay is how long calls take, by seed and method.
	delay func(seed int64, method string) time.Duration

	made, closed, busy, busiest, overlaps atomic.Int64
}

func (w *world) registry(t testing.TB) *env.Registry {
	t.Helper()
	r := new(env.Registry)
	require.NoError(t, r.Register("fake", func(config map[string]any) (env.Env, error) {
		e := &fakeEnv{world: w, seed: -1}
		e.turns, _ = config["turns"].(int)
		e.pictures, _ = config["pictures"].(bool)
		e.silent, _ = config["silent"].(bool)
		if level, ok := config["level"].(int); ok {
			e.seed = int64(level) // so that faults can select the environment before Reset
		}
		if err := e.meet(context.Background(), "new", nil); err != nil {
			return nil, err
		}
		w.made.Add(1)
		return e, nil
	}))
	return r
}

type fakeEnv struct {
	world            *world
	turns            int
	pictures, silent bool
	seed             int64
	turn             int
	calls            atomic.Int64
	closes           int
}

// meet is common to all calls: it counts them, delays them and makes them fail.
func (e *fakeEnv) meet(ctx context.Context, method string, o *env.Outcome) error {
	if e.calls.Add(1) > 1 {
		e.world.overlaps.Add(1)
	}
	defer e.calls.Add(-1)
	if method != "new" && method != "close" {
		busy := e.world.busy.Add(1)
		defer e.world.busy.Add(-1)
		for most := e.world.busiest.Load(); busy > most && !e.world.busiest.CompareAndSwap(most, busy); {
			most = e.world.busiest.Load()
		}
	}
	if err := e.wait(ctx, method); err != nil {
		return err
	}
	if e.world.fault != nil {
		return e.world.fault(ctx, e.seed, method, e.turn, o)
	}
	return nil
}

// wait takes the time of a call. It sets no timer for no time at all: in a bubble
// of synctest goroutines run timers that are due themselves, and two that do so at
// once crash the race detector of Go 1.26 (golang/go#78156).
func (e *fakeEnv) wait(ctx context.Context, method string) error {
	if e.world.delay == nil {
		return nil
	}
	d := e.world.delay(e.seed, method)
	if d <= 0 {
		return ctx.Err()
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (e *fakeEnv) System(ctx context.Context) (env.Observation, error) {
	o := env.Outcome{Observation: env.Observation{Text: "Guess."}}
	if e.silent {
		o.Observation.Text = ""
	}
	err := e.meet(ctx, "system", &o)
	return o.Observation, err
}

func (e *fakeEnv) Reset(ctx context.Context, seed int64) (env.Observation, error) {
	e.seed, e.turn = seed, 0
	o := env.Outcome{Observation: e.observe()}
	err := e.meet(ctx, "reset", &o)
	return o.Observation, err
}

func (e *fakeEnv) Step(ctx context.Context, response string) (env.Outcome, error) {
	odd := float64((e.seed + int64(len(response))) % 2)
	o := env.Outcome{
		Reward:     reward.Parts{{Name: "guess", Value: odd}, {Name: "turn", Value: -0.25}},
		Response:   reward.Response{Raw: response, FormatCorrect: response != ""},
		Turn:       env.Metrics{"odd": odd},
		Trajectory: env.Metrics{"turns": float64(e.turn + 1)},
	}
	err := e.meet(ctx, "step", &o)
	e.turn++
	if e.turn == e.turns {
		o.Done, o.Success = true, odd == 1
	} else if o.Observation.Text == "" {
		o.Observation = e.observe()
	}
	return o, err
}

func (e *fakeEnv) observe() env.Observation {
	o := env.Observation{Text: fmt.Sprintf("level %d turn %d", e.seed, e.turn)}
	if e.pictures {
		o.Text += " " + env.ImageMark
		o.Images = []image.Image{picture(e.seed, e.turn)}
	}
	return o
}

func (e *fakeEnv) Close() error {
	err := e.meet(context.Background(), "close", nil)
	if e.closes++; e.closes == 1 {
		e.world.closed.Add(1)
	}
	return err
}

// picture is a pixel whose colour encodes the level and the turn.
func picture(seed int64, turn int) image.Image {
	im := image.NewRGBA(image.Rect(0, 0, 1, 1))
	im.Set(0, 0, color.RGBA{uint8(seed), uint8(turn), 0, 255})
	return im
}

// parrot is a policy without a model. A letter is a token; it writes one to four
// random letters and an end-of-turn token.
type parrot struct {
	// alter may change a completion, or fail the call.
	alter func(ctx context.Context, p policy.Prompt, turn int, c *policy.Completion) error

	mu      sync.Mutex
	turns   map[uint64]int
	batches [][]uint64 // conversations of each call
	prompts [][]policy.Message
	wrote   map[uint64][]int32 // tokens of each conversation, read and written
	gone    map[uint64]bool
	wrong   []string // breaches of the contract of policy.Policy
	busy    atomic.Bool
}

// endToken ends a response, imageToken is the placeholder of an image.
const (
	endToken   = 1
	imageToken = 2
)

func (p *parrot) Generate(
	ctx context.Context, prompts []policy.Prompt, s policy.Sampling,
) ([]policy.Completion, error) {
	p.busy.Store(true)
	defer p.busy.Store(false)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.turns == nil {
		p.turns, p.gone = map[uint64]int{}, map[uint64]bool{}
	}
	if p.wrote == nil {
		p.wrote = map[uint64][]int32{}
	}
	out := make([]policy.Completion, len(prompts))
	var keys []uint64
	for i, prompt := range prompts {
		key := prompt.Conversation
		keys = append(keys, key)
		if p.gone[key] {
			p.wrong = append(p.wrong, fmt.Sprintf("conversation %d continues after it was forgotten", key))
		}
		if len(prompt.Messages) == 0 {
			p.wrong = append(p.wrong, fmt.Sprintf("conversation %d: nothing to answer", key))
		}
		p.prompts = append(p.prompts, prompt.Messages)
		out[i] = complete(prompt, s)
		if p.alter != nil {
			if err := p.alter(ctx, prompt, p.turns[key], &out[i]); err != nil {
				return nil, err
			}
		}
		p.turns[key]++
		p.wrote[key] = append(append(p.wrote[key], out[i].Context...), out[i].Tokens...)
	}
	p.batches = append(p.batches, keys)
	return out, ctx.Err()
}

func complete(prompt policy.Prompt, s policy.Sampling) policy.Completion {
	var c policy.Completion
	c.Context, c.Images = read(prompt.Messages)
	r := rand.New(rand.NewPCG(prompt.Seed, 1))
	most := s.MaxTokens
	if prompt.MaxTokens > 0 {
		most = min(most, prompt.MaxTokens)
	}
	n := 1 + r.IntN(max(1, min(4, most-1)))
	for range n {
		c.Tokens = append(c.Tokens, int32('a'+r.IntN(26)))
		c.LogProbs = append(c.LogProbs, -r.Float32())
		c.Text += string(rune(c.Tokens[len(c.Tokens)-1]))
	}
	c.Tokens, c.LogProbs, c.Stop = append(c.Tokens, endToken), append(c.LogProbs, -0.5), policy.StopEnd
	return c
}

// read is the parrot's tokenizer: one token for each letter, after the role.
func read(messages []policy.Message) (tokens []int32, images []policy.Image) {
	for _, m := range messages {
		tokens = append(tokens, int32(m.Role[0]))
		for _, r := range m.Text {
			tokens = append(tokens, int32(r))
		}
		for _, im := range m.Images {
			tokens = append(tokens, imageToken)
			h := fnv.New64()
			fmt.Fprint(h, im.At(0, 0))
			ref := policy.Image{Image: im}
			copy(ref.Hash[:], h.Sum(nil))
			images = append(images, ref)
		}
	}
	return tokens, images
}

// Count implements policy.Counter.
func (p *parrot) Count(prompt policy.Prompt) (int, error) {
	tokens, _ := read(prompt.Messages)
	return len(tokens), nil
}

func (p *parrot) Forget(keys ...uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone == nil {
		p.turns, p.gone = map[uint64]int{}, map[uint64]bool{}
	}
	for _, key := range keys {
		p.gone[key] = true
	}
}

// player returns a player with the parrot as policy and the world's environments.
func player(t testing.TB, w *world, p *parrot) *rollout.Player {
	t.Helper()
	return &rollout.Player{Policy: p, Envs: w.registry(t), Sampling: policy.Sampling{Temperature: 1, MaxTokens: 6},
		MaxTurns: 4, Workers: 2}
}

// episodes lists n episodes of different lengths, two to a group.
func episodes(n int) []rollout.Episode {
	out := make([]rollout.Episode, n)
	for i := range out {
		out[i] = rollout.Episode{
			Env: "fake", Config: map[string]any{"turns": 1 + i*5%7, "pictures": i%2 == 0},
			Seed: int64(100 + i/2), Group: i / 2, Index: i % 2,
		}
	}
	return out
}

// finished plays episodes.
func finished(t testing.TB, p *rollout.Player, eps []rollout.Episode) []*rollout.Trajectory {
	t.Helper()
	ts, _, err := p.Play(t.Context(), eps, 7)
	require.NoError(t, err)
	return ts
}

// play plays and checks that the player keeps the contracts of policy and environment.
func play(t testing.TB, w *world, p *rollout.Player, eps []rollout.Episode) []*rollout.Trajectory {
	t.Helper()
	ts := finished(t, p, eps)
	require.Len(t, ts, len(eps))
	orderly(t, w, p, eps)
	return ts
}

// settled is play in a synctest bubble; it checks after abandoned calls have returned.
func settled(t testing.TB, w *world, p *rollout.Player, eps []rollout.Episode) []*rollout.Trajectory {
	t.Helper()
	ts := finished(t, p, eps)
	synctest.Wait()
	orderly(t, w, p, eps)
	return ts
}

// orderly checks that everything is closed and no call came out of order.
func orderly(t testing.TB, w *world, p *rollout.Player, eps []rollout.Episode) {
	t.Helper()
	require.Equal(t, w.made.Load(), w.closed.Load(), "every environment is closed")
	require.Zero(t, w.overlaps.Load(), "calls of one environment overlap")
	q := p.Policy.(*parrot)
	require.Empty(t, q.wrong)
	require.Len(t, q.gone, len(eps), "every conversation is forgotten")
}
