package traintest

import (
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"vagen/policy"
)

// Bandit is a learner without a network: a table with preferences for a few words, and a
// value, for each last message of a prompt. Rows consist of tokens as for other learners:
// two per message, one for the word that is written, and an end token.
type Bandit struct {
	Words []string
	// Alter may change the result of an update or return an error. It is called after the
	// update was recorded.
	Alter func(b *policy.Batch, s *policy.Stats) error
	// OnGenerate and OnScore may return errors for their calls.
	OnGenerate, OnScore func(ctx context.Context) error
	// OnScored may change scores.
	OnScored func(rows *policy.Rows, want []bool, s *policy.Scores)
	// Poison writes NaN at positions that were not requested.
	Poison bool
	// More is added by Count, by the text of the last message.
	More map[string]int
	// Drift changes the policy relative to its reference before scoring.
	Drift float64

	mu      sync.Mutex
	Prefs   map[int32][]float64
	Values  map[int32]float64
	sum     gradient // since the last step
	Asked   []asked
	Updates []Update
	Seeds   []uint64 // of all prompts
	Opened  map[uint64]bool

	SnapshotsAt     []int // number of updates before each SnapshotPolicy
	SnapshotsClosed int   // number of closed snapshots
}

// asked records a call of Score.
type asked struct {
	Rows *policy.Rows
	Want []bool
	What policy.ScoreRequest
	Temp float64
}

// Update records a call of Bandit.Update.
type Update struct {
	Batch     *policy.Batch
	Objective policy.Objective
	Optimizer policy.Optimizer
}

const (
	FirstState = 1 << 16 // tokens from this number are states
	roleToken  = 1 << 12
)

func NewBandit(words ...string) *Bandit {
	return &Bandit{Words: words, Prefs: map[int32][]float64{}, Values: map[int32]float64{}, Opened: map[uint64]bool{}}
}

// Guesser plays the guessing game, Walker FrozenLake with one move per turn.
func Guesser() *Bandit { return NewBandit("0", "1", "2", "x y") }

func Walker() *Bandit {
	var words []string
	for _, move := range []string{"Left", "Down", "Right", "Up"} {
		words = append(words, "<think>Go.</think><answer>"+move+"</answer>")
	}
	return NewBandit(append(words, "I do not know.")...)
}

func (b *Bandit) End() int32 { return int32(len(b.Words)) }

// State returns the token of a message.
func State(m policy.Message) int32 {
	h := fnv.New32a()
	fmt.Fprint(h, m.Role, m.Text)
	return FirstState + int32(h.Sum32()>>2)
}

// read tokenizes messages.
func (b *Bandit) read(messages []policy.Message) (tokens []int32, images []policy.Image) {
	for _, m := range messages {
		tokens = append(tokens, roleToken+int32(m.Role[0]), State(m))
		for _, im := range m.Images {
			images = append(images, policy.Image{Image: im})
		}
	}
	return tokens, images
}

// probs returns the policy's distribution in a state.
func (b *Bandit) probs(s int32, temperature float64) []float64 {
	p := make([]float64, len(b.Words))
	top := 0.0
	if q := b.Prefs[s]; q != nil && temperature < 1e-3 {
		top = slices.Max(q) // exp would overflow without it
	}
	var sum float64
	for i := range p {
		x := 0.0
		if q := b.Prefs[s]; q != nil {
			x = q[i]
		}
		if i == 0 {
			x += b.Drift
		}
		p[i] = math.Exp((x - top) / temperature)
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
	return p
}

func (b *Bandit) Generate(
	ctx context.Context, prompts []policy.Prompt, s policy.Sampling,
) ([]policy.Completion, error) {
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

// each calls f for every token except the first of each row, with the state before it.
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

// poison sets the scores that were not asked for to NaN, except a row's first, which the contract requires to be 0.
func poison(x []float32, rows *policy.Rows, want []bool) {
	for i := range x {
		if !want[i] {
			x[i] = float32(math.NaN())
		}
	}
	for row := range rows.Len() {
		x[rows.Offsets[row]] = 0
	}
}

func (b *Bandit) Score(
	ctx context.Context, rows *policy.Rows, want []bool, what policy.ScoreRequest, temperature float64,
) (*policy.Scores, error) {
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
		{what.Reference, &out.Reference, func(i int, _ int32) float64 { return b.initial(rows.Tokens[i]) }},
		{what.Values, &out.Values, func(_ int, s int32) float64 { return b.Values[s] }},
		{what.SumPiSquared, &out.SumPiSquared, func(i int, s int32) (sum float64) {
			if b.IsWord(rows.Tokens[i]) {
				for _, p := range b.probs(s, temperature) {
					sum += p * p
				}
			}
			return sum
		}},
		{what.Entropy, &out.Entropy, func(i int, s int32) (h float64) {
			if b.IsWord(rows.Tokens[i]) {
				for _, p := range b.probs(s, temperature) {
					h -= p * math.Log(p)
				}
			}
			return h
		}},
	} {
		if !column.on {
			continue
		}
		x := make([]float32, len(rows.Tokens))
		if b.Poison {
			poison(x, rows, want)
		}
		each(rows, func(i int, s int32) {
			if want[i] {
				x[i] = float32(column.f(i, s))
			}
		})
		*column.into = x
	}
	if b.OnScored != nil {
		b.OnScored(rows, want, out)
	}
	return out, ctx.Err()
}

// initial returns the log-prob of a token before training.
func (b *Bandit) initial(token int32) float64 {
	if !b.IsWord(token) {
		return 0
	}
	return -math.Log(float64(len(b.Words)))
}

// logProb returns the log-prob of a token; that of context and end tokens is 0.
func (b *Bandit) logProb(token, s int32, temperature float64) float64 {
	if !b.IsWord(token) {
		return 0
	}
	return math.Log(b.probs(s, temperature)[token])
}
