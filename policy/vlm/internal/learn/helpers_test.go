package learn_test

import (
	"context"
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/vlm/internal/learn"
	. "vagen/policy/vlm/internal/modeltest"
	"vagen/policy/vlm/internal/mpi"
	"vagen/policy/vlm/internal/nodes"
	. "vagen/policy/vlm/internal/vlmtest"
)

// lead opens a model as rank 0 of several, and the others, which follow. With a count of 1 it is Open.
func lead(t testing.TB, dir string, o Options, count int) (*Model, []*Rank) {
	t.Helper()
	if count == 1 {
		return Open(t, dir, o), nil
	}
	leader := o
	world, out := Ranks(t, count, func(ctx context.Context, w mpi.World) (map[string]string, error) {
		theirs := o
		inWorld(&theirs, w)
		m, err := TryOpen(ctx, dir, theirs)
		if err != nil {
			return nil, err
		}
		defer m.Close()
		if err := m.Sets.Follow(ctx); !errors.Is(err, nodes.ErrEnded) {
			return nil, m.Sets.Peers.Failed(err)
		}
		return Digests(m.Sets)
	})
	inWorld(&leader, world)
	return Open(t, dir, leader), out
}

// inWorld makes options those of one of several ranks.
func inWorld(o *Options, w mpi.World) {
	o.Nodes.Count = w.Size()
	Field(&o.Nodes, "world").Set(reflect.ValueOf(w))
}

// pick returns some rows in another order, with the positions of their tokens.
func pick(rows policy.Rows, index ...int) (out policy.Rows, place []int) {
	out.Offsets = []int{0}
	for _, i := range index {
		from, to := rows.Offsets[i], rows.Offsets[i+1]
		out.Tokens = append(out.Tokens, rows.Tokens[from:to]...)
		out.Offsets = append(out.Offsets, len(out.Tokens))
		out.Images = append(out.Images, rows.Images[i])
		for k := from; k < to; k++ {
			place = append(place, k)
		}
	}
	return out, place
}

// update takes a step.
func update(t testing.TB, m *Model, b *policy.Batch, o policy.Objective, opt policy.Optimizer) policy.Stats {
	t.Helper()
	s, err := m.Update(t.Context(), b, o, opt)
	require.NoError(t, err)
	return s
}

// scored scores rows at a temperature of 1.
func scored(t testing.TB, m *Model, rows *policy.Rows, want []bool, what policy.ScoreRequest) *policy.Scores {
	t.Helper()
	s, err := m.Score(t.Context(), rows, want, what, 1)
	require.NoError(t, err)
	return s
}

// changed lists the weights that differ.
func changed(before, after map[string][]float32) []string {
	var out []string
	for name, x := range before {
		if !slices.Equal(x, after[name]) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// still is an optimiser that changes no weight; its first moment is the gradient.
var still = policy.Optimizer{Epsilon: 1}

// gradientsOf returns the gradients of the policy, and of a separate critic; nil
// where there is none.
func gradientsOf(
	t testing.TB, p *Model, b *policy.Batch, o policy.Objective,
) (actor, critic map[string][]float32, stats policy.Stats) {
	t.Helper()
	stats, err := p.Update(t.Context(), b, o, still)
	require.NoError(t, err)
	require.False(t, stats.Skipped)
	if p.Sets.Actor.Adam != nil {
		actor = Read(t, p.Sets.Actor.Adam.M)
	}
	if s := p.Sets; s.Critic != nil && s.Critic.Adam != nil {
		critic = Read(t, s.Critic.Adam.M)
	}
	return actor, critic, stats
}

// playedBatch is a batch for every loss: random advantages, old log-probs and
// values near those of the model, and a reference further away.
func playedBatch(t testing.TB, p *Model) *policy.Batch {
	t.Helper()
	rows, want := p.FourRows(t)
	what := policy.ScoreRequest{LogProbs: true, Values: p.Sets.CriticOptions.Kind != learn.NoCritic}
	scores, err := p.Sets.Score(t.Context(), learn.ScoreCall{Rows: &rows, Want: want, What: what, Temperature: 1})
	require.NoError(t, err)
	r := rand.New(rand.NewPCG(9, 1))
	n := len(want)
	b := &policy.Batch{Rows: rows, Weight: Evenly(want),
		Advantages: make([]float32, n), OldLogProbs: make([]float32, n), Reference: make([]float32, n)}
	if what.Values {
		b.ValueWeight, b.OldValues, b.Returns = Evenly(want), make([]float32, n), make([]float32, n)
	}
	for i := range n {
		if !want[i] {
			continue
		}
		b.Weight[i] *= float32(r.IntN(3)) // some tokens count twice, some not at all
		b.Advantages[i] = float32(r.NormFloat64())
		b.OldLogProbs[i] = scores.LogProbs[i] + float32(0.4*r.NormFloat64())
		b.Reference[i] = scores.LogProbs[i] + float32(r.NormFloat64())
		if what.Values {
			b.ValueWeight[i] *= float32(r.IntN(2))
			b.OldValues[i] = scores.Values[i] + float32(0.5*r.NormFloat64())
			b.Returns[i] = scores.Values[i] + float32(r.NormFloat64())
		}
	}
	return b
}

// requireGradients compares tensor by tensor. Both sides run in float32 with
// sums over tokens in another order, which the layers pass on: GradLimit of a
// tensor's largest entry, as against recorded gradients.
func requireGradients(t testing.TB, want, got map[string][]float32) {
	t.Helper()
	require.Equal(t, slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got)))
	for name, x := range want {
		limit := GradLimit * Largest(x)
		require.Positive(t, limit, name)
		for i := range x {
			if off := math.Abs(float64(got[name][i]) - float64(x[i])); !(off <= limit) {
				t.Fatalf("%s[%d] is %v, must be %v (off by %g, allowed %g)", name, i, got[name][i], x[i], off, limit)
			}
		}
	}
}
