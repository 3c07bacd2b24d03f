package advantage

import (
	"errors"
	"math"
	"runtime"
	"slices"
	"testing"
)

const lawRounds = 25

// eachName runs a law for every estimator on random batches.
func eachName(t *testing.T, law func(t *testing.T, spec Spec, est Estimator, g *generator)) {
	t.Helper()
	for _, name := range Names() {
		spec, err := Describe(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(lawRounds) {
				law(t, spec, named(t, name, testParams()), newGenerator(seed))
			}
		})
	}
}

// bothSame compares advantages and, where the critic learns them, returns.
func bothSame(t *testing.T, got, want *Result, gotRows, wantRows []row) {
	t.Helper()
	sameByID(t, "advantages", byID(gotRows, got.Advantages), byID(wantRows, want.Advantages))
	sameByID(t, "returns", byID(gotRows, got.Returns), byID(wantRows, want.Returns))
}

// TestObservationsChangeNothing inserts context between turns, with values as
// wild as a critic's may be there. Plain GAE takes every token for a step and is
// the exception, which the test shows too.
func TestObservationsChangeNothing(t *testing.T) {
	eachName(t, func(t *testing.T, spec Spec, est Estimator, g *generator) {
		rows := g.episodes(3, 3, true)
		longer := cloneRows(rows)
		for i := range longer {
			var tokens []token
			for _, k := range longer[i].tokens {
				tokens = append(tokens, k)
				if k.turnEnd || !k.wrote {
					tokens = append(tokens, g.observation(g.IntN(3))...)
				}
			}
			longer[i].tokens = append(g.observation(2), tokens...)
		}
		want, got := run(t, est, batchOf(rows)), run(t, est, batchOf(longer))
		if spec.Mask == MaskAttention {
			same := slices.Equal(values(byID(rows, want.Returns)), values(byID(longer, got.Returns)))
			if same {
				t.Error("observations changed nothing for an estimator over all tokens")
			}
			return
		}
		bothSame(t, got, want, longer, rows)
	})
}

func values(m map[int]float32) []float32 {
	var out []float32
	for id := range len(m) {
		out = append(out, m[id+1]) // ids start at 1
	}
	return out
}

// TestObservationsInsideTurnsChangeNothing inserts context anywhere. Where a
// turn is a run of model tokens, that makes two turns of one, and the result has
// to differ.
func TestObservationsInsideTurnsChangeNothing(t *testing.T) {
	runsAreTurns := []string{
		"gae", "reinforce_plus_plus", "turn_level_gae", "trajectory_bi_level_gae", "bi_level_gae_published",
	}
	for _, name := range Names() {
		if name == "gigpo" {
			continue // another number of turns needs another number of states
		}
		t.Run(name, func(t *testing.T) {
			g := newGenerator(3)
			rows := g.episodes(3, 3, true)
			longer := cloneRows(rows)
			for i := range longer {
				var tokens []token
				for _, k := range longer[i].tokens {
					tokens = append(append(tokens, g.observation(g.IntN(3))...), k)
				}
				longer[i].tokens = tokens
			}
			est := named(t, name, testParams())
			got, want := run(t, est, batchOf(longer)), run(t, est, batchOf(rows))
			if !slices.Contains(runsAreTurns, name) {
				bothSame(t, got, want, longer, rows)
			} else if slices.Equal(values(byID(longer, got.Advantages)), values(byID(rows, want.Advantages))) {
				t.Error("split turns changed nothing")
			}
		})
	}
}

// TestRewardsCountWhereTheSpecSays moves rewards about: outside the site that a
// Spec names they change no advantage of a model token, inside they do.
func TestRewardsCountWhereTheSpecSays(t *testing.T) {
	eachName(t, func(t *testing.T, spec Spec, est Estimator, g *generator) {
		rows := g.episodes(3, 3, true)
		change := func(where func(k token) bool) map[int]float32 {
			changed := cloneRows(rows)
			for i := range changed {
				for j, k := range changed[i].tokens {
					if where(k) {
						changed[i].tokens[j].reward += 1 + g.number()/4
					}
				}
			}
			return byID(changed, run(t, est, batchOf(changed)).Advantages)
		}
		before := byID(rows, run(t, est, batchOf(rows)).Advantages)
		sites := []struct {
			name   string
			where  func(k token) bool
			counts bool
		}{
			{"turn ends", func(k token) bool { return k.turnEnd }, true},
			{"other model tokens", func(k token) bool { return k.wrote && !k.turnEnd }, spec.Rewards != SiteTurnEnd},
			{"context", func(k token) bool { return !k.wrote }, spec.Rewards == SiteAll},
		}
		for _, s := range sites {
			if after := change(s.where); slices.Equal(values(before), values(after)) == s.counts {
				t.Errorf("rewards on %s: counted: %v, want %v", s.name, !s.counts, s.counts)
			}
		}
	})
}

func cloneRows(rows []row) []row {
	out := slices.Clone(rows)
	for i := range out {
		out[i].tokens = slices.Clone(out[i].tokens)
		out[i].states = slices.Clone(out[i].states)
	}
	return out
}

// TestPaddingChangesNothing pads rows at their end, as trainers on rectangular
// batches do. Padding has no value and no reward.
func TestPaddingChangesNothing(t *testing.T) {
	eachName(t, func(t *testing.T, _ Spec, est Estimator, g *generator) {
		rows := g.episodes(3, 3, true)
		padded := cloneRows(rows)
		for i := range padded {
			padded[i].tokens = append(padded[i].tokens, make([]token, g.IntN(5))...)
		}
		bothSame(t, run(t, est, batchOf(padded)), run(t, est, batchOf(rows)), padded, rows)
	})
}

// TestPermutedRowsPermuteResults: who stands where in a batch is no matter. Sums
// over rows change their order, so the last bits may differ.
func TestPermutedRowsPermuteResults(t *testing.T) {
	eachName(t, func(t *testing.T, _ Spec, est Estimator, g *generator) {
		rows := g.episodes(3, 3, true)
		shuffled := cloneRows(rows)
		g.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		bothSame(t, run(t, est, batchOf(shuffled)), run(t, est, batchOf(rows)), shuffled, rows)
	})
}

// TestWorkerCountChangesNothing compares bits: a batch that is spread over
// goroutines gives what one goroutine gives.
func TestWorkerCountChangesNothing(t *testing.T) {
	batch := shape{96, 2048, true}.batch()
	if workers := batch.Tokens() / tokensPerWorker; workers < 2 {
		t.Fatalf("the batch has work for %d goroutines, want several", workers)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, name := range Names() {
		est := named(t, name, testParams())
		runtime.GOMAXPROCS(1)
		want := run(t, est, batch)
		for _, n := range []int{2, 3, 8} {
			runtime.GOMAXPROCS(n)
			got := run(t, est, batch)
			if !slices.Equal(got.Advantages, want.Advantages) || !slices.Equal(got.Returns, want.Returns) {
				t.Errorf("%s: other bits on %d processors", name, n)
			}
		}
	}
}

// TestCopiesAreHarmless appends copies of rows, as trainers do to fill a batch.
// Estimators over groups of rows would count them twice; those over episodes
// must not.
func TestCopiesAreHarmless(t *testing.T) {
	eachName(t, func(t *testing.T, spec Spec, est Estimator, g *generator) {
		if spec.RowLocal {
			return
		}
		rows := g.episodes(3, 3, true)
		more := cloneRows(rows)
		for range 4 {
			more = append(more, rows[g.IntN(len(rows))])
		}
		g.Shuffle(len(more), func(i, j int) { more[i], more[j] = more[j], more[i] })
		want, b := run(t, est, batchOf(rows)), batchOf(more)
		got := run(t, est, b)
		bothSame(t, got, want, more, rows)
		// byID keeps the last of equal tokens; all of them have to agree.
		first := make(map[int]float32)
		i := 0
		for _, r := range more {
			for _, k := range r.tokens {
				if a, seen := first[k.id]; k.wrote && seen && a != got.Advantages[i] {
					t.Fatalf("token %d: copies have advantages %v and %v", k.id, a, got.Advantages[i])
				}
				first[k.id] = got.Advantages[i]
				i++
			}
		}
	})
}

// split lays episodes out with a row for each so many turns, each row with a
// prompt of its own.
func (g *generator) split(rows []row, turns int) []row {
	var out []row
	for _, r := range rows {
		part := row{group: r.group, traj: r.traj, tokens: g.observation(2)}
		flush := func() {
			if len(part.states) > 0 {
				out = append(out, part)
			}
			part = row{group: r.group, traj: r.traj, order: part.order + 2, tokens: g.observation(g.IntN(3))}
		}
		turn := 0
		for i, k := range r.tokens {
			part.tokens = append(part.tokens, k)
			if k.turnEnd {
				part.states = append(part.states, r.states[turn])
				turn++
				if len(part.states) == turns || i+1 == len(r.tokens) {
					flush()
				}
			}
		}
	}
	g.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// TestLayoutsAgree lays the same episodes out as one row each, as a row per turn
// and as something in between. no_concat_gae takes rows for steps, so only its
// row per turn is comparable.
func TestLayoutsAgree(t *testing.T) {
	eachName(t, func(t *testing.T, spec Spec, est Estimator, g *generator) {
		if _, rowsAreSteps := est.(NoConcat); spec.RowLocal || rowsAreSteps {
			return
		}
		rows := g.episodes(3, 3, true)
		want := run(t, est, batchOf(rows))
		for _, turns := range []int{1, 2} {
			parts := g.split(rows, turns)
			got := run(t, est, batchOf(parts))
			bothSame(t, got, want, parts, rows)
			if spec.TurnIDs {
				sameByID(t, "turn ids", byID(parts, floats(got.TurnID)), byID(rows, floats(want.TurnID)))
			}
		}
	})
}

func floats(x []int32) []float32 {
	out := make([]float32, len(x))
	for i, v := range x {
		out[i] = float32(v)
	}
	return out
}

// TestNoConcatIsTurnLevelOnRowsPerTurn ties the estimator over rows to the one
// over turns: with one turn per row they are the same.
func TestNoConcatIsTurnLevelOnRowsPerTurn(t *testing.T) {
	for seed := range uint64(lawRounds) {
		g := newGenerator(seed)
		parts := g.split(g.episodes(3, 3, true), 1)
		b := batchOf(parts)
		got := run(t, NoConcat{Gamma: 0.9, Lambda: 0.8, Whiten: true}, b)
		want := run(t, TrajectoryTurn{Gamma: 0.9, Lambda: 0.8, Whiten: true}, b)
		bothSame(t, got, want, parts, parts)
		if !slices.Equal(got.ValueMask, want.ValueMask) {
			t.Error("value masks differ")
		}
	}
}

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
		m := MomentsOf(run(t, est, b).Advantages, over)
		// The tolerance covers the epsilons of whitening and float32 storage.
		if math.Abs(m.Mean) > 1e-5 || math.Abs(m.Variance()-1) > 1e-4 {
			t.Errorf("mean %v, variance %v over %d positions", m.Mean, m.Variance(), m.N)
		}
	})
}

// TestReturnsTelescopeAtLambdaOne: with λ = 1 the values between cancel, and the
// return of a token is the discounted sum of the rewards to come.
func TestReturnsTelescopeAtLambdaOne(t *testing.T) {
	const gamma = 0.9
	for seed := range uint64(lawRounds) {
		g := newGenerator(seed)
		rows := g.episodes(2, 2, true)
		b := batchOf(rows)
		togo := func(outcome bool) map[int]float32 {
			want := make(map[int]float32)
			for _, r := range rows {
				sum, total := 0.0, 0.0
				for _, k := range r.tokens {
					if k.wrote {
						total += float64(k.reward)
					}
				}
				last := true
				for _, k := range slices.Backward(r.tokens) {
					if !k.wrote {
						continue
					}
					reward := float64(k.reward)
					if outcome {
						reward = 0
						if last {
							reward = total
						}
					}
					last = false
					sum = reward + gamma*sum
					want[k.id] = float32(sum)
				}
			}
			return want
		}
		for _, est := range []Estimator{
			Masked{Gamma: gamma, Lambda: 1, Whiten: true}, Lite{Gamma: gamma, Lambda: 1, Whiten: true}, TrajectoryToken{Gamma: gamma, Lambda: 1, Whiten: true},
		} {
			sameByID(t, "returns", byID(rows, run(t, est, b).Returns), togo(false))
		}
		sameByID(t, "returns", byID(rows, run(t, TrajectoryOutcome{Gamma: gamma, Lambda: 1, Whiten: true}, b).Returns), togo(true))
	}
}

// TestReturnsNeedNoValuesAtLambdaOne is the same for all estimators with a
// critic, whatever their clocks: what the critic believes cancels.
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
		if slices.Equal(got.Advantages, want.Advantages) {
			t.Error("values do not matter to advantages")
		}
		p.Lambda, p.TurnLambda, p.TokenLambda = 0.9, 0.9, 0.9
		est = named(t, spec.Name, p)
		if slices.Equal(run(t, est, batchOf(others)).Returns, run(t, est, batchOf(rows)).Returns) {
			t.Error("values do not matter below λ = 1")
		}
	})
}

// TestAdvantagesAreDiscountedSumsOfDeltas checks the recursion against the sum
// that defines it, Ak = Σ (γλ)^l δ(k+l).
func TestAdvantagesAreDiscountedSumsOfDeltas(t *testing.T) {
	const gamma, lambda = 0.9, 0.7
	for seed := range uint64(lawRounds) {
		g := newGenerator(seed)
		rows := g.episodes(2, 2, true)
		want := make(map[int]float32)
		for _, r := range rows {
			var steps []token
			for _, k := range r.tokens {
				if k.wrote {
					steps = append(steps, k)
				}
			}
			for k := range steps {
				sum := 0.0
				for l := k; l < len(steps); l++ {
					delta := float64(steps[l].reward) - float64(steps[l].value)
					if l+1 < len(steps) {
						delta += gamma * float64(steps[l+1].value)
					}
					sum += math.Pow(gamma*lambda, float64(l-k)) * delta
				}
				want[steps[k].id] = float32(sum)
			}
		}
		for _, est := range []Estimator{
			Masked{Gamma: gamma, Lambda: lambda}, Lite{Gamma: gamma, Lambda: lambda},
			TrajectoryToken{Gamma: gamma, Lambda: lambda},
		} {
			sameByID(t, "advantages", byID(rows, run(t, est, batchOf(rows)).Advantages), want)
		}
	}
}

// TestBiLevelIsMaskedOnlyAtOne: with rewards on turn ends, the two passes are
// one recursion when nothing is discounted, and differ as soon as anything is.
func TestBiLevelIsMaskedOnlyAtOne(t *testing.T) {
	for seed := range uint64(lawRounds) {
		g := newGenerator(seed)
		rows := g.episodes(3, 3, false)
		b := batchOf(rows)
		one := run(t, Masked{Gamma: 1, Lambda: 1, Whiten: true}, b)
		bothSame(t, run(t, BiLevel{Gamma: 1, Lambda: 1, TurnGamma: 1, Whiten: true}, b), one, rows, rows)
		for _, est := range []BiLevel{
			{Gamma: 0.9, Lambda: 1, TurnGamma: 1}, {Gamma: 1, Lambda: 0.9, TurnGamma: 1}, {Gamma: 1, Lambda: 1, TurnGamma: 0.9},
			{Gamma: 0.9, Lambda: 0.9, TurnGamma: 0.9},
		} {
			same := run(t, Masked{Gamma: est.Gamma, Lambda: est.Lambda}, b)
			if slices.Equal(run(t, est, b).Advantages, same.Advantages) {
				t.Errorf("%+v equals the masked recursion", est)
			}
		}
	}
}

// TestTwoPassIsTokenLevelOnlyAtOne is the same for episodes of several rows.
func TestTwoPassIsTokenLevelOnlyAtOne(t *testing.T) {
	for seed := range uint64(lawRounds) {
		g := newGenerator(seed)
		rows := g.split(g.episodes(3, 3, false), 1)
		b := batchOf(rows)
		one := run(t, TrajectoryToken{Gamma: 1, Lambda: 1, Whiten: true}, b)
		bothSame(t, run(t, TrajectoryTwoPass{Gamma: 1, Lambda: 1, TurnGamma: 1, Whiten: true}, b), one, rows, rows)
		bothSame(t, run(t, TrajectoryBiLevel{TurnGamma: 1, TurnLambda: 1, TokenLambda: 1, Mix: 0.5, Whiten: true}, b), one, rows, rows)
		for _, est := range []TrajectoryTwoPass{
			{Gamma: 0.9, Lambda: 1, TurnGamma: 1}, {Gamma: 1, Lambda: 0.9, TurnGamma: 1}, {Gamma: 1, Lambda: 1, TurnGamma: 0.9},
		} {
			same := run(t, TrajectoryToken{Gamma: est.Gamma, Lambda: est.Lambda}, b)
			if slices.Equal(run(t, est, b).Advantages, same.Advantages) {
				t.Errorf("%+v equals the token recursion", est)
			}
		}
	}
}

// TestTwoPassIsBiLevelOnWholeEpisodes: with rewards on turn ends and an episode
// per row, stitching and moving rewards change nothing under the mask, up to the
// guard of whitening.
func TestTwoPassIsBiLevelOnWholeEpisodes(t *testing.T) {
	for seed := range uint64(lawRounds) {
		g := newGenerator(seed)
		rows := g.episodes(3, 3, false)
		b := batchOf(rows)
		got := run(t, TrajectoryTwoPass{Gamma: 0.9, Lambda: 0.8, TurnGamma: 0.7, Whiten: true}, b)
		bothSame(t, got, run(t, BiLevel{Gamma: 0.9, Lambda: 0.8, TurnGamma: 0.7, Whiten: true}, b), rows, rows)
	}
}

// TestMixEnds: mix 0 is the plain recursion to the bit, and so is mix 1 with
// equal clocks but for rounding.
func TestMixEnds(t *testing.T) {
	for seed := range uint64(lawRounds) {
		rows := newGenerator(seed).episodes(3, 3, true)
		b := batchOf(rows)
		plain := run(t, TrajectoryToken{Gamma: 1, Lambda: 0.6, Whiten: true}, b)
		none := run(t, TrajectoryBiLevel{TurnGamma: 0.7, TurnLambda: 0.85, TokenLambda: 0.6, Mix: 0, Whiten: true}, b)
		if !slices.Equal(none.Advantages, plain.Advantages) || !slices.Equal(none.Returns, plain.Returns) {
			t.Error("mix 0 is not the plain recursion")
		}
		for _, mix := range []float64{0.4, 1} {
			one := run(t, TrajectoryBiLevel{TurnGamma: 1, TurnLambda: 0.6, TokenLambda: 0.6, Mix: mix, Whiten: true}, b)
			bothSame(t, one, plain, rows, rows)
		}
		two := run(t, TrajectoryBiLevel{TurnGamma: 0.7, TurnLambda: 0.85, TokenLambda: 0.6, Mix: 1, Whiten: true}, b)
		if slices.Equal(two.Returns, plain.Returns) {
			t.Error("the turn clock has no effect")
		}
	}
}

// TestRowsWithoutModelTokensStayZero: such a row has results, and takes no part.
func TestRowsWithoutModelTokensStayZero(t *testing.T) {
	eachName(t, func(t *testing.T, spec Spec, est Estimator, g *generator) {
		rows := g.episodes(3, 3, true)
		silent := append(cloneRows(rows), row{group: rows[0].group, traj: 999, tokens: g.observation(4)}, row{group: rows[0].group, traj: 1000})
		b := batchOf(silent)
		got := run(t, est, b)
		lo, hi := b.Row(len(rows))
		if spec.Mask == MaskAttention || spec.Groups {
			return // such rows are rows to these, and count in their group
		}
		bothSame(t, got, run(t, est, batchOf(rows)), silent, rows)
		raw := testParams()
		raw.Whiten = false
		for _, a := range run(t, named(t, spec.Name, raw), b).Advantages[lo:hi] {
			if a != 0 {
				t.Errorf("advantage %v in a row without model tokens", a)
			}
		}
	})
}

// TestEmptyMasksAreDefined: whitening over nothing is an error with a name, and
// without whitening there are zeros.
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
		err := est.Estimate(&out, b)
		if spec.Whitens != errors.Is(err, ErrEmptyMask) {
			t.Errorf("got %v", err)
		}
		if spec.Mask == MaskAttention {
			return // the recursion runs on regardless of the mask
		}
		raw := testParams()
		raw.Whiten = false
		est = named(t, spec.Name, raw)
		if err := est.Estimate(&out, b); err != nil {
			t.Fatalf("raw: %v", err)
		}
		for _, a := range out.Advantages {
			if a != 0 {
				t.Errorf("raw advantage %v under an empty mask", a)
			}
		}
	})
}
