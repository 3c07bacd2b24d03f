package learn_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/vlm"
	"vagen/policy/vlm/internal/backend"
	"vagen/policy/vlm/internal/learn"
	"vagen/policy/vlm/internal/model"
	. "vagen/policy/vlm/internal/modeltest"
	. "vagen/policy/vlm/internal/vlmtest"
)

var everything = policy.ScoreRequest{LogProbs: true, Reference: true, Values: true, Entropy: true}

// columnsOf lists the numbers of all kinds.
func columnsOf(s *policy.Scores) map[string][]float32 {
	return map[string][]float32{"log-probs": s.LogProbs, "reference": s.Reference, "values": s.Values,
		"entropies": s.Entropy}
}

// Rows are packed behind one another, next to one another, padded, and split into
// micro-batches; logits are computed chunk by chunk. None of that is visible, but
// for the order in which float32 numbers are summed (rowDrift).
func TestScoresDoNotDependOnHowRowsAreBatched(t *testing.T) {
	for _, family := range []model.Family{model.Qwen25VL, model.Qwen3VL, model.Llama} {
		m := New(t, family, Options{Critic: learn.SeparateCritic, Reference: true})
		rows, want := m.FourRows(t)
		whole := columnsOf(scored(t, m, &rows, want, everything))
		check := func(what string, index ...int) {
			t.Helper()
			some, place := pick(rows, index...)
			marks := make([]bool, len(place))
			for i, at := range place {
				marks[i] = want[at]
			}
			for name, got := range columnsOf(scored(t, m, &some, marks, everything)) {
				var expected []float32
				for _, at := range place {
					expected = append(expected, whole[name][at])
				}
				RequireNear(t, expected, got, Drift, fmt.Sprintf("%s: %s: %s", family, what, name))
			}
		}
		check("backwards", 3, 2, 1, 0)
		for i := range rows.Len() {
			check("alone", i)
		}
		check("twice", 1, 2, 1, 2)
		for _, budget := range []int{1, 24, 64} {
			m.Sets.Batching.Tokens = budget
			check(fmt.Sprint("micro-batches of ", budget), 0, 1, 2, 3)
		}
		m.Sets.Batching.HeadTokens = 3
		check("three logits at a time", 2, 0, 3, 1)
	}
}

func TestScoreComputesWhatIsWantedWhereItIsWanted(t *testing.T) {
	m := New(t, model.Qwen25VL, Options{Critic: learn.SeparateCritic, Reference: true})
	rows, want := m.FourRows(t)
	all := columnsOf(scored(t, m, &rows, want, everything))
	for i := range want {
		want[i] = i%3 == 0 // first tokens of rows among them
	}
	for name, what := range map[string]policy.ScoreRequest{
		"log-probs": {LogProbs: true}, "reference": {Reference: true}, "values": {Values: true}, "entropies": {Entropy: true},
	} {
		for other, x := range columnsOf(scored(t, m, &rows, want, what)) {
			if other != name {
				require.Nil(t, x, "%s when %s were asked for", other, name)
				continue
			}
			expected := make([]float32, len(want))
			nonzero := 0
			for i := range want {
				if want[i] {
					expected[i] = all[name][i] // 0 at the first token of a row
				}
				if expected[i] != 0 {
					nonzero++
				}
			}
			require.Positive(t, nonzero)
			RequireNear(t, expected, x, Drift, name)
		}
	}
	for name, x := range columnsOf(scored(t, m, &rows, make([]bool, len(want)), everything)) {
		require.Equal(t, make([]float32, len(want)), x, name)
	}
}

func TestReferenceStaysThePolicyThatWasOpened(t *testing.T) {
	m := New(t, model.Qwen25VL, Options{Reference: true})
	rows, want := m.FourRows(t)
	scores := func() *policy.Scores {
		return scored(t, m, &rows, want, policy.ScoreRequest{LogProbs: true, Reference: true})
	}
	first := scores()
	require.Equal(t, first.LogProbs, first.Reference)
	m.Imitate(t, rows, want, 1e-2)
	second := scores()
	require.Equal(t, first.Reference, second.Reference)
	require.NotEqual(t, first.LogProbs, second.LogProbs)
	require.NoError(t, m.Sets.Tie(t.Context()))
	third := scores()
	require.Equal(t, second.LogProbs, third.LogProbs)
	require.Equal(t, second.LogProbs, third.Reference)
}

func TestNewCriticsStartFromThePolicy(t *testing.T) {
	dir := Folder(t, model.Qwen25VL, nil)
	values := func(o Options) []float32 {
		m := Open(t, dir, o)
		rows, want := m.FourRows(t)
		return scored(t, m, &rows, want, policy.ScoreRequest{Values: true}).Values
	}
	separate := values(Options{Critic: learn.SeparateCritic, Seed: 4})
	require.NotEqual(t, make([]float32, len(separate)), separate)
	RequireNear(t, separate, values(Options{Critic: learn.SharedCritic, Seed: 4}), Drift,
		"a head of the same seed on the same trunk")
	require.NotEqual(t, separate, values(Options{Critic: learn.SeparateCritic, Seed: 5}))
	for _, c := range []vlm.Critic{learn.SeparateCritic, learn.SharedCritic} {
		require.Equal(t, make([]float32, len(separate)), values(Options{Critic: c, ZeroValueHead: true}))
	}
}

func TestTieCopiesTheTrunkToTheCritic(t *testing.T) {
	m := New(t, model.Qwen25VL, Options{Critic: learn.SeparateCritic, Reference: true})
	rows, want := m.FourRows(t)
	m.Imitate(t, rows, want, 1e-2)
	head := Read(t, m.Sets.Critic.Weights)["score.weight"]
	require.NoError(t, m.Sets.Tie(t.Context()))
	actor, critic := Read(t, m.Sets.Actor.Weights), Read(t, m.Sets.Critic.Weights)
	require.Equal(t, actor, Read(t, m.Sets.Ref.Weights))
	shared := 0
	for name, x := range critic {
		if y, ok := actor[name]; ok {
			require.Equal(t, y, x, name)
			shared++
		}
	}
	require.Greater(t, shared, 20)
	require.Equal(t, head, critic["score.weight"], "the value head stays")
}

// In bfloat16 a number has 8 significant bits: activations are off by 0.4 %, and
// the log-probs of two sharp layers by some tenths at most.
func TestBFloat16ComputesTheSameModelCoarsely(t *testing.T) {
	dir := Folder(t, model.Qwen25VL, nil)
	m := Open(t, dir, Options{})
	rows, want := m.FourRows(t)
	exact := logProbsOf(t, m, rows, want)
	coarse := logProbsOf(t, Open(t, dir, Options{BFloat16: true}), rows, want)
	require.NotEqual(t, exact, coarse)
	RequireNear(t, exact, coarse, 0.5, "log-prob")
	var off float64
	for i := range exact {
		off += math.Abs(float64(exact[i]-coarse[i])) / float64(len(want))
	}
	require.Less(t, off, 0.05)
}

func TestScoreRefusesWhatItCannotScore(t *testing.T) {
	m := New(t, model.Qwen25VL, Options{})
	rows, want := m.FourRows(t)
	lp := policy.ScoreRequest{LogProbs: true}
	for name, c := range map[string]struct {
		change func(r *policy.Rows)
		want   []bool
		what   policy.ScoreRequest
		temp   float64
		err    string
	}{
		"too few marks": {nil, want[1:], lp, 1, "the mask of tokens to score has"},
		"no offsets":    {func(r *policy.Rows) { r.Offsets = nil }, want, lp, 1, "row offsets must go from 0"},
		"offsets from 1": {func(r *policy.Rows) { r.Offsets = append([]int{1}, r.Offsets[1:]...) }, want, lp, 1,
			"row offsets must go from 0"},
		"offsets that stop early": {func(r *policy.Rows) { r.Offsets = r.Offsets[:3] }, want, lp, 1,
			"row offsets must go from 0"},
		"offsets that go back": {func(r *policy.Rows) { r.Offsets = []int{0, 20, 10, len(r.Tokens)} }, want, lp, 1,
			"row 1: offset 10 after 20"},
		"images of too few rows": {func(r *policy.Rows) { r.Images = r.Images[:2] }, want, lp, 1, "images for 2 rows"},
		"a negative token": {func(r *policy.Rows) { r.Tokens[0] = -1 }, want, lp, 1,
			"row 0: token 0 has id -1, must be in [0, 272)"},
		"a token too high": {func(r *policy.Rows) { r.Tokens[r.Offsets[1]+1] = 272 }, want, lp, 1,
			"row 1: token 1 has id 272, must be in [0, 272)"},
		"an image too many": {func(r *policy.Rows) { r.Images[1] = r.Images[0] }, want, lp, 1,
			"row 1: 1 images, but placeholders for 0"},
		"an image too few": {func(r *policy.Rows) { r.Images[0] = nil }, want, lp, 1,
			"row 0: token 3 is an image placeholder"},
		"no images":                {func(r *policy.Rows) { r.Images = nil }, want, lp, 1, "is an image placeholder"},
		"an image of another size": {func(r *policy.Rows) { r.Images[0] = r.Images[2][:1] }, want, lp, 1, "row 0: "},
		"an image that is gone": {func(r *policy.Rows) { r.Images[0] = []policy.Image{{Hash: [32]byte{7}}} }, want, lp, 1,
			"row 0: image 0: image 07000000 is missing"},
		"temperature 0":           {nil, want, lp, 0, "temperature is 0, must be at least 1e-09 and finite"},
		"temperature of nothing":  {nil, want, lp, 1e-50, "temperature is 1e-50, must be at least 1e-09 and finite"},
		"temperature NaN":         {nil, want, lp, math.NaN(), "temperature is NaN"},
		"temperature without end": {nil, want, lp, math.Inf(1), "temperature is +Inf"},
		"no reference":            {nil, want, policy.ScoreRequest{Reference: true}, 1, "without a reference"},
		"no critic":               {nil, want, policy.ScoreRequest{Values: true}, 1, "without a critic"},
	} {
		r, _ := pick(rows, 0, 1, 2, 3)
		if c.change != nil {
			c.change(&r)
		}
		_, err := m.Score(t.Context(), &r, c.want, c.what, c.temp)
		require.ErrorContains(t, err, c.err, name)
		require.ErrorContains(t, err, "vlm: ", name)
		if c.what != lp {
			require.ErrorIs(t, err, backend.ErrOption)
		}
	}
}

// TestRowsFitThePolicyAndItsTeacher: the teacher reads the policy's packs.
func TestRowsFitThePolicyAndItsTeacher(t *testing.T) {
	teacher := Folder(t, model.Qwen35Text, map[string]any{"max_position_embeddings": 4})
	m := New(t, model.Qwen35Text, Options{Reference: true, ReferencePath: teacher})
	rows, want := &policy.Rows{Offsets: []int{0, 5, 6}, Tokens: []int32{3, 4, 5, 6, 7, 8}}, Trues(6)
	_, err := m.Score(t.Context(), rows, want, policy.ScoreRequest{LogProbs: true}, 1)
	require.NoError(t, err)
	_, err = m.Score(t.Context(), rows, want, policy.ScoreRequest{Reference: true}, 1)
	require.ErrorContains(t, err, "row 0 has 5 tokens, the reference policy allows 4")

	full := Folder(t, model.Qwen35Text, map[string]any{"full_attention_interval": 1})
	o := Options{Reference: true, ReferencePath: full, SharePrefix: true}
	m = Open(t, full, o)
	require.True(t, m.Sets.Packer(m.Net).Share)
	o.ReferencePath = teacher
	m = Open(t, full, o)
	require.False(t, m.Sets.Packer(m.Net).Share, "layers of the teacher keep a state")
}

func TestCancelledScoringLeavesNothingOnTheDevice(t *testing.T) {
	m := New(t, model.Qwen25VL, Options{Critic: learn.SeparateCritic, Reference: true, MicroTokens: 32})
	rows, want := m.FourRows(t)
	before, _ := m.Dev.Live()
	done := false
	for looks := 0; !done; looks++ {
		_, err := m.Score(Countdown(t.Context(), looks), &rows, want, everything, 1)
		if done = err == nil; done {
			require.Greater(t, looks, 3)
		} else {
			require.ErrorIs(t, err, context.Canceled)
		}
		live, _ := m.Dev.Live()
		require.Equal(t, before, live, "after %d looks", looks)
	}
}
