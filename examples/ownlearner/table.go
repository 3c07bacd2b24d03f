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
	Cells map[int32]*cell
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
func (t *table) Score(ctx context.Context, rows *policy.Rows, want []bool, what policy.ScoreRequest, temperature float64) (*policy.Scores, error) {
	if what.Reference {
		return nil, errors.New("ownlearner: there is no reference policy: switch KL off")
	}
	n := len(rows.Tokens)
	out := &policy.Scores{LogProbs: make([]float32, n), Values: make([]float32, n), Entropy: make([]float32, n)}
	choices(rows, func(i int, state, word int32) {
		if want[i] {
			c := t.at(state)
			out.LogProbs[i], out.Values[i] = float32(c.logProbs(temperature)[word]), float32(c.Value)
		}
	})
	return out, ctx.Err()
}

// Update implements policy.Learner: a step along the gradient of the policy loss, which
// package policy evaluates in plain Go, and of the value loss.
func (t *table) Update(ctx context.Context, b *policy.Batch, o policy.Objective, opt policy.Optimizer) (policy.Stats, error) {
	if o.EntropyCoef != 0 || o.Imitate {
		return policy.Stats{}, errors.New("ownlearner: the table has no entropy bonus and does not imitate")
	}
	stats := policy.Stats{Tokens: len(b.Tokens), HasEntropy: true}
	now := make([]float32, len(b.Tokens))
	choices(&b.Rows, func(i int, state, word int32) { now[i] = float32(t.at(state).logProbs(o.Temperature)[word]) })
	e, err := o.Eval(b, now)
	if err != nil {
		return stats, err
	}
	e.Report(&stats, b)
	logits, values := map[int32]*[2]float64{}, map[int32]float64{}
	choices(&b.Rows, func(i int, state, word int32) {
		lp := t.at(state).logProbs(o.Temperature)
		if logits[state] == nil {
			logits[state] = &[2]float64{}
		}
		for w := range lp {
			logits[state][w] -= e.Slope[i] * math.Exp(lp[w])
			stats.Entropy -= float64(b.Weight[i]) * math.Exp(lp[w]) * lp[w]
		}
		logits[state][word] += e.Slope[i]
		if o.ValueCoef > 0 {
			miss := t.at(state).Value - float64(b.Returns[i])
			values[state] += float64(b.ValueWeight[i]) * miss
			stats.ValueLoss += float64(b.ValueWeight[i]) * miss * miss / 2
		}
	})
	for state, g := range logits {
		c := t.at(state)
		if !o.CriticOnly {
			c.Logits[0] -= opt.Rate * g[0]
			c.Logits[1] -= opt.Rate * g[1]
		}
		c.Value -= opt.CriticRate * o.ValueCoef * values[state]
	}
	return stats, ctx.Err()
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
