package advantage

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// token is one position of a row under construction.
type token struct {
	reward, value   float32
	logProb, square float32
	attended, wrote bool
	turnEnd         bool
	id              int // of tokens that the model wrote: unique in the batch
}

// row is a row under construction.
type row struct {
	tokens             []token
	group, traj, order int
	baseline           float32
	states             []uint64 // one per turn: State + 3·Next, where Next 3 is success
}

// batchOf concatenates rows. Loss, GAE and TurnEnd come from the tokens.
func batchOf(rows []row) *Batch {
	b := &Batch{Offsets: []int{0}}
	for _, r := range rows {
		for _, k := range r.tokens {
			b.Rewards = append(b.Rewards, k.reward)
			b.Values = append(b.Values, k.value)
			b.Attention = append(b.Attention, k.attended)
			b.LogProbs, b.SumPiSquared = append(b.LogProbs, k.logProb), append(b.SumPiSquared, k.square)
			b.Loss = append(b.Loss, k.wrote)
			b.TurnEnd = append(b.TurnEnd, k.turnEnd)
		}
		b.Offsets = append(b.Offsets, len(b.Rewards))
		b.Group = append(b.Group, r.group)
		b.Trajectory = append(b.Trajectory, r.traj)
		b.Turn = append(b.Turn, r.order)
		b.Baselines = append(b.Baselines, r.baseline)
		for _, s := range r.states {
			next := s / 3
			if next == 3 {
				next = SuccessState
			}
			b.States, b.Next = append(b.States, s%3), append(b.Next, next)
		}
	}
	b.GAE = slices.Clone(b.Loss)
	return b
}

// generator makes random episodes.
type generator struct {
	*rand.Rand
	ids int
}

func newGenerator(seed uint64) *generator {
	return &generator{Rand: rand.New(rand.NewPCG(seed, 7))}
}

func (g *generator) number() float32 { return float32(g.IntN(4001)-2000) / 1000 }

// observation is context: its numbers are arbitrary, as a critic's are there.
func (g *generator) observation(n int) []token {
	out := make([]token, n)
	for i := range out {
		out[i] = token{value: g.number() * 10, attended: true}
	}
	return out
}

// turn is one response of the model, with a reward at its end and, if dense, at every
// token.
func (g *generator) turn(n int, dense bool) []token {
	out := make([]token, n)
	for i := range out {
		g.ids++
		out[i] = token{value: g.number(), attended: true, wrote: true, id: g.ids}
		out[i].logProb, out[i].square = -abs(g.number()), abs(g.number())/2
		if dense {
			out[i].reward = g.number() / 10
		}
	}
	out[n-1].reward += g.number()
	out[n-1].turnEnd = true
	return out
}

// episodes makes groups of episodes with one to four turns. A row is a whole
// episode.
func (g *generator) episodes(groups, perGroup int, dense bool) []row {
	var rows []row
	for group := range groups {
		for traj := range perGroup {
			r := row{group: group + 10, traj: traj + 100, baseline: g.number()}
			r.tokens = g.observation(1 + g.IntN(4))
			for turn := range 1 + g.IntN(4) {
				if turn > 0 {
					r.tokens = append(r.tokens, g.observation(1+g.IntN(5))...)
				}
				n := 1 + g.IntN(6)
				if g.IntN(6) == 0 {
					n += 20 // enough for every kernel
				}
				r.tokens = append(r.tokens, g.turn(n, dense)...)
				r.states = append(r.states, uint64(g.IntN(12)))
			}
			rows = append(rows, r)
		}
	}
	return rows
}

// run estimates and fails the test on an error.
func run(t testing.TB, est Estimator, b *Batch) *Result {
	t.Helper()
	var out Result
	require.NoError(t, est.Estimate(&out, b), "%T", est)
	return &out
}

// byID collects a result's number of each token that the model wrote.
func byID[T any](rows []row, numbers []T) map[int]T {
	out := make(map[int]T)
	i := 0
	for _, r := range rows {
		for _, k := range r.tokens {
			if k.wrote {
				out[k.id] = numbers[i]
			}
			i++
		}
	}
	return out
}

// sameByID reports the first token at which two results differ by more than a
// rounding of float32, relative to the numbers of ordinary size in these tests.
func sameByID(t testing.TB, what string, got, want map[int]float32) {
	t.Helper()
	const tolerance = 2e-5
	require.Len(t, got, len(want), what)
	for id, w := range want {
		if g, ok := got[id]; !ok || abs(g-w) > tolerance*max(1, abs(w)) {
			t.Errorf("%s: token %d: got %v, want %v", what, id, g, w)
			return
		}
	}
}

func abs(x float32) float32 { return max(x, -x) }

// testParams are all below one: at one, many wrong estimators agree with the right one.
func testParams() Params {
	return Params{
		Gamma: 0.9, Lambda: 0.8, TurnGamma: 0.7, TurnLambda: 0.85, TokenLambda: 0.6,
		Mix: 0.75, StepWeight: 0.5, EpisodeWeight: 0.4, History: 1, Alpha: 0.5, Base: true, NormByStd: true,
		Whiten:   true,
		ZeroTail: true, Decay: 0.6,
	}
}

// named makes an estimator by name, with gamma as it allows.
func named(t testing.TB, name string, p Params) Estimator {
	t.Helper()
	spec, err := Describe(name)
	require.NoError(t, err)
	if spec.Undiscounted {
		p.Gamma = 1
	}
	est, err := New(name, p)
	require.NoError(t, err)
	return est
}
