package traintest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"image"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/frozenlake"
	"vagen/policy"
	"vagen/reward"
	"vagen/train"
	"vagen/train/config"
	"vagen/train/track"
)

var ErrBroken = errors.New("broken on purpose")

// Arena makes small environments: they show a colour, 0 to 2, want to hear its
// number, pay 1 for it and −0.5 otherwise, and end after some turns. The level's
// seed decides the colours.
type Arena struct {
	// Fault, when set, is asked before every step.
	Fault func(seed int64, turn int) error

	mu    sync.Mutex
	Seeds []int64 // of all resets
}

type Guess struct {
	arena *Arena
	turns int
	all   bool // no turn was wrong
	seed  int64
	turn  int
}

// Registry offers the guessing game and the real FrozenLake.
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

// Bandit is a learner without a network: a table of preferences over a few words
// and of values, by the last message that was read. Its rows are tokens all the
// same: two for each message, one for the word that it writes, and an end token.
type Bandit struct {
	Words []string
	// Alter may change or fail what an update is about to report; it is called
	// after the update was recorded.
	Alter func(b *policy.Batch, s *policy.Stats) error
	// OnGenerate and score may fail their calls.
	OnGenerate, OnScore func(ctx context.Context) error
	// Poison puts NaN where no number was asked for.
	Poison bool
	// More is what Count adds, by the last message's text.
	More map[string]int
	// Drift moves the policy away from its reference before anything is scored.
	Drift float64

	mu      sync.Mutex
	Prefs   map[int32][]float64
	Values  map[int32]float64
	Asked   []asked
	Updates []Update
	Seeds   []uint64 // of all prompts
	Opened  map[uint64]bool

	Lent     []int // updates before each Lend
	Returned int   // how many of them were closed
}

// asked is what Score was asked for.
type asked struct {
	Rows *policy.Rows
	Want []bool
	What policy.ScoreRequest
	Temp float64
}

// Update is what Update was told to do.
type Update struct {
	Batch     *policy.Batch
	Objective policy.Objective
	Optimizer policy.Optimizer
}

const (
	FirstState = 1 << 16 // states are tokens from here on
	roleToken  = 1 << 12
)

func NewBandit(words ...string) *Bandit {
	return &Bandit{Words: words, Prefs: map[int32][]float64{}, Values: map[int32]float64{}, Opened: map[uint64]bool{}}
}

// Guesser plays the guessing game, walker FrozenLake with a move a turn.
func Guesser() *Bandit { return NewBandit("0", "1", "2", "x y") }

func Walker() *Bandit {
	var words []string
	for _, move := range []string{"Left", "Down", "Right", "Up"} {
		words = append(words, "<think>Go.</think><answer>"+move+"</answer>")
	}
	return NewBandit(append(words, "I do not know.")...)
}

func (b *Bandit) End() int32 { return int32(len(b.Words)) }

// State is the token of a message.
func State(m policy.Message) int32 {
	h := fnv.New32a()
	fmt.Fprint(h, m.Role, m.Text)
	return FirstState + int32(h.Sum32()>>2)
}

// read is the tokenizer.
func (b *Bandit) read(messages []policy.Message) (tokens []int32, images []policy.Image) {
	for _, m := range messages {
		tokens = append(tokens, roleToken+int32(m.Role[0]), State(m))
		for _, im := range m.Images {
			images = append(images, policy.Image{Image: im})
		}
	}
	return tokens, images
}

// probs is the policy's distribution in a state.
func (b *Bandit) probs(s int32, temperature float64) []float64 {
	p := make([]float64, len(b.Words))
	var sum float64
	for i := range p {
		x := 0.0
		if q := b.Prefs[s]; q != nil {
			x = q[i]
		}
		if i == 0 {
			x += b.Drift
		}
		p[i] = math.Exp(x / temperature)
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
	return p
}

func (b *Bandit) Generate(ctx context.Context, prompts []policy.Prompt, s policy.Sampling) ([]policy.Completion, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.OnGenerate != nil {
		if err := b.OnGenerate(ctx); err != nil {
			return nil, err
		}
	}
	out := make([]policy.Completion, len(prompts))
	for i, p := range prompts {
		b.Seeds, b.Opened[p.Conversation] = append(b.Seeds, p.Seed), true
		c := &out[i]
		c.Context, c.Images = b.read(p.Messages)
		probs := b.probs(c.Context[len(c.Context)-1], max(s.Temperature, 1e-9))
		if s.Temperature == 0 {
			probs = b.greedy(c.Context[len(c.Context)-1])
		}
		u, word := rand.New(rand.NewPCG(p.Seed, 3)).Float64(), 0
		for ; word < len(probs)-1 && u >= probs[word]; word++ {
			u -= probs[word]
		}
		c.Tokens, c.LogProbs = []int32{int32(word), b.End()}, []float32{float32(math.Log(probs[word])), 0}
		c.Text, c.Stop = b.Words[word], policy.StopEnd
		if s.Thinking.Tokens > 0 {
			c.Forced = []int{1}
		}
	}
	return out, ctx.Err()
}

// Count implements policy.Counter.
func (b *Bandit) Count(p policy.Prompt) (int, error) {
	tokens, _ := b.read(p.Messages)
	return len(tokens) + b.More[p.Messages[len(p.Messages)-1].Text], nil
}

func (b *Bandit) greedy(s int32) []float64 {
	p := b.probs(s, 1)
	best := make([]float64, len(p))
	best[slices.Index(p, slices.Max(p))] = 1
	return best
}

func (b *Bandit) Forget(keys ...uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, k := range keys {
		delete(b.Opened, k)
	}
}

// each calls f for every token of rows but the first ones, with the state before.
func each(r *policy.Rows, f func(i int, s int32)) {
	for row := range r.Len() {
		s := int32(0)
		for i := r.Offsets[row]; i < r.Offsets[row+1]; i++ {
			if i > r.Offsets[row] {
				f(i, s)
			}
			if r.Tokens[i] >= FirstState {
				s = r.Tokens[i]
			}
		}
	}
}

func (b *Bandit) IsWord(token int32) bool { return token < b.End() }

func (b *Bandit) Score(ctx context.Context, rows *policy.Rows, want []bool, what policy.ScoreRequest, temperature float64) (*policy.Scores, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.Asked = append(b.Asked, asked{rows, want, what, temperature})
	if b.OnScore != nil {
		if err := b.OnScore(ctx); err != nil {
			return nil, err
		}
	}
	out := &policy.Scores{}
	for _, column := range []struct {
		on   bool
		into *[]float32
		f    func(i int, s int32) float64
	}{
		{what.LogProbs, &out.LogProbs, func(i int, s int32) float64 { return b.logProb(rows.Tokens[i], s, temperature) }},
		{what.Reference, &out.Reference, func(i int, _ int32) float64 {
			if b.IsWord(rows.Tokens[i]) {
				return -math.Log(float64(len(b.Words)))
			}
			return 0
		}},
		{what.Values, &out.Values, func(_ int, s int32) float64 { return b.Values[s] }},
	} {
		if !column.on {
			continue
		}
		x := make([]float32, len(rows.Tokens))
		if b.Poison {
			for i := range x {
				if !want[i] {
					x[i] = float32(math.NaN())
				}
			}
			for row := range rows.Len() { // there the contract says 0
				x[rows.Offsets[row]] = 0
			}
		}
		each(rows, func(i int, s int32) {
			if want[i] {
				x[i] = float32(column.f(i, s))
			}
		})
		*column.into = x
	}
	return out, ctx.Err()
}

// logProb of a token; context and end tokens are certain.
func (b *Bandit) logProb(token, s int32, temperature float64) float64 {
	if !b.IsWord(token) {
		return 0
	}
	return math.Log(b.probs(s, temperature)[token])
}

func (b *Bandit) Update(ctx context.Context, batch *policy.Batch, o policy.Objective, opt policy.Optimizer) (policy.Stats, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.Updates = append(b.Updates, Update{batch, o, opt})
	s := policy.Stats{Tokens: len(batch.Tokens)}
	if b.Alter != nil {
		if err := b.Alter(batch, &s); err != nil || s.Skipped {
			return s, err
		}
	}
	if err := b.learn(batch, o, opt, &s); err != nil {
		return s, err
	}
	return s, ctx.Err()
}

// learn climbs the gradient of the objective's policy loss and moves values towards
// returns. KL and entropy terms have no gradient here.
func (b *Bandit) learn(batch *policy.Batch, o policy.Objective, opt policy.Optimizer, stats *policy.Stats) error {
	prefs, values := map[int32][]float64{}, map[int32]float64{}
	slope := make([]float64, len(batch.Tokens))
	if !o.CriticOnly {
		logProbs := make([]float32, len(batch.Tokens))
		each(&batch.Rows, func(i int, s int32) { logProbs[i] = float32(b.logProb(batch.Tokens[i], s, o.Temperature)) })
		o.KLCoef = 0
		e, err := o.Eval(batch, logProbs)
		if err != nil {
			return err
		}
		slope = e.Slope
		e.Report(stats, batch)
		stats.Metrics = nil // as of the model's learner with losses of single tokens
	}
	each(&batch.Rows, func(i int, s int32) {
		if w := float64(batch.Weight[i]); w != 0 && b.IsWord(batch.Tokens[i]) && !o.CriticOnly {
			p := b.probs(s, o.Temperature)
			if prefs[s] == nil {
				prefs[s] = make([]float64, len(b.Words))
			}
			for k := range p {
				prefs[s][k] += slope[i] * p[k]
				stats.Entropy -= w * p[k] * math.Log(p[k])
			}
			prefs[s][batch.Tokens[i]] -= slope[i]
		}
		if batch.ValueWeight != nil && batch.ValueWeight[i] != 0 && o.ValueCoef > 0 {
			e := b.Values[s] - float64(batch.Returns[i])
			values[s] += float64(batch.ValueWeight[i]) * e
			stats.ValueLoss += float64(batch.ValueWeight[i]) * e * e / 2
		}
	})
	for _, s := range slices.Sorted(mapKeys(prefs)) {
		if b.Prefs[s] == nil {
			b.Prefs[s] = make([]float64, len(b.Words))
		}
		for k, g := range prefs[s] {
			b.Prefs[s][k] += opt.Rate * g
			stats.GradNorm += g * g
		}
	}
	for _, s := range slices.Sorted(mapKeys(values)) {
		b.Values[s] -= o.ValueCoef * opt.CriticRate * values[s]
	}
	stats.GradNorm = math.Sqrt(stats.GradNorm)
	return nil
}

func mapKeys[V any](m map[int32]V) func(func(int32) bool) {
	return func(yield func(int32) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// table is what a bandit saves.
type table struct {
	Prefs  map[int32][]float64
	Values map[int32]float64
}

func (b *Bandit) Table() ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return json.Marshal(table{b.Prefs, b.Values})
}

func (b *Bandit) Save(_ context.Context, dir string) error {
	raw, err := b.Table()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "table.json"), raw, 0o644)
}

func (b *Bandit) Restore(_ context.Context, dir string) error {
	raw, err := os.ReadFile(filepath.Join(dir, "table.json"))
	if err != nil {
		return err
	}
	t := table{map[int32][]float64{}, map[int32]float64{}}
	if err := json.Unmarshal(raw, &t); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.Prefs, b.Values = t.Prefs, t.Values
	return nil
}

// lentBandit is a bandit's policy of one moment.
type lentBandit struct {
	*Bandit
	closed *int
}

// SnapshotPolicy implements policy.PolicySnapshotter.
func (b *Bandit) SnapshotPolicy(ctx context.Context) (policy.PolicySnapshot, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := NewBandit(b.Words...)
	c.OnGenerate, c.Drift = b.OnGenerate, b.Drift
	for s, p := range b.Prefs {
		c.Prefs[s] = slices.Clone(p)
	}
	b.Lent = append(b.Lent, len(b.Updates))
	return lentBandit{c, &b.Returned}, ctx.Err()
}

func (l lentBandit) Close() error {
	*l.closed++
	if len(l.Opened) > 0 {
		return fmt.Errorf("%d conversations are left open", len(l.Opened))
	}
	return nil
}

// Aligned is a bandit that tells where its words end.
type Aligned struct{ *Bandit }

func (b Aligned) Ends(tokens []int32) (ends []int) {
	at := 0
	for _, token := range tokens {
		if b.IsWord(token) {
			at += len(b.Words[token])
		}
		ends = append(ends, at)
	}
	return ends
}

// Encode implements policy.Encoder: responses are words of the bandit's.
func (b *Bandit) Encode(messages []policy.Message) ([]policy.Piece, []policy.Image, error) {
	var out []policy.Piece
	var images []policy.Image
	var pending []policy.Message
	for _, m := range messages {
		if m.Role != policy.Assistant {
			pending = append(pending, m)
			continue
		}
		word := slices.Index(b.Words, m.Text)
		if word < 0 {
			return nil, nil, fmt.Errorf("%q is not one of my words", m.Text)
		}
		context, ims := b.read(pending)
		images, pending = append(images, ims...), nil
		out = append(out, policy.Piece{Tokens: context}, policy.Piece{Tokens: []int32{int32(word), b.End()}, Response: true})
	}
	return out, images, nil
}

var (
	_ policy.Learner = (*Bandit)(nil)
	_ policy.Encoder = (*Bandit)(nil)
)

// Small is a configuration for the guessing game that trains in no time.
func Small() config.Config {
	c := config.Default()
	c.Run.Seed = 5
	c.Env.Name, c.Env.Config = "guess", map[string]any{"turns": uint64(2)}
	c.Algorithm.Estimator, c.Algorithm.TurnGamma, c.Algorithm.Lambda = "bi_level_gae", 0.9, 0.95
	c.Data.TrainBatch, c.Data.ValBatch, c.Data.MaxResponse = 8, 6, 4
	c.Agent.Actor.MiniBatch, c.Agent.Actor.Optim.Rate, c.Agent.Actor.Entropy = 4, 2, 0
	c.Critic.Optim.Rate, c.Critic.ValueClip = 0.5, 0
	c.Trainer.Steps, c.Trainer.TestFreq, c.Trainer.ValBefore = 3, 0, false
	return c
}

// Journal is a sink that keeps events.
type Journal []track.Event

func (j *Journal) Event(e track.Event) error { *j = append(*j, e); return nil }
func (j *Journal) Close() error              { return nil }

// Kinds lists events as "kind step".
func (j Journal) Kinds() []string {
	var out []string
	for _, e := range j {
		out = append(out, fmt.Sprint(e.Kind, " ", e.Step))
	}
	return out
}

// Trainer wires a learner to the arena and a journal.
func Trainer(t testing.TB, c config.Config, b *Bandit, a *Arena) (*train.Trainer, *Journal) {
	t.Helper()
	j := new(Journal)
	return &train.Trainer{Config: c, Learner: b, Envs: a.Registry(t), Sinks: []track.Sink{j}}, j
}

// Run trains and returns what was recorded.
func Run(t testing.TB, c config.Config, b *Bandit) Journal {
	t.Helper()
	tr, j := Trainer(t, c, b, &Arena{})
	require.NoError(t, tr.Run(t.Context()))
	require.Empty(t, b.Opened, "no conversation is left open")
	return *j
}

// Split is a run in which episodes have three turns and several rows.
func Split(harness string) config.Config {
	c := Grouped()
	c.Env.Config = map[string]any{"turns": uint64(3)}
	c.Rollout.MaxTurns, c.Trainer.Harness, c.Trainer.CompactBudget = 3, harness, 12
	c.Trainer.CompactSummary = 2
	c.Algorithm.Estimator = "token_level_gae"
	if harness == "window" {
		one := 1
		c.Rollout.WindowSize = &one
	}
	return c
}

// Told sums up what a learner was told to do, update by update.
type Told struct {
	Critic bool    // the critic alone
	Coef   float64 // of the value loss
	Rows   int
	Clip   float64
	Beta   float64
}

func (b *Bandit) Told() []Told {
	var out []Told
	for _, u := range b.Updates {
		out = append(out, Told{u.Objective.CriticOnly, u.Objective.ValueCoef, u.Batch.Len(), u.Optimizer.GradClip, u.Optimizer.Beta2})
	}
	return out
}

// Has reports whether a metric was measured.
func Has(m track.Metrics, name string) bool {
	_, ok := m[name]
	return ok
}

// Whole is a configuration whose steps are one optimiser step on all episodes, with
// returns that can be added up by hand: no discount, and values that are 0.
func Whole() config.Config {
	c := Small()
	c.Algorithm.Estimator, c.Algorithm.Gamma, c.Algorithm.Lambda = "masked_gae", 1, 1
	c.Agent.Actor.MiniBatch, c.Trainer.Steps = c.Data.TrainBatch, 1
	return c
}

// Untimed are the metrics that must not depend on anything but the configuration.
func Untimed(j Journal) []map[string]uint64 {
	var out []map[string]uint64
	for _, e := range j {
		bits := map[string]uint64{}
		for name, x := range e.Metrics {
			if !train.MachineMetric(name) {
				bits[name] = math.Float64bits(x)
			}
		}
		out = append(out, bits)
	}
	return out
}

// Steps are the events of training steps.
func (j Journal) Steps() []track.Event {
	var out []track.Event
	for _, e := range j {
		if e.Kind == "step" {
			out = append(out, e)
		}
	}
	return out
}

// Grouped is whole with three episodes per start state.
func Grouped() config.Config {
	c := Whole()
	c.Rollout.Trajectories, c.Agent.Actor.MiniBatch = 3, 24
	return c
}
