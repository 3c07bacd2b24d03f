package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"vagen/policy"
)

// scoring asks for log-probs of a prompt's tokens.
type scoring struct {
	want []bool // tokens of the prompt
	top  int    // likeliest tokens at each of them
}

// candidate is a token with its log-prob.
type candidate struct {
	id      int32
	logProb float64
}

// newScores returns room for the log-probs of tokens, and of so many likeliest ones in the place of each.
func newScores(tokens, top int) *policy.Scores {
	out := &policy.Scores{Reference: make([]float32, tokens)}
	if top > 0 {
		out.Chosen, out.Teacher = make([]int32, tokens*top), make([]float32, tokens*top)
	}
	return out
}

// scored reads the log-probs of a prompt. at returns those of the token i: of the token itself, and of the likeliest
// ones, in any order and possibly with the token itself in addition.
func (r *request) scored(at func(i int) (own *float64, likeliest []candidate, err error)) (*policy.Scores, error) {
	k := r.scoring.top
	out := newScores(len(r.prompt), k)
	for i, on := range r.scoring.want {
		if !on {
			continue
		}
		own, list, err := at(i)
		switch {
		case err != nil:
			return nil, err
		case own == nil || !logProb(*own):
			return nil, fmt.Errorf("the log-prob of token %d of the row is missing, or not finite and negative", i)
		case len(list) < k:
			return nil, fmt.Errorf("%d likeliest tokens instead of token %d, %d were requested", len(list), i, k)
		}
		out.Reference[i] = float32(*own)
		slices.SortFunc(list, func(a, b candidate) int {
			return cmp.Or(cmp.Compare(b.logProb, a.logProb), cmp.Compare(a.id, b.id))
		})
		for j, c := range list[:k] {
			if c.id < 0 || int(c.id) >= r.vocab || !logProb(c.logProb) {
				const text = "a likeliest token instead of token %d is %d with log-prob %v, must be in [0, %d) and finite"
				return nil, fmt.Errorf(text, i, c.id, c.logProb, r.vocab)
			}
			out.Chosen[i*k+j], out.Teacher[i*k+j] = c.id, float32(c.logProb)
		}
	}
	return out, nil
}

// logProb reports whether a number can be a log-prob, up to rounding.
func logProb(x float64) bool { return x <= 1e-3 && x >= -math.MaxFloat32 }

// Score returns what the model on the servers says about rows, as it was when the fleet was opened or last published
// to: log-probs of the tokens where want is set, as Scores.Reference, and with top above 0 the likeliest tokens in the
// place of each with their log-probs, as Scores.Chosen and Scores.Teacher, top for each token of the rows and the
// likeliest first. Other entries, and those of a row's first token, are 0. Servers score at temperature 1.
//
// Rows are sent concurrently, and again as responses are if a server fails. If a row fails on every attempt, the call
// does.
func (f *Fleet) Score(ctx context.Context, rows *policy.Rows, want []bool, top int) (*policy.Scores, error) {
	if f.ctx == nil {
		return nil, errFleet
	}
	if err := rows.Check(); err != nil {
		return nil, fmt.Errorf("engine: score: %w: %w", ErrOption, err)
	}
	n := len(rows.Tokens)
	if len(want) != n || top < 0 {
		return nil, fmt.Errorf("engine: score: %w: %d marks for %d tokens and %d likeliest tokens", ErrOption, len(want), n,
			top)
	}
	if err := f.enter(ctx); err != nil {
		return nil, err
	}
	defer f.change(func() { f.users-- })
	out := newScores(n, top)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	slots := make(chan struct{}, f.opts.InFlight*len(f.servers))
	for row := range rows.Len() {
		from, to := rows.Offsets[row], rows.Offsets[row+1]
		if from == to || !slices.Contains(want[from+1:to], true) {
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			got, err := f.scoreRow(ctx, rows, row, want[from:to], top)
			if err != nil {
				cancel(fmt.Errorf("engine: score: row %d: %w", row, err))
				return
			}
			copy(out.Reference[from:to], got.Reference)
			copy(out.Chosen[from*top:], got.Chosen)
			copy(out.Teacher[from*top:], got.Teacher)
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return out, nil
}

// scoreRow scores one row.
func (f *Fleet) scoreRow(
	ctx context.Context, rows *policy.Rows, row int, want []bool, top int,
) (*policy.Scores, error) {
	tokens := rows.Tokens[rows.Offsets[row]:rows.Offsets[row+1]]
	var images []policy.Image
	if rows.Images != nil {
		images = rows.Images[row]
	}
	pics, err := f.codec.picturesOf(images)
	if err != nil {
		return nil, err
	}
	r, err := f.request(tokens, pics)
	if err != nil {
		return nil, err
	}
	want = slices.Clone(want)
	want[0] = false // follows nothing
	r.max, r.Sampling, r.scoring = 1, policy.Sampling{Temperature: 1}, &scoring{want, top}
	a, _, err := f.send(ctx, r, nil, uint64(row))
	switch {
	case err != nil:
		return nil, err
	case a.scored == nil:
		return nil, errors.New("the answer has no log-probs of the prompt")
	}
	return a.scored, nil
}
