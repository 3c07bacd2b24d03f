package credit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/advantage"
	"vagen/env"
	"vagen/internal/traintest"
	"vagen/policy"
	"vagen/reward"
	"vagen/rollout"
	"vagen/rollout/store"
	"vagen/train"
	"vagen/train/config"
	"vagen/train/credit"
)

// state is a state of a small world. Its actions are 0 and 1.
type state struct {
	pay  [2]float64
	next [2][]branch // none ends the episode
}

// branch is a state that may follow.
type branch struct {
	share float64
	to    int
}

// world is a finite world that starts in state 0.
type world struct {
	states []state
	pick   []float64 // by state, the policy's share of action 1
}

// values are the exact worth of every state and action, by enumeration.
func (w *world) values(gamma float64) (q [][2]float64, v []float64) {
	q, v = make([][2]float64, len(w.states)), make([]float64, len(w.states))
	for s := len(w.states) - 1; s >= 0; s-- { // later states have larger numbers
		for a := range 2 {
			q[s][a] = w.states[s].pay[a]
			for _, b := range w.states[s].next[a] {
				q[s][a] += gamma * b.share * v[b.to]
			}
		}
		v[s] = (1-w.pick[s])*q[s][0] + w.pick[s]*q[s][1]
	}
	return q, v
}

// place is a live instance of a world. Its draws after Reset come from a stream.
type place struct {
	of   *world
	at   int
	seed uint64 // of the next draw
	lies *bool  // show states in other words than before
}

func (p *place) System(context.Context) (env.Observation, error) {
	return env.Observation{Text: "s1000"}, nil
}

func (p *place) Reset(_ context.Context, seed int64) (env.Observation, error) {
	p.at, p.seed = 0, uint64(seed)
	return p.show(), nil
}

func (p *place) show() env.Observation {
	if p.lies != nil && *p.lies && p.at > 0 {
		return env.Observation{Text: fmt.Sprint("s0", p.at)} // the same state in other words
	}
	return env.Observation{Text: fmt.Sprint("s", p.at)}
}

func (p *place) Step(_ context.Context, response string) (env.Outcome, error) {
	answer := strings.TrimSuffix(strings.TrimPrefix(response, "<answer>"), "</answer>")
	a, err := strconv.Atoi(answer)
	if err != nil || a < 0 || a > 1 {
		return env.Outcome{}, errors.New("no action")
	}
	now := p.of.states[p.at]
	o := env.Outcome{
		Reward: reward.Parts{{Name: "pay", Value: now.pay[a]}}, Done: len(now.next[a]) == 0, Success: now.pay[a] > 0,
		Response: reward.Response{Actions: []string{answer}, FormatCorrect: true},
	}
	if o.Done {
		return o, nil
	}
	u := rand.New(rand.NewPCG(p.seed, 7)).Float64()
	p.seed = p.seed*6364136223846793005 + 1442695040888963407
	for _, b := range now.next[a] {
		p.at = b.to
		if u -= b.share; u < 0 {
			break
		}
	}
	o.Observation = p.show()
	return o, nil
}

func (p *place) Close() error { return nil }

// Reseed implements env.Reseeder.
func (p *place) Reseed(seed uint64) error { p.seed = seed; return nil }

// saved is a place with snapshots.
type saved struct{ *place }

func (p saved) Snapshot() ([]byte, error) { return json.Marshal([]uint64{uint64(p.at), p.seed}) }

func (p saved) Restore(_ context.Context, raw []byte) error {
	var x []uint64
	if err := json.Unmarshal(raw, &x); err != nil || len(x) != 2 {
		return env.ErrSnapshot
	}
	p.at, p.seed = int(x[0]), x[1]
	return nil
}

// tabular is a policy that reads the last state and draws an action for it.
type tabular struct {
	pick []float64
	fail func() error // of Generate

	mu    sync.Mutex
	last  map[uint64]int32
	calls int
}

const ended = 2 // the token after an action

func (p *tabular) Generate(
	ctx context.Context, prompts []policy.Prompt, s policy.Sampling,
) ([]policy.Completion, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calls++; p.fail != nil {
		if err := p.fail(); err != nil {
			return nil, err
		}
	}
	out := make([]policy.Completion, len(prompts))
	for i, q := range prompts {
		c := &out[i]
		for _, m := range q.Messages {
			n, err := strconv.Atoi(m.Text[1:])
			if err != nil {
				return nil, err
			}
			c.Context = append(c.Context, int32(100+n))
			p.read(q.Conversation, c.Context...)
		}
		share, a := p.pick[p.last[q.Conversation]-100], 0
		if rand.New(rand.NewPCG(q.Seed, 3)).Float64() < share {
			a, share = 1, 1-share
		}
		c.Tokens, c.LogProbs = []int32{int32(a), ended}, []float32{float32(math.Log(1 - share)), 0}
		c.Text, c.Stop = fmt.Sprintf("<answer>%d</answer>", a), policy.StopEnd
	}
	return out, ctx.Err()
}

func (p *tabular) read(key uint64, tokens ...int32) {
	if p.last == nil {
		p.last = map[uint64]int32{}
	}
	for _, t := range tokens {
		if t >= 100 {
			p.last[key] = t
		}
	}
}

// Resume implements policy.Resumer.
func (p *tabular) Resume(cs ...policy.Recorded) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range cs {
		p.read(c.Conversation, c.Tokens...)
	}
	return nil
}

// Encode implements policy.Encoder.
func (p *tabular) Encode(messages []policy.Message) ([]policy.Piece, []policy.Image, error) {
	a, err := strconv.Atoi(strings.Trim(messages[len(messages)-1].Text, "</answer>"))
	return []policy.Piece{{Tokens: []int32{100}}, {Tokens: []int32{int32(a), ended}, Response: true}}, nil, err
}

func (p *tabular) Forget(keys ...uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range keys {
		delete(p.last, k)
	}
}

// setup is a world with recorded episodes of its policy.
type setup struct {
	world  *world
	policy *tabular
	step   *credit.Step
	player *rollout.Player
	lies   bool
}

// newSetup plays episodes in a world and records them as a run does whose critic knows
// nothing. The environment has snapshots, or is one that repeats its episode.
func newSetup(t testing.TB, w *world, episodes int, snapshots bool) *setup {
	t.Helper()
	s := &setup{world: w, policy: &tabular{pick: w.pick}}
	registry := new(env.Registry)
	require.NoError(t, registry.Register("world", func(map[string]any) (env.Env, error) {
		p := &place{of: w, lies: &s.lies}
		if snapshots {
			return saved{p}, nil
		}
		return p, nil
	}))
	c := traintest.Small()
	c.Env.Name, c.Rollout.MaxTurns, c.Rollout.Trajectories = "world", 9, 2
	s.player = &rollout.Player{Policy: s.policy, Envs: registry, Sampling: policy.Sampling{Temperature: 1, MaxTokens: 4},
		MaxTurns: 9, Workers: 2}
	var list []rollout.Episode
	for i := range episodes {
		list = append(list, rollout.Episode{Env: "world", Seed: int64(i / 2), Group: i / 2, Index: i % 2})
	}
	ts, _, err := s.player.Play(t.Context(), list, 1)
	require.NoError(t, err)
	s.step = &credit.Step{Config: &c, Episodes: ts}
	spec, err := advantage.Describe(c.Algorithm.Estimator)
	require.NoError(t, err)
	l, err := train.LayOut(ts, &c, spec)
	require.NoError(t, err)
	for i, r := range l.Rows {
		first, last := l.Batch.Offsets[i], l.Batch.Offsets[i+1]
		s.step.Scores = append(s.step.Scores, store.Scores{
			Group: r.Episode.Group, Index: r.Episode.Index, Row: r.Row, Rewards: l.Batch.Rewards[first:last],
			Values: make([]float32, last-first),
			Loss:   l.Loss[first:last], Value: l.Value[first:last], Scored: l.Scored[first:last],
		})
	}
	return s
}

// measurement of the setup's episodes, kept in a folder of the test's.
func (s *setup) measurement(t testing.TB, change func(*credit.Measurement)) *credit.Measurement {
	t.Helper()
	m := &credit.Measurement{Options: credit.DefaultOptions(), Run: t.TempDir(), Checkpoint: 4, Played: 5,
		Identity: "table", Step: s.step, Player: s.player}
	m.Estimators, m.Params = []string{"bi_level_gae"}, s.step.Config.Algorithm.Params
	m.Params.TurnGamma = 0.5
	change(m)
	return m
}

// measured measures.
func measured(t testing.TB, m *credit.Measurement) *credit.Table {
	t.Helper()
	table, err := m.Measure(t.Context())
	require.NoError(t, err)
	return table
}

// results are those that a measurement wrote.
func results(t testing.TB, m *credit.Measurement) []*credit.Measured {
	t.Helper()
	var out []*credit.Measured
	for _, e := range m.Step.Episodes {
		r, err := credit.LoadMeasured(m.Run, credit.Key{Step: m.Played, Group: e.Group, Index: e.Index})
		require.NoError(t, err)
		out = append(out, r)
	}
	return out
}

// places are the states that an episode was in.
func places(t testing.TB, e *rollout.Trajectory) (at []int, actions []int) {
	t.Helper()
	for _, k := range e.Turns {
		s, err := strconv.Atoi(k.Observation.Text[1:])
		require.NoError(t, err)
		a, err := strconv.Atoi(k.Parsed.Actions[0])
		require.NoError(t, err)
		at, actions = append(at, s), append(actions, a)
	}
	return at, actions
}

// registry has the library's estimators and others.
func registry(t testing.TB, more ...advantage.Spec) config.Registries {
	t.Helper()
	r := advantage.Builtin()
	for _, s := range more {
		require.NoError(t, r.Register(s))
	}
	return config.Registries{Estimators: r}
}

// shifted is an estimator that gives every turn what the turn after it deserves.
type shifted struct{ advantage.Estimator }

func (s shifted) Estimate(dst *advantage.Result, b *advantage.Batch) error {
	if err := s.Estimator.Estimate(dst, b); err != nil {
		return err
	}
	for row := range b.Rows() {
		next := float32(0)
		for i := b.Offsets[row+1] - 1; i >= b.Offsets[row]; i-- {
			if b.TurnEnd[i] {
				now := dst.Advantages[i]
				for j := i; j >= b.Offsets[row] && b.Loss[j]; j-- {
					dst.Advantages[j] = next
				}
				next = now
			}
		}
	}
	return nil
}

func names(t *credit.Table) []string {
	var out []string
	for _, l := range t.Estimators {
		out = append(out, l.Name)
	}
	return out
}

func line(t testing.TB, table *credit.Table, name string) credit.Line {
	t.Helper()
	i := slices.Index(names(table), name)
	require.GreaterOrEqual(t, i, 0, name)
	return table.Estimators[i]
}
