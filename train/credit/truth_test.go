package credit_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/advantage"
	"vagen/train/credit"
)

// twoTurns is a world of two turns, whose first action changes by chance what follows.
func twoTurns() *world {
	return &world{
		states: []state{
			{pay: [2]float64{0.2, -0.1}, next: [2][]branch{{{0.7, 1}, {0.3, 2}}, {{0.3, 1}, {0.7, 2}}}},
			{pay: [2]float64{1, 0}},
			{pay: [2]float64{-0.5, 0.5}},
		},
		pick: []float64{0.4, 0.5, 0.3},
	}
}

// TestIntervalsCoverTheTruth repeats a measurement 200 times: the interval covers the
// exact advantage in about 95 % of them, and both means are unbiased. Student's interval
// of few returns of a coin covers less often: hence the 64 branches.
func TestIntervalsCoverTheTruth(t *testing.T) {
	const gamma, repetitions, branches = 0.9, 200, 64
	s := newSetup(t, twoTurns(), 2, true)
	q, v := s.world.values(gamma)
	e := s.step.Episodes[0]
	at, did := places(t, e)
	var sum, squares [2][2]float64
	var covered [2]int
	for seed := range uint64(repetitions) {
		m := s.measurement(t, func(m *credit.Measurement) {
			m.Episodes, m.Branches, m.Gamma, m.Seed, m.Alternatives = 1, branches, gamma, seed, 0
			m.Step = &credit.Step{Config: s.step.Config, Episodes: s.step.Episodes[:1]}
			m.Estimators = []string{}
		})
		measured(t, m)
		got := results(t, m)[0]
		require.Len(t, got.Turns, 2)
		for k, turn := range got.Turns {
			require.Equal(t, branches, turn.N)
			exact := q[at[k]][did[k]] - v[at[k]]
			if float64(turn.Low) <= exact && exact <= float64(turn.High) {
				covered[k]++
			}
			for side, d := range []float64{float64(turn.Q) - q[at[k]][did[k]], float64(turn.V) - v[at[k]]} {
				sum[k][side], squares[k][side] = sum[k][side]+d, squares[k][side]+d*d
			}
		}
	}
	t.Logf("of %d intervals of the first and of the second turn, %v cover", repetitions, covered)
	for k := range covered {
		require.InDelta(t, 0.95*repetitions, covered[k], 0.04*repetitions, "turn %d", k)
		for side := range sum[k] {
			bias, spread := sum[k][side]/repetitions, math.Sqrt(squares[k][side]/repetitions)
			require.LessOrEqual(t, math.Abs(bias), 4*spread/math.Sqrt(repetitions)+1e-9, "turn %d, side %d", k, side)
		}
	}
	require.Positive(t, squares[0][0], "what follows the first turn is chance")
}

// chain is a world of three turns of which the middle one decides; the others pay a
// little.
func chain() *world {
	pay := func(a, b float64) [2]float64 { return [2]float64{a, b} }
	to := func(s int) [2][]branch { return [2][]branch{{{1, s}}, {{1, s}}} }
	return &world{
		states: []state{{pay(0.1, -0.1), to(1)}, {pay(1, -1), to(2)}, {pay: pay(0.1, -0.1)}},
		pick:   []float64{0.5, 0.4, 0.5},
	}
}

// TestEstimatorsAreRankedByTheTruth: a turn is worth what it pays itself, so the less an
// estimator credits a turn with later rewards, the better; one that credits the wrong turn
// is the worst.
func TestEstimatorsAreRankedByTheTruth(t *testing.T) {
	s := newSetup(t, chain(), 40, true)
	biLevel := func(name string, gamma float64, wrap func(advantage.Estimator) advantage.Estimator) advantage.Spec {
		spec, err := advantage.Describe("bi_level_gae")
		require.NoError(t, err)
		spec.Name = name
		spec.New = func(p advantage.Params) advantage.Estimator {
			return wrap(advantage.BiLevel{Gamma: 1, Lambda: 1, TurnGamma: gamma, Whiten: p.Whiten})
		}
		return spec
	}
	same := func(e advantage.Estimator) advantage.Estimator { return e }
	s.step.Names = registry(t, biLevel("near", 0.01, same), biLevel("middle", 0.5, same), biLevel("far", 1, same),
		biLevel("wrong", 0.01, func(e advantage.Estimator) advantage.Estimator { return shifted{e} }))
	m := s.measurement(t, func(m *credit.Measurement) { m.Estimators = []string{"wrong", "far", "middle", "near"} })
	table := measured(t, m)
	require.Equal(t, []string{"wrong", "far", "middle", "near", credit.ReturnMinusMean, credit.Zero, credit.Random},
		names(table))
	near, middle, far, wrong := line(t, table, "near"), line(t, table, "middle"), line(t, table, "far"),
		line(t, table, "wrong")
	require.Greater(t, near.All.Pearson.Value, middle.All.Pearson.Value)
	require.Greater(t, middle.All.Pearson.Value, far.All.Pearson.Value)
	require.Greater(t, far.All.Pearson.Value, wrong.All.Pearson.Value)
	require.Less(t, near.All.MSE.Value, middle.All.MSE.Value)
	require.Less(t, middle.All.MSE.Value, far.All.MSE.Value)
	require.Less(t, far.All.MSE.Value, wrong.All.MSE.Value)
	require.Greater(t, float64(near.All.Pearson.Value), 0.95)
	require.Greater(t, float64(near.Above.Low), 0.0)
	require.Less(t, float64(wrong.Above.High), 0.0)

	// All claims of zero agree with nothing, and have the error of guessing nothing.
	zero := line(t, table, credit.Zero)
	require.True(t, math.IsNaN(float64(zero.All.Pearson.Value)))
	require.Zero(t, zero.All.Sign.Value)
	require.Greater(t, zero.All.MSE.Value, near.All.MSE.Value)
	require.Equal(t, table.Decided, zero.All.N)
	require.Equal(t, table.Decided, zero.First.N+zero.Middle.N+zero.Last.N)
	require.Equal(t, table.Decided, zero.Success.N+zero.Failure.N)

	// What does not beat the return is said so, in a sentence for each.
	require.Len(t, table.Remarks, 2)
	require.Contains(t, table.Remarks[0],
		"wrong does not beat the return minus its mean: the difference of Pearson's correlations is -")
	require.Contains(t, table.Remarks[1], "far does not beat")
}

// TestTheMistakeIsTheTurnThatDecides: the wrong action of the middle turn costs 2, those of
// the others 0.2.
func TestTheMistakeIsTheTurnThatDecides(t *testing.T) {
	s := newSetup(t, chain(), 20, true)
	m := s.measurement(t, func(*credit.Measurement) {})
	measured(t, m)
	mistakes := map[int]int{}
	for i, r := range results(t, m) {
		_, did := places(t, s.step.Episodes[i])
		want := -1
		for _, k := range []int{0, 2, 1} {
			if did[k] == 1 {
				want = k
			}
		}
		if want == 2 && did[0] == 1 {
			want = 0 // of equals the first
		}
		got := -1
		if r.Mistake != nil {
			got = *r.Mistake
		}
		require.Equal(t, want, got, "actions %v", did)
		mistakes[got]++
		for k, turn := range r.Turns {
			require.Len(t, turn.Alternatives, 1, "there are two actions")
			alt := turn.Alternatives[0]
			pay := s.world.states[k].pay
			require.InDelta(t, pay[1-did[k]]-pay[did[k]], float64(alt.Q)-float64(turn.Q), 1e-9, "the pairs share what follows")
			require.InDelta(t, max(0, pay[1-did[k]]-pay[did[k]]), float64(turn.Regret), 1e-9)
			require.InDelta(t, 0.5, float64(alt.Share), 0.45)
			require.NotEqual(t, turn.Actions, alt.Actions)
		}
	}
	require.Greater(t, mistakes[1], 5)
	require.Positive(t, mistakes[-1]+mistakes[0]+mistakes[2])
}
