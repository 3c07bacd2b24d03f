// Embed shows how to use parts of this library in your own trainer.
//
// The model here is not a network but a table: for every description of the
// state it holds the logits of four moves and a value. It plays FrozenLake
// (package env/frozenlake), records its tokens (mask), estimates advantages
// (advantage) and follows the gradient of PPO's loss (policy/loss). Everything
// else, the sampling, the table and the loop, belongs to the program. It needs
// neither a C compiler nor an accelerator.
package main

import (
	"context"
	"fmt"
	"log"
	"math"
	"math/rand/v2"

	"vagen/advantage"
	"vagen/env"
	"vagen/env/frozenlake"
	"vagen/mask"
	"vagen/policy/loss"
)

// cell is the table's entry for one state.
type cell struct {
	logits [frozenlake.Actions]float64
	value  float64
}

type table map[string]*cell

func (t table) at(state string) *cell {
	c, ok := t[state]
	if !ok {
		c = &cell{}
		t[state] = c
	}
	return c
}

// logProbs is the log-softmax of the logits.
func (c *cell) logProbs() (lp [frozenlake.Actions]float64) {
	top := math.Inf(-1)
	for _, z := range c.logits {
		top = max(top, z)
	}
	var sum float64
	for _, z := range c.logits {
		sum += math.Exp(z - top)
	}
	for i, z := range c.logits {
		lp[i] = z - top - math.Log(sum)
	}
	return lp
}

func (c *cell) sample(r *rand.Rand) int {
	u := r.Float64()
	for a, lp := range c.logProbs() {
		if u -= math.Exp(lp); u < 0 {
			return a
		}
	}
	return int(frozenlake.Actions) - 1
}

// batch is one step's episodes. Every row alternates a context token, which
// stands for what was seen, and a response token, the move.
type batch struct {
	advantage.Batch
	states  []string // per token: the state that a move was chosen in
	moves   []int
	old     []float32
	success int
}

// play adds one episode.
func (b *batch) play(ctx context.Context, t table, e *frozenlake.Env, seed int64, turns int, r *rand.Rand) error {
	if _, err := e.Reset(ctx, seed); err != nil {
		return err
	}
	var row mask.Sequence
	var rewards []float64
	var values []float32
	for range turns {
		state := e.Describe()
		c := t.at(state)
		move := c.sample(r)
		if err := row.AppendContext(mask.Observation, -1); err != nil {
			return err
		}
		if err := row.AppendResponse(int32(move)); err != nil {
			return err
		}
		b.states = append(b.states, "", state)
		b.moves = append(b.moves, 0, move)
		b.old = append(b.old, 0, float32(c.logProbs()[move]))
		values = append(values, 0, float32(c.value))
		o, err := e.Step(ctx, fmt.Sprintf("<answer>%v</answer>", frozenlake.Action(move)))
		if err != nil {
			return err
		}
		rewards = append(rewards, o.Reward.Sum())
		if o.Done {
			if o.Success {
				b.success++
			}
			break
		}
	}
	placed, err := row.PlaceTurnRewards(nil, rewards, 0)
	if err != nil {
		return err
	}
	return b.Append(&row, mask.Options{}, advantage.Row{Rewards: placed, Values: values})
}

// learn does gradient steps on PPO's loss and the value loss.
func (b *batch) learn(t table, adv *advantage.Result, epochs int, rate float64) error {
	var out loss.Result
	now := make([]float32, len(b.old))
	for range epochs {
		for i, s := range b.states {
			if s != "" {
				now[i] = float32(t.at(s).logProbs()[b.moves[i]])
			}
		}
		// Sums instead of means: every state's row of the table sees few tokens.
		err := loss.Eval(&out, loss.LitePPO(), loss.Aggregation{Mode: loss.SeqMeanTokenSum}, &loss.Batch[float32]{
			Offsets: b.Offsets, Mask: b.Loss, LogProb: now, OldLogProb: b.old, Advantage: adv.Advantages,
		})
		if err != nil {
			return err
		}
		for i, s := range b.states {
			if s == "" {
				continue
			}
			c := t.at(s)
			for a, lp := range c.logProbs() {
				own := 0.0
				if a == b.moves[i] {
					own = 1
				}
				c.logits[a] -= rate * out.Grad[i] * (own - math.Exp(lp))
			}
			c.value += 0.05 * (float64(adv.Returns[i]) - c.value)
		}
	}
	return nil
}

func run(ctx context.Context, steps int, print func(step int, success float64)) error {
	o := frozenlake.DefaultOptions(env.Lite)
	o.PromptFormat, o.DescribeHoles, o.HolePenalty = "answer", true, 0.5
	e, err := frozenlake.New(o)
	if err != nil {
		return err
	}
	defer e.Close()
	t := table{}
	r := rand.New(rand.NewPCG(1, 2))
	est := advantage.BiLevel{Gamma: 1, Lambda: 0.95, TurnGamma: 0.95, Whiten: true}
	var adv advantage.Result
	const episodes, turns = 256, 8
	for step := range steps {
		var b batch
		for i := range episodes {
			if err := b.play(ctx, t, e, int64(step*episodes+i), turns, r); err != nil {
				return err
			}
		}
		if err := est.Estimate(&adv, &b.Batch); err != nil {
			return err
		}
		if err := b.learn(t, &adv, 4, 60); err != nil {
			return err
		}
		print(step, float64(b.success)/episodes)
	}
	return nil
}

func main() {
	err := run(context.Background(), 60, func(step int, success float64) {
		if step%6 == 0 || step == 59 {
			fmt.Printf("step %2d  success %.2f\n", step, success)
		}
	})
	if err != nil {
		log.Fatal(err)
	}
}
