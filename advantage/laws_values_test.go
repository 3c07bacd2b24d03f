package advantage

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWhitenedAdvantagesHaveMeanZeroAndVarianceOne over the estimator's mask.
func TestWhitenedAdvantagesHaveMeanZeroAndVarianceOne(t *testing.T) {
	eachName(t, func(t *testing.T, spec Spec, est Estimator, g *generator) {
		if !spec.Whitens {
			return
		}
		b := batchOf(g.episodes(3, 3, true))
		over := b.Loss
		switch est.(type) {
		case GAE:
			over = b.Attention
		case TurnWise:
			over = b.TurnEnd
		}
		m := momentsOf(run(t, est, b).Advantages, over)
		// The tolerance covers the epsilons of whitening and float32 storage.
		require.InDelta(t, 0, m.Mean, 1e-5)
		require.InDelta(t, 1, m.Variance(), 1e-4)
	})
}

// TestReturnsNeedNoValuesAtLambdaOne, whether an estimator discounts tokens or turns: the critic's values cancel.
func TestReturnsNeedNoValuesAtLambdaOne(t *testing.T) {
	eachName(t, func(t *testing.T, spec Spec, _ Estimator, g *generator) {
		if !spec.Critic {
			return
		}
		p := testParams()
		p.Lambda, p.TurnLambda, p.TokenLambda = 1, 1, 1
		est := named(t, spec.Name, p)
		rows := g.episodes(3, 3, true)
		if !spec.RowLocal {
			rows = g.split(rows, 1)
		}
		others := cloneRows(rows)
		for i := range others {
			for k := range others[i].tokens {
				others[i].tokens[k].value = g.number()
			}
		}
		got, want := run(t, est, batchOf(others)), run(t, est, batchOf(rows))
		sameByID(t, "returns", byID(others, got.Returns), byID(rows, want.Returns))
		require.NotEqual(t, want.Advantages, got.Advantages)
		p.Lambda, p.TurnLambda, p.TokenLambda = 0.9, 0.9, 0.9
		est = named(t, spec.Name, p)
		require.NotEqual(t, run(t, est, batchOf(rows)).Returns, run(t, est, batchOf(others)).Returns, "below λ = 1")
	})
}

// TestMixEnds: mix 0 is bit-identical to the plain recursion, and mix 1 with equal
// discounts equals it except for rounding.
func TestMixEnds(t *testing.T) {
	for seed := range uint64(lawRounds) {
		rows := newGenerator(seed).episodes(3, 3, true)
		b := batchOf(rows)
		plain := run(t, TrajectoryToken{Gamma: 1, Lambda: 0.6, Whiten: true}, b)
		none := run(t, TrajectoryBiLevel{TurnGamma: 0.7, TurnLambda: 0.85, TokenLambda: 0.6, Mix: 0, Whiten: true}, b)
		require.Equal(t, plain.Advantages, none.Advantages, "mix 0 is not the plain recursion")
		require.Equal(t, plain.Returns, none.Returns, "mix 0 is not the plain recursion")
		for _, mix := range []float64{0.4, 1} {
			one := run(t, TrajectoryBiLevel{TurnGamma: 1, TurnLambda: 0.6, TokenLambda: 0.6, Mix: mix, Whiten: true}, b)
			bothSame(t, one, plain, rows, rows)
		}
		two := run(t, TrajectoryBiLevel{TurnGamma: 0.7, TurnLambda: 0.85, TokenLambda: 0.6, Mix: 1, Whiten: true}, b)
		require.NotEqual(t, plain.Returns, two.Returns, "the turn clock has no effect")
	}
}

// TestRowsWithoutModelTokensStayZero: such a row gets zeros, and does not affect others.
func TestRowsWithoutModelTokensStayZero(t *testing.T) {
	eachName(t, func(t *testing.T, spec Spec, est Estimator, g *generator) {
		rows := g.episodes(3, 3, true)
		silent := append(cloneRows(rows), row{group: rows[0].group, traj: 999, tokens: g.observation(4)},
			row{group: rows[0].group, traj: 1000})
		b := batchOf(silent)
		got := run(t, est, b)
		lo, hi := b.Row(len(rows))
		if spec.Mask == MaskAttention || spec.Groups {
			return // these estimators count such rows as members of their group
		}
		bothSame(t, got, run(t, est, batchOf(rows)), silent, rows)
		raw := testParams()
		raw.Whiten = false
		require.Equal(t, make([]float32, hi-lo), run(t, named(t, spec.Name, raw), b).Advantages[lo:hi])
	})
}

// TestEmptyMasksAreDefined: whitening over an empty mask is ErrEmptyMask, and without
// whitening the results are zeros.
func TestEmptyMasksAreDefined(t *testing.T) {
	eachName(t, func(t *testing.T, spec Spec, est Estimator, g *generator) {
		rows := []row{
			{group: 1, traj: 1, tokens: g.observation(3)},
			{group: 1, traj: 2, tokens: g.observation(2)},
		}
		b := batchOf(rows)
		if spec.States {
			return // without turns there are no states either; see TestGiGPONeedsStates
		}
		if spec.Mask == MaskAttention {
			clear(b.Attention)
		}
		var out Result
		require.Equal(t, spec.Whitens, errors.Is(est.Estimate(&out, b), ErrEmptyMask))
		if spec.Mask == MaskAttention {
			return // the recursion runs on regardless of the mask
		}
		raw := testParams()
		raw.Whiten = false
		est = named(t, spec.Name, raw)
		require.NoError(t, est.Estimate(&out, b), "raw")
		require.Equal(t, make([]float32, 5), out.Advantages)
	})
}
