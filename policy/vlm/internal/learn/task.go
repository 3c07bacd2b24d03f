package learn

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"vagen/policy"
	"vagen/policy/loss"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/net"
	"vagen/policy/vlm/internal/nodes"
)

// A step needs the derivatives of the objective by the log-prob, entropy and value of each token: slopes.
// The objective is evaluated in plain Go; by the chain rule the backward pass with the slopes gives the gradient.
//
// If the objective is local, the slopes of a chunk of tokens are evaluated between the forward and the backward
// pass of the head, from the chunk's own scores. Other objectives combine tokens of a row, a turn or the whole
// batch, so all packs are scored first.

// task is what a call of Accumulate computes for one set of weights.
type task struct {
	batch       *policy.Batch
	objective   *policy.Objective
	head        *model.Head
	chunk       int // most tokens whose logits are in memory
	temperature float64
	local       bool
	scores      *net.Scored // of the tokens so far

	slopes []float32          // [tokens, columns]; nil for a local objective
	Eval   *policy.Evaluation // of all tokens; nil if it is not finite, or known to another node only
}

// NewTask returns the task of evaluating an objective on a batch, with a head that has the scores it needs.
func (l *Learner) NewTask(b *policy.Batch, o *policy.Objective, h *model.Head, chunk int) *task {
	return &task{batch: withoutFirst(b), objective: o, head: h, chunk: chunk, temperature: o.Temperature,
		local: !h.Tokens || o.Local() && l.everyNodeKnows(o), scores: net.NewScored(h, len(b.Tokens))}
}

// columns is the number of slopes of a token.
func (k *task) columns() int { return model.SlopeColumns + k.head.Chosen }

// everyNodeKnows reports whether every node can evaluate the objective.
func (l *Learner) everyNodeKnows(o *policy.Objective) bool {
	return l.Peers == nil || o.Imitate || sendable(o.Policy)
}

// Wanted are the tokens whose scores the objective reads.
func (k *task) Wanted() []bool {
	n := len(k.batch.Tokens)
	switch {
	case !k.head.Tokens:
		return NonZero(n, k.batch.ValueWeight)
	case k.head.Value:
		return NonZero(n, k.batch.Weight, k.batch.EchoWeight, k.batch.ValueWeight)
	}
	return NonZero(n, k.batch.Weight, k.batch.EchoWeight)
}

// withoutFirst returns the batch without the weights of the rows' first tokens, which have neither log-prob nor value.
func withoutFirst(b *policy.Batch) *policy.Batch {
	out := *b
	for _, w := range []*[]float32{&out.Weight, &out.EchoWeight, &out.ValueWeight} {
		if *w == nil {
			continue
		}
		*w = slices.Clone(*w)
		for row := range b.Len() {
			if at := b.Offsets[row]; at < b.Offsets[row+1] {
				(*w)[at] = 0
			}
		}
	}
	return &out
}

// policyScores are scores as an Objective reads them.
func policyScores(s *net.Scored) *policy.Scores {
	return &policy.Scores{LogProbs: s.LogProb, Entropy: s.Entropy, Values: s.Value, ChosenLogProbs: s.Chosen}
}

// at returns the numbers x at some indices, of which each has several; nil for none.
func at[T any](x []T, indices []int, each int) []T {
	if x == nil {
		return nil
	}
	out := make([]T, 0, each*len(indices))
	for _, i := range indices {
		out = append(out, x[i*each:][:each]...)
	}
	return out
}

// partOf returns some tokens of a batch as one row.
func partOf(b *policy.Batch, tokens []int) *policy.Batch {
	f := func(x []float32) []float32 { return at(x, tokens, 1) }
	return &policy.Batch{
		Rows:   policy.Rows{Offsets: []int{0, len(tokens)}, Tokens: at(b.Tokens, tokens, 1)},
		Weight: f(b.Weight), ValueWeight: f(b.ValueWeight), AuxWeight: f(b.AuxWeight), EchoWeight: f(b.EchoWeight),
		OldLogProbs: f(b.OldLogProbs), Reference: f(b.Reference),
		Advantages: f(b.Advantages), Returns: f(b.Returns), OldValues: f(b.OldValues), RolloutWeight: f(b.RolloutWeight),
		Sampled: f(b.Sampled),
		Turn:    at(b.Turn, tokens, 1), Seed: b.Seed, Teacher: at(b.Teacher, tokens, len(b.Teacher)/max(1, len(b.Tokens))),
	}
}

// slopesOf returns the slopes at some tokens, followed by zeros for n tokens in all.
func (k *task) slopesOf(tokens []int, n int) ([]float32, error) {
	columns := k.columns()
	out := make([]float32, n*columns)
	if !k.local {
		for i, at := range tokens {
			copy(out[i*columns:], k.slopes[at*columns:][:columns])
		}
		return out, nil
	}
	s := &net.Scored{LogProb: at(k.scores.LogProb, tokens, 1), Entropy: at(k.scores.Entropy, tokens, 1),
		Value:  at(k.scores.Value, tokens, 1),
		Chosen: at(k.scores.Chosen, tokens, k.head.Chosen)}
	_, err := k.evaluateInto(out, partOf(k.batch, tokens), s)
	return out, err
}

// evaluateInto writes the slopes of a batch to out. Scores that are not finite give slopes that are not finite either,
// and no evaluation, so that the step is skipped.
func (k *task) evaluateInto(out []float32, b *policy.Batch, s *net.Scored) (*policy.Evaluation, error) {
	e, err := k.objective.Eval(b, policyScores(s))
	if errors.Is(err, loss.ErrNotFinite) {
		for i := range out {
			out[i] = float32(math.NaN())
		}
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("vlm: update: %w", err)
	}
	for column, x := range map[int][]float64{model.SlopeLogProb: e.Slopes.LogProbs, model.SlopeEntropy: e.Slopes.Entropy,
		model.SlopeValue: e.Slopes.Values} {
		for i, v := range x {
			out[i*k.columns()+column] = float32(v)
		}
	}
	for i, v := range e.Slopes.Chosen {
		out[i/k.head.Chosen*k.columns()+model.SlopeColumns+i%k.head.Chosen] = float32(v)
	}
	return e, nil
}

// evaluate evaluates the objective for the scores of all tokens.
func (k *task) evaluate() (err error) {
	k.slopes = make([]float32, len(k.batch.Tokens)*k.columns())
	k.Eval, err = k.evaluateInto(k.slopes, k.batch, k.scores)
	return err
}

// evaluate evaluates a task's objective: each rank for itself, except one that cannot be sent, which rank 0 does.
func (l *Learner) evaluate(ctx context.Context, k *task) error {
	if !k.head.Tokens || l.everyNodeKnows(k.objective) {
		return k.evaluate()
	}
	id := l.Peers.ID()
	var own []byte
	if id == 0 {
		if err := k.evaluate(); err != nil {
			return err
		}
		own, _ = binary.Append(nil, binary.LittleEndian, k.slopes)
	}
	all, err := l.Peers.Gather(ctx, own, maxGathered)
	if err != nil {
		return fmt.Errorf("vlm: slopes of rank 0: %w", err)
	}
	if id == 0 {
		return nil
	}
	k.slopes = make([]float32, len(k.batch.Tokens)*k.columns())
	if n, err := binary.Decode(all[0], binary.LittleEndian, k.slopes); err != nil || n != len(all[0]) {
		return fmt.Errorf("vlm: slopes of rank 0: %d bytes for %d numbers: %w", len(all[0]), len(k.slopes), nodes.ErrProtocol)
	}
	return nil
}

// NonZero returns the tokens at which any of the weights is not 0.
func NonZero(n int, weights ...[]float32) []bool {
	want := make([]bool, n)
	for _, w := range weights {
		for i, x := range w {
			want[i] = want[i] || x != 0
		}
	}
	return want
}
