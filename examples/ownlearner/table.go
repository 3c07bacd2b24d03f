package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"vagen/policy"
)

// The tokens of a row: one for every message, which is the state of the game that it
// describes, and two for every response, a word and the end of the turn.
const (
	hit, stand int32 = 0, 1
	endOfTurn  int32 = 2
	noState    int32 = 3 // a message that describes no state, such as the instructions
	firstState int32 = 4
)

var words = [...]string{hit: "<answer>Hit</answer>", stand: "<answer>Stand</answer>"}

// cell is the table's entry for one state.
type cell struct {
	Logits [2]float64 // of the words
	Value  float64
}

// table is the learner: a policy and a critic without a network.
type table struct {
	Cells    map[int32]*cell
	gradient map[int32]*cell // since the last step
}

var _ policy.Learner = (*table)(nil)

// described finds the sum of the player's cards, a usable ace and the dealer's card.
var described = regexp.MustCompile(`It counts (\d+) with (no|a) usable ace\.\nThe dealer shows: (\w+)`)

// read is the tokenizer.
func read(m policy.Message) int32 {
	found := described.FindStringSubmatch(m.Text)
	if found == nil {
		return noState
	}
	sum, _ := strconv.Atoi(found[1])
	card, err := strconv.Atoi(found[3])
	switch {
	case found[3] == "A":
		card = 1
	case err != nil: // J, Q, K
		card = 10
	}
	state := int32(sum*11+card) * 2
	if found[2] == "a" {
		state++
	}
	return firstState + state
}

func (t *table) at(state int32) *cell {
	if t.Cells[state] == nil {
		t.Cells[state] = &cell{}
	}
	return t.Cells[state]
}

// logProbs is the log-softmax of a state's logits at a temperature; 0 is greedy.
func (c *cell) logProbs(temperature float64) [2]float64 {
	d := (c.Logits[1] - c.Logits[0]) / max(temperature, 1e-6)
	return [2]float64{-softplus(d), -softplus(-d)}
}

// softplus is log(1 + exp(x)).
func softplus(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }

// Generate implements policy.Policy.
func (t *table) Generate(ctx context.Context, prompts []policy.Prompt, s policy.Sampling) ([]policy.Completion, error) {
	out := make([]policy.Completion, len(prompts))
	for i, p := range prompts {
		c := &out[i]
		for _, m := range p.Messages {
			c.Context = append(c.Context, read(m))
		}
		lp := t.at(c.Context[len(c.Context)-1]).logProbs(s.Temperature)
		word := hit
		if rand.New(rand.NewPCG(p.Seed, 0)).Float64() >= math.Exp(lp[hit]) {
			word = stand
		}
		c.Tokens, c.LogProbs = []int32{word, endOfTurn}, []float32{float32(lp[word]), 0}
		c.Text, c.Stop = words[word], policy.StopEnd
	}
	return out, ctx.Err()
}

// Forget implements policy.Policy: nothing is kept between calls.
func (t *table) Forget(...uint64) {}

// choices calls f for every word in rows, with the state that it was chosen in.
func choices(rows *policy.Rows, f func(i int, state, word int32)) {
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
	ctx context.Context, rows *policy.Rows, want []bool, what policy.ScoreRequest, temperature float64,
) (*policy.Scores, error) {
	if what.Reference {
		return nil, errors.New("ownlearner: there is no reference policy: switch KL off")
	}
	return t.scores(rows, temperature), ctx.Err()
}

// scores are those of every word in rows.
func (t *table) scores(rows *policy.Rows, temperature float64) *policy.Scores {
	n := len(rows.Tokens)
	out := &policy.Scores{LogProbs: make([]float32, n), Values: make([]float32, n), Entropy: make([]float32, n)}
	choices(rows, func(i int, state, word int32) {
		c := t.at(state)
		lp := c.logProbs(temperature)
		out.LogProbs[i], out.Values[i] = float32(lp[word]), float32(c.Value)
		for _, x := range lp {
			out.Entropy[i] -= float32(math.Exp(x) * x)
		}
	})
	return out
}

// Accumulate implements policy.Learner: package policy evaluates the objective in plain Go, with its derivatives
// by what Score returns.
func (t *table) Accumulate(ctx context.Context, b *policy.Batch, o policy.Objective) (policy.Stats, error) {
	stats := policy.Stats{Tokens: len(b.Tokens)}
	if o.EntropyCoef != 0 {
		return stats, errors.New("ownlearner: the table has no entropy bonus")
	}
	now := t.scores(&b.Rows, o.Temperature)
	e, err := o.Eval(b, now)
	if err != nil {
		return stats, err
	}
	e.Report(&stats)
	if t.gradient == nil {
		t.gradient = map[int32]*cell{}
	}
	choices(&b.Rows, func(i int, state, word int32) {
		g := t.gradient[state]
		if g == nil {
			g = &cell{}
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
func (t *table) Step(ctx context.Context, opt policy.Optimizer) (policy.Stats, error) {
	for state, g := range t.gradient {
		c := t.at(state)
		c.Logits[0] -= opt.Rate * g.Logits[0]
		c.Logits[1] -= opt.Rate * g.Logits[1]
		c.Value -= opt.CriticRate * g.Value
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

// Restore reads what Save wrote: with it a run can be resumed.
func (t *table) Restore(_ context.Context, dir string) error {
	raw, err := os.ReadFile(filepath.Join(dir, fileName))
	if err == nil {
		t.Cells = nil
		err = json.Unmarshal(raw, t)
	}
	if err != nil {
		return fmt.Errorf("ownlearner: %w", err)
	}
	return nil
}
