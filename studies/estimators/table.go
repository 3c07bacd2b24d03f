package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"vagen/env/frozenlake"
	"vagen/internal/regular"
	"vagen/policy"
)

// The tokens of a row: one for every message, which is the state that it shows, and two for every response, a move
// and the end of the turn.
const (
	endOfTurn  = int32(frozenlake.Actions)
	noState    = endOfTurn + 1 // a message without a map
	firstState = noState + 1
)

// grid are the lines of a map in an observation.
var grid = regexp.MustCompile(`(?m)^[ _OGPX√]+$`)

// read is the tokenizer.
func read(m policy.Message) int32 {
	lines := grid.FindAllString(m.Text, -1)
	if lines == nil {
		return noState
	}
	h := fnv.New32a()
	for _, line := range lines {
		_, _ = h.Write([]byte(line + "\n")) // never fails
	}
	return firstState + int32(h.Sum32()>>2)
}

// cell is the table's entry for one state.
type cell struct {
	Logits [frozenlake.Actions]float64
	Value  float64
}

// table is a policy with a critic, without a network: states share nothing, so what it learns is what the estimator
// tells it.
type table struct {
	Cells    map[int32]*cell
	gradient map[int32]*cell  // since the last step
	resumed  map[uint64]int32 // states of conversations that continue recorded ones
}

var (
	_ policy.Learner = (*table)(nil)
	_ policy.Resumer = (*table)(nil)
)

func newTable() *table { return &table{Cells: map[int32]*cell{}, resumed: map[uint64]int32{}} }

// at returns a state's cell; that of a state without updates is zero.
func (t *table) at(state int32) cell {
	if c := t.Cells[state]; c != nil {
		return *c
	}
	return cell{}
}

// logProbs is the log-softmax at a temperature; 0 is greedy.
func (c cell) logProbs(temperature float64) (lp [frozenlake.Actions]float64) {
	top, sum := math.Inf(-1), 0.0
	for a, z := range c.Logits {
		lp[a] = z / max(temperature, 1e-6)
		top = max(top, lp[a])
	}
	for _, z := range lp {
		sum += math.Exp(z - top)
	}
	for a := range lp {
		lp[a] -= top + math.Log(sum)
	}
	return lp
}

// Generate implements policy.Policy.
func (t *table) Generate(ctx context.Context, prompts []policy.Prompt, s policy.Sampling) ([]policy.Completion, error) {
	out := make([]policy.Completion, len(prompts))
	for i, p := range prompts {
		c := &out[i]
		state, ok := t.resumed[p.Conversation]
		if !ok {
			state = noState
		}
		for _, m := range p.Messages {
			state = read(m)
			c.Context = append(c.Context, state)
		}
		lp := t.at(state).logProbs(s.Temperature)
		u, move := rand.New(rand.NewPCG(p.Seed, 0)).Float64(), int32(0)
		for ; move < endOfTurn-1; move++ {
			if u -= math.Exp(lp[move]); u < 0 {
				break
			}
		}
		c.Tokens, c.LogProbs = []int32{move, endOfTurn}, []float32{float32(lp[move]), 0}
		c.Text, c.Stop = fmt.Sprintf("<answer>%s</answer>", frozenlake.Action(move)), policy.StopEnd
	}
	return out, ctx.Err()
}

// Forget implements policy.Policy.
func (t *table) Forget(keys ...uint64) {
	for _, key := range keys {
		delete(t.resumed, key)
	}
}

// Resume implements policy.Resumer: of what was said the last state counts.
func (t *table) Resume(conversations ...policy.Recorded) error {
	for _, c := range conversations {
		t.resumed[c.Conversation] = noState
		for _, token := range c.Tokens {
			if token >= noState {
				t.resumed[c.Conversation] = token
			}
		}
	}
	return nil
}

// choices calls f for every move in rows, with the state that it was chosen in.
func choices(rows *policy.Rows, f func(i int, state, move int32)) {
	for row := range rows.Len() {
		state := noState
		for i := rows.Offsets[row]; i < rows.Offsets[row+1]; i++ {
			switch token := rows.Tokens[i]; {
			case token >= noState:
				state = token
			case token != endOfTurn:
				f(i, state, token)
			}
		}
	}
}

// Score implements policy.Learner.
func (t *table) Score(
	ctx context.Context, rows *policy.Rows, _ []bool, what policy.ScoreRequest, temperature float64,
) (*policy.Scores, error) {
	if what.Reference {
		return nil, errors.New("estimators: the table has no reference policy")
	}
	n := len(rows.Tokens)
	out := &policy.Scores{LogProbs: make([]float32, n), Values: make([]float32, n), Entropy: make([]float32, n)}
	if what.SumPiSquared {
		out.SumPiSquared = make([]float32, n)
	}
	choices(rows, func(i int, state, move int32) {
		c := t.at(state)
		lp := c.logProbs(temperature)
		out.LogProbs[i], out.Values[i] = float32(lp[move]), float32(c.Value)
		for _, x := range lp {
			out.Entropy[i] -= float32(math.Exp(x) * x)
			if what.SumPiSquared {
				out.SumPiSquared[i] += float32(math.Exp(2 * x))
			}
		}
	})
	return out, ctx.Err()
}

// Accumulate implements policy.Learner.
func (t *table) Accumulate(ctx context.Context, b *policy.Batch, o policy.Objective) (policy.Stats, error) {
	stats := policy.Stats{Tokens: len(b.Tokens)}
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
		t.gradient = map[int32]*cell{}
	}
	choices(&b.Rows, func(i int, state, move int32) {
		g := t.gradient[state]
		if g == nil {
			g = &cell{}
			t.gradient[state] = g
		}
		if slope := e.Slopes.LogProbs; slope != nil {
			for a, lp := range t.at(state).logProbs(o.Temperature) {
				g.Logits[a] -= slope[i] * math.Exp(lp)
			}
			g.Logits[move] += slope[i]
		}
		if slope := e.Slopes.Values; slope != nil {
			g.Value += slope[i]
		}
	})
	return stats, ctx.Err()
}

// Step implements policy.Learner. The logits move by the rate in the direction of their gradient, whatever its
// length: estimators differ in scale, and only what they say about turns is to be compared.
func (t *table) Step(ctx context.Context, opt policy.Optimizer) (policy.Stats, error) {
	var squares float64
	for _, state := range slices.Sorted(maps.Keys(t.gradient)) { // a sum in one order
		for _, x := range t.gradient[state].Logits {
			squares += x * x
		}
	}
	rate := 0.0
	if squares > 0 {
		rate = opt.Rate / math.Sqrt(squares)
	}
	for state, g := range t.gradient {
		c := t.at(state)
		for a, x := range g.Logits {
			c.Logits[a] -= rate * x
		}
		c.Value -= opt.CriticRate * g.Value
		t.Cells[state] = &c
	}
	t.gradient = nil
	return policy.Stats{}, ctx.Err()
}

// Update implements policy.Learner.
func (t *table) Update(
	ctx context.Context, b *policy.Batch, o policy.Objective, opt policy.Optimizer,
) (policy.Stats, error) {
	return policy.AccumulateAndStep(ctx, t, b, o, opt)
}

const fileName = "table.json"

// Save implements policy.Learner.
func (t *table) Save(_ context.Context, dir string) error {
	raw, err := json.Marshal(t)
	if err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, fileName), raw, 0o644))
}

// Restore reads what Save wrote.
func (t *table) Restore(_ context.Context, dir string) error {
	raw, err := regular.ReadFile(filepath.Join(dir, fileName))
	if err != nil {
		return fmt.Errorf("estimators: %w", err)
	}
	t.Cells = nil
	return json.Unmarshal(raw, t)
}
