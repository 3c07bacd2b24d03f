package credit

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"vagen/advantage"
	"vagen/internal/rng"
	"vagen/rollout"
)

// Names of the baselines in a Table.
const (
	ReturnMinusMean = "return minus mean" // discounted return from the turn on, minus its mean over all turns of the step
	Zero            = "zero"
	Random          = "random" // standard normal numbers
)

// Keys of the draws of a measurement, beside those of its continuations.
const (
	bootstrapDraws = iota + 1
	randomDraws
	episodeDraws
	playDraws
)

// Table compares the claims of estimators with measured advantages, over the turns whose
// measurement is decided.
type Table struct {
	Checkpoint int     `json:"checkpoint"` // step of the checkpoint that was measured
	Step       int     `json:"step"`       // training step whose episodes were measured
	Gamma      float64 `json:"gamma"`
	Branches   int     `json:"branches"`
	Episodes   int     `json:"episodes"`
	Turns      int     `json:"turns"`     // measured
	Decided    int     `json:"decided"`   // whose interval does not include 0
	Undecided  Number  `json:"undecided"` // share of turns
	LeftOut    int     `json:"left_out"`  // turns that could not be measured
	Mistakes   int     `json:"mistakes"`  // episodes with a significant regret
	// Estimators are in the order of names; the baselines come last.
	Estimators []Line `json:"estimators"`
	// Unavailable are the estimators that cannot be computed from what was recorded.
	Unavailable []Unavailable `json:"unavailable"`
	// Remarks are sentences on the result.
	Remarks []string `json:"remarks"`
}

// Line is an estimator of a Table.
type Line struct {
	Name     string    `json:"name"`
	Baseline bool      `json:"baseline"`
	All      Agreement `json:"all"`
	// First, Middle and Last are the turns by their position in the episode. The only
	// turn of an episode is its last.
	First   Agreement `json:"first"`
	Middle  Agreement `json:"middle"`
	Last    Agreement `json:"last"`
	Success Agreement `json:"success"` // turns of episodes that succeed
	Failure Agreement `json:"failure"`
	// Above is Pearson's correlation minus that of ReturnMinusMean on the same turns.
	Above Figure `json:"above"`
}

// Unavailable is an estimator that cannot be computed from what was recorded.
type Unavailable struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

// claimed are the claims of one estimator by turn.
type claimed struct {
	name     string
	baseline bool
	of       map[turnKey]float64
}

type turnKey struct{ group, index, turn int }

// claimsOf computes the claims of estimators; nil names are all that are registered.
func (s *Step) claimsOf(names []string, p advantage.Params) ([]claimed, []Unavailable, error) {
	all := names
	if all == nil {
		all = s.Names.WithBuiltins().Estimators.Names()
	}
	var out []claimed
	var missing []Unavailable
	for _, name := range all {
		e, err := s.Estimate(name, p)
		switch {
		case err == nil:
		case errors.Is(err, ErrUnavailable), names == nil && errors.Is(err, advantage.ErrParameter), estimatorError(err):
			why := strings.TrimPrefix(err.Error(), "credit: ")
			why = strings.TrimPrefix(strings.TrimPrefix(why, name+": "), ErrUnavailable.Error()+": ")
			missing = append(missing, Unavailable{name, why})
			continue
		default:
			return nil, nil, err
		}
		c := claimed{name: name, of: map[turnKey]float64{}}
		for _, t := range e.Turns {
			c.of[turnKey{t.Group, t.Index, t.Turn}] = t.Claim
		}
		out = append(out, c)
	}
	return out, missing, nil
}

// estimatorError reports whether an estimator refuses the data of a batch.
func estimatorError(err error) bool {
	for _, e := range []error{
		advantage.ErrEmptyMask, advantage.ErrNoCritic, advantage.ErrNoMask, advantage.ErrNoTurnEnd, advantage.ErrNoGroup,
		advantage.ErrConflict, advantage.ErrNotFinite,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// baselines are claims that no estimator should do worse than.
func (s *Step) baselines(gamma float64, seed uint64) []claimed {
	ret, zero, random := map[turnKey]float64{}, map[turnKey]float64{}, map[turnKey]float64{}
	sum := 0.0
	for _, t := range s.Episodes {
		if !t.End.Usable() {
			continue
		}
		for k := range t.Turns {
			key := turnKey{t.Group, t.Index, k}
			ret[key], zero[key] = returnFrom(t, k, gamma), 0
			random[key] = rng.New(seed, rng.Credit, randomDraws, uint64(t.Group), uint64(t.Index), uint64(k)).NormFloat64()
			sum += ret[key]
		}
	}
	for key := range ret {
		ret[key] -= sum / float64(len(zero))
	}
	return []claimed{{ReturnMinusMean, true, ret}, {Zero, true, zero}, {Random, true, random}}
}

// returnFrom is the discounted return of an episode from a turn on: Σ γ^(j−k)·r_j.
func returnFrom(t *rollout.Trajectory, from int, gamma float64) float64 {
	sum := 0.0
	for k := len(t.Turns) - 1; k >= from; k-- {
		sum = t.Turns[k].Reward.Sum() + gamma*sum
	}
	return sum
}

// newTable compares claims with measurements.
func newTable(measured []*Measured, claims []claimed, missing []Unavailable, seed uint64) *Table {
	t := &Table{Episodes: len(measured), Unavailable: missing, Undecided: Number(math.NaN())}
	for _, m := range measured {
		t.Turns, t.LeftOut = t.Turns+len(m.Turns), t.LeftOut+len(m.LeftOut)
		for i := range m.Turns {
			if m.Turns[i].Decided {
				t.Decided++
			}
		}
		if m.Mistake != nil {
			t.Mistakes++
		}
	}
	if t.Turns > 0 {
		t.Undecided = Number(float64(t.Turns-t.Decided) / float64(t.Turns))
	}
	draws := bootstrap(seed, len(measured))
	var mean *claimed
	for i := range claims {
		if claims[i].name == ReturnMinusMean {
			mean = &claims[i]
		}
	}
	for i := range claims {
		c := &claims[i]
		over := func(keep func(m *Measured, turn int) bool) Agreement {
			return agreement(c.pairs(measured, nil, keep), draws)
		}
		l := Line{
			Name: c.name, Baseline: c.baseline, Above: unknown,
			All:     over(func(*Measured, int) bool { return true }),
			First:   over(func(m *Measured, k int) bool { return k == 0 && k < m.Length-1 }),
			Middle:  over(func(m *Measured, k int) bool { return k > 0 && k < m.Length-1 }),
			Last:    over(func(m *Measured, k int) bool { return k == m.Length-1 }),
			Success: over(func(m *Measured, _ int) bool { return m.Success }),
			Failure: over(func(m *Measured, _ int) bool { return !m.Success }),
		}
		if c.name != ReturnMinusMean && mean != nil {
			l.Above = above(c.pairs(measured, mean, nil), mean.pairs(measured, c, nil), draws)
		}
		t.Estimators = append(t.Estimators, l)
	}
	t.addConclusions()
	return t
}

// pairs are the decided turns with a known claim, of this estimator and of another one if
// it is given. keep selects turns; nil keeps all.
func (c *claimed) pairs(measured []*Measured, other *claimed, keep func(m *Measured, turn int) bool) []pair {
	var out []pair
	for e, m := range measured {
		for i := range m.Turns {
			k := &m.Turns[i]
			key := turnKey{m.Group, m.Index, k.Turn}
			claim, ok := c.of[key]
			if !k.Decided || !ok || math.IsNaN(claim) || keep != nil && !keep(m, k.Turn) {
				continue
			}
			if other != nil {
				if x, ok := other.of[key]; !ok || math.IsNaN(x) {
					continue
				}
			}
			out = append(out, pair{e, claim, float64(k.Advantage)})
		}
	}
	return out
}

// above is the difference of two correlations over the same turns.
func above(a, b []pair, draws [][]int) Figure {
	f := Figure{Value: Number(pearson(a) - pearson(b))}
	x, y := samples(a, draws), samples(b, draws) // of the same draws, since the turns are the same
	diffs := make([]float64, len(x))
	for i := range x {
		diffs[i] = pearson(x[i]) - pearson(y[i])
	}
	f.Low, f.High = quantiles(diffs)
	return f
}

// addConclusions adds a sentence where an estimator is not better than the return minus its mean.
func (t *Table) addConclusions() {
	var unclear []string
	for i := range t.Estimators {
		l := &t.Estimators[i]
		switch {
		case l.Baseline || l.Above.Low > 0:
		case math.IsNaN(float64(l.Above.Value)):
			unclear = append(unclear, l.Name)
		default:
			t.Remarks = append(t.Remarks, fmt.Sprintf(
				"%s does not beat the return minus its mean: the difference of Pearson's correlations is %.2f, 95 %% interval [%.2f, %.2f]", l.Name, l.Above.Value, l.Above.Low, l.Above.High))
		}
	}
	if len(unclear) > 0 {
		t.Remarks = append(t.Remarks, "without a correlation over the decided turns nothing can be said about "+
			strings.Join(unclear, ", "))
	}
}

// claimsAt are the claims of estimators for one turn, without baselines.
func claimsAt(claims []claimed, k turnKey) map[string]Number {
	out := map[string]Number{}
	for i := range claims {
		if x, ok := claims[i].of[k]; ok && !claims[i].baseline {
			out[claims[i].name] = Number(x)
		}
	}
	return out
}
