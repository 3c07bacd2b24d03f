// Package table is a learner without a network: a table that has, for each state, the logits of the words that can be
// said there and a value. It implements policy.Learner, and is trained, saved and resumed as a model is. States share
// nothing, so what it learns of a state is what an estimator says about the words that were said there.
package table

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"vagen/policy"
)

// Cell is the table's entry for one state.
type Cell struct {
	Logits []float64 // of the words
	Value  float64
}

// Table is the learner: a policy and a critic.
//
// The tokens of a row are the words by their numbers, the end of a turn, and one for every message: the state that it
// shows, or that it shows none, as the instructions do.
type Table struct {
	Cells map[int32]*Cell // by the token of the state
	// Unit moves the logits by the learning rate in the direction of their gradient, whatever its length.
	Unit bool `json:"-"`

	words    []string
	read     func(m policy.Message) (state int32, ok bool)
	gradient map[int32]*Cell  // since the last step
	resumed  map[uint64]int32 // states of conversations that continue recorded ones
}

var (
	_ policy.Learner  = (*Table)(nil)
	_ policy.Restorer = (*Table)(nil)
	_ policy.Resumer  = (*Table)(nil)
)

// New returns a table that says each of the words with the same probability. read is its tokenizer: the state that a
// message shows, from 0, if it shows one.
func New(words []string, read func(m policy.Message) (state int32, ok bool)) *Table {
	return &Table{Cells: map[int32]*Cell{}, words: words, read: read, resumed: map[uint64]int32{}}
}

// end is the token of the end of a turn, noState that of a message without a state. States follow.
func (t *Table) end() int32     { return int32(len(t.words)) }
func (t *Table) noState() int32 { return t.end() + 1 }

// token returns the token of a message.
func (t *Table) token(m policy.Message) int32 {
	if state, ok := t.read(m); ok {
		return t.noState() + 1 + state
	}
	return t.noState()
}

// at returns a state's cell; that of a state without updates is zero.
func (t *Table) at(state int32) Cell {
	if c := t.Cells[state]; c != nil {
		return *c
	}
	return Cell{Logits: make([]float64, len(t.words))}
}

// logProbs is the log-softmax at a temperature; 0 is greedy.
func (c Cell) logProbs(temperature float64) []float64 {
	lp, top, sum := make([]float64, len(c.Logits)), math.Inf(-1), 0.0
	for w, z := range c.Logits {
		lp[w] = z / max(temperature, 1e-6)
		top = max(top, lp[w])
	}
	for _, z := range lp {
		sum += math.Exp(z - top)
	}
	for w := range lp {
		lp[w] -= top + math.Log(sum)
	}
	return lp
}

// Generate implements policy.Policy.
func (t *Table) Generate(ctx context.Context, prompts []policy.Prompt, s policy.Sampling) ([]policy.Completion, error) {
	out := make([]policy.Completion, len(prompts))
	for i, p := range prompts {
		c := &out[i]
		state, ok := t.resumed[p.Conversation]
		if !ok {
			state = t.noState()
		}
		for _, m := range p.Messages {
			state = t.token(m)
			c.Context = append(c.Context, state)
		}
		lp := t.at(state).logProbs(s.Temperature)
		u, word := rand.New(rand.NewPCG(p.Seed, 0)).Float64(), int32(0)
		for ; s.Temperature > 0 && word < t.end()-1; word++ {
			if u -= math.Exp(lp[word]); u < 0 {
				break
			}
		}
		if s.Temperature == 0 {
			word = first(lp)
		}
		c.Tokens, c.LogProbs = []int32{word, t.end()}, []float32{float32(lp[word]), 0}
		c.Text, c.Stop = t.words[word], policy.StopEnd
	}
	return out, ctx.Err()
}

// first returns the index of the largest number, the first one of equal ones.
func first(xs []float64) (at int32) {
	for i, x := range xs {
		if x > xs[at] {
			at = int32(i)
		}
	}
	return at
}

// Forget implements policy.Policy.
func (t *Table) Forget(keys ...uint64) {
	for _, key := range keys {
		delete(t.resumed, key)
	}
}

// Resume implements policy.Resumer: of what was said the last state counts.
func (t *Table) Resume(conversations ...policy.Recorded) error {
	for _, c := range conversations {
		t.resumed[c.Conversation] = t.noState()
		for _, token := range c.Tokens {
			if token >= t.noState() {
				t.resumed[c.Conversation] = token
			}
		}
	}
	return nil
}

// choices calls f for every word in rows, with the state that it was chosen in.
func (t *Table) choices(rows *policy.Rows, f func(i int, state, word int32)) {
	for row := range rows.Len() {
		state := t.noState()
		for i := rows.Offsets[row]; i < rows.Offsets[row+1]; i++ {
			switch token := rows.Tokens[i]; {
			case token >= t.noState():
				state = token
			case token != t.end():
				f(i, state, token)
			}
		}
	}
}

// Score implements policy.Learner.
func (t *Table) Score(
	ctx context.Context, rows *policy.Rows, _ []bool, what policy.ScoreRequest, temperature float64,
) (*policy.Scores, error) {
	if what.Reference {
		return nil, errors.New("table: there is no reference policy: switch KL off")
	}
	n := len(rows.Tokens)
	out := &policy.Scores{LogProbs: make([]float32, n), Values: make([]float32, n), Entropy: make([]float32, n)}
	if what.SumPiSquared {
		out.SumPiSquared = make([]float32, n)
	}
	t.choices(rows, func(i int, state, word int32) {
		c := t.at(state)
		lp := c.logProbs(temperature)
		out.LogProbs[i], out.Values[i] = float32(lp[word]), float32(c.Value)
		for _, x := range lp {
			out.Entropy[i] -= float32(math.Exp(x) * x)
			if what.SumPiSquared {
				out.SumPiSquared[i] += float32(math.Exp(2 * x))
			}
		}
	})
	return out, ctx.Err()
}

// Accumulate implements policy.Learner: package policy evaluates the objective in plain Go, with its derivatives
// by what Score returns.
func (t *Table) Accumulate(ctx context.Context, b *policy.Batch, o policy.Objective) (policy.Stats, error) {
	stats := policy.Stats{Tokens: len(b.Tokens)}
	if o.EntropyCoef != 0 {
		return stats, errors.New("table: there is no entropy bonus")
	}
	now, err := t.Score(ctx, &b.Rows, nil, policy.ScoreRequest{}, o.Temperature)
	if err != nil {
		return stats, err
	}
	e, err := o.Eval(b, now)
	if err != nil {
		return stats, err
	}
	e.Report(&stats)
	if t.gradient == nil {
		t.gradient = map[int32]*Cell{}
	}
	t.choices(&b.Rows, func(i int, state, word int32) {
		g := t.gradient[state]
		if g == nil {
			g = &Cell{Logits: make([]float64, len(t.words))}
			t.gradient[state] = g
		}
		if slope := e.Slopes.LogProbs; slope != nil {
			for w, lp := range t.at(state).logProbs(o.Temperature) {
				g.Logits[w] -= slope[i] * math.Exp(lp)
			}
			g.Logits[word] += slope[i]
		}
		if slope := e.Slopes.Values; slope != nil {
			g.Value += slope[i]
		}
	})
	return stats, ctx.Err()
}

// Step implements policy.Learner.
func (t *Table) Step(ctx context.Context, opt policy.Optimizer) (policy.Stats, error) {
	rate := opt.Rate
	if norm := t.norm(); t.Unit && norm > 0 {
		rate /= norm
	}
	for state, g := range t.gradient {
		c := t.at(state)
		for w, x := range g.Logits {
			c.Logits[w] -= rate * x
		}
		c.Value -= opt.CriticRate * g.Value
		t.Cells[state] = &c
	}
	t.gradient = nil
	return policy.Stats{}, ctx.Err()
}

// norm is the length of the logits' gradient.
func (t *Table) norm() float64 {
	var squares float64
	for _, state := range slices.Sorted(maps.Keys(t.gradient)) { // a sum in one order
		for _, x := range t.gradient[state].Logits {
			squares += x * x
		}
	}
	return math.Sqrt(squares)
}

// Update implements policy.Learner.
func (t *Table) Update(
	ctx context.Context, b *policy.Batch, o policy.Objective, opt policy.Optimizer,
) (policy.Stats, error) {
	return policy.AccumulateAndStep(ctx, t, b, o, opt)
}

const fileName = "table.json"

// Save implements policy.Learner.
func (t *Table) Save(_ context.Context, dir string) error {
	raw, err := json.Marshal(t)
	if err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, fileName), raw, 0o644))
}

// Restore implements policy.Restorer: it reads what Save wrote, so that a run can be resumed.
func (t *Table) Restore(_ context.Context, dir string) error {
	raw, err := os.ReadFile(filepath.Join(dir, fileName))
	if err == nil {
		t.Cells = nil
		err = json.Unmarshal(raw, t)
	}
	if err != nil {
		return fmt.Errorf("table: %w", err)
	}
	return nil
}
