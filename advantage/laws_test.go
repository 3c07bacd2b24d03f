package advantage

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

const lawRounds = 25

// eachName runs a law for every estimator on random batches.
func eachName(t *testing.T, law func(t *testing.T, spec Spec, est Estimator, g *generator)) {
	t.Helper()
	for _, name := range Names() {
		spec, err := Describe(name)
		require.NoError(t, err)
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

// TestObservationsChangeNothing inserts context between turns, with arbitrary values, as
// a critic may have there. Plain GAE treats every token as a step and slime's REINFORCE++ discounts
// over every token, and optimal_token_baseline compares positions in the row: these are the exceptions, which the test
// checks, too.
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
		if spec.Mask == MaskAttention || spec.Name == "reinforce_plus_plus_slime" || spec.Name == "optimal_token_baseline" {
			require.NotEqual(t, byID(rows, want.Advantages), byID(longer, got.Advantages), "an estimator over all tokens")
			return
		}
		bothSame(t, got, want, longer, rows)
	})
}

// TestPromptsMoveNoBaseline: the last tokens of the longest row have none, however long the common prompt is.
func TestPromptsMoveNoBaseline(t *testing.T) {
	for seed := range uint64(lawRounds) {
		g := newGenerator(seed)
		rows := g.episodes(3, 3, true)
		longer, prompt := cloneRows(rows), g.observation(40)
		for i := range longer {
			longer[i].tokens = append(slices.Clone(prompt), longer[i].tokens...)
		}
		est := OptimalBaseline{ZeroTail: true}
		bothSame(t, run(t, est, batchOf(longer)), run(t, est, batchOf(rows)), longer, rows)
	}
}

// TestObservationsInsideTurnsChangeNothing inserts context anywhere. For an estimator
// whose turns are runs of model tokens, that splits a turn in two, and the result must
// differ.
func TestObservationsInsideTurnsChangeNothing(t *testing.T) {
	runsAreTurns := []string{
		"gae", "reinforce_plus_plus", "turn_level_gae", "trajectory_bi_level_gae", "bi_level_gae_published",
		"bi_level_gae_varlam", "reinforce_plus_plus_slime", "optimal_token_baseline",
	}
	for _, name := range Names() {
		if spec, _ := Describe(name); spec.States {
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
			if slices.Contains(runsAreTurns, name) {
				require.NotEqual(t, byID(rows, want.Advantages), byID(longer, got.Advantages), "split turns")
			} else {
				bothSame(t, got, want, longer, rows)
			}
		})
	}
}

// TestRewardsCountWhereTheSpecSays adds rewards at different positions: at positions
// outside those that a Spec names they change no advantage of a model token, inside they do.
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
			require.Equal(t, s.counts, !maps.Equal(before, change(s.where)), "rewards on %s count", s.name)
		}
	})
}

// TestUnreadCountsTheRewardsWithoutEffect: 0 if every reward is where the Spec says.
func TestUnreadCountsTheRewardsWithoutEffect(t *testing.T) {
	eachName(t, func(t *testing.T, spec Spec, est Estimator, g *generator) {
		rows := g.episodes(3, 3, true)
		want := 0
		for i := range rows {
			for j := range rows[i].tokens {
				k := &rows[i].tokens[j]
				k.reward = 1
				read := k.turnEnd || k.wrote && spec.Rewards != SiteTurnEnd || spec.Rewards == SiteAll
				if !read {
					want++
				}
			}
		}
		require.Equal(t, want, run(t, est, batchOf(rows)).Unread)
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

// TestPermutedRowsPermuteResults: the order of rows in a batch does not matter, except
// that sums over rows change their order, so the last bits may differ.
func TestPermutedRowsPermuteResults(t *testing.T) {
	eachName(t, func(t *testing.T, _ Spec, est Estimator, g *generator) {
		rows := g.episodes(3, 3, true)
		shuffled := cloneRows(rows)
		g.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		bothSame(t, run(t, est, batchOf(shuffled)), run(t, est, batchOf(rows)), shuffled, rows)
	})
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
				if a, seen := first[k.id]; k.wrote && seen {
					require.Equal(t, a, got.Advantages[i], "copies of token %d", k.id)
				}
				first[k.id] = got.Advantages[i]
				i++
			}
		}
	})
}

// split stores episodes with a given number of turns per row, each row with its own
// prompt.
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

// TestLayoutsAgree stores the same episodes as one row each, as a row per turn, and with
// several turns per row. no_concat_gae treats rows as steps, so only its row per turn is
// comparable.
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
				require.Equal(t, byID(rows, want.TurnID), byID(parts, got.TurnID), "turn ids")
			}
		}
	})
}
