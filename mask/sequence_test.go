package mask_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/mask"
)

// twoTurns is prompt 1 2, turn 3 4 5, observation 6 7, turn 8.
func twoTurns(t testing.TB) *mask.Sequence {
	t.Helper()
	s := new(mask.Sequence)
	require.NoError(t, errors.Join(
		s.AppendContext(mask.Prompt, 1, 2),
		s.AppendResponse(3, 4, 5),
		s.AppendContext(mask.Observation, 6),
		s.AppendContext(mask.Observation, 7),
		s.AppendResponse(8),
	))
	return s
}

// bits writes a mask as a string of 0 and 1.
func bits(m []bool) string {
	out := ""
	for _, v := range m {
		if v {
			out += "1"
		} else {
			out += "0"
		}
	}
	return out
}

func wantMask(t *testing.T, what string, got []bool, want string) {
	t.Helper()
	require.Equal(t, want, bits(got), what)
}

func TestMasksFollowWhoWroteWhat(t *testing.T) {
	s := twoTurns(t)
	require.Equal(t, []int32{1, 2, 3, 4, 5, 6, 7, 8}, s.Tokens())
	require.Equal(t, 2, s.Turns())
	on, off := mask.Options{}, mask.Options{NoLossMask: true, NoGAEMask: true}
	wantMask(t, "response", s.Response(nil), "00111001")
	wantMask(t, "loss", s.Loss(nil, on), "00111001")
	wantMask(t, "loss, off", s.Loss(nil, off), "11111111")
	wantMask(t, "advantage", s.Advantage(nil, on), "00111001")
	wantMask(t, "advantage, off", s.Advantage(nil, off), "11111111")
	wantMask(t, "turn end", s.TurnEnd(nil), "00001001")
	wantMask(t, "attention", s.Attention(nil), "11111111")
	wantMask(t, "value", s.Value(nil, on), "00111001")
	wantMask(t, "value, no loss mask", s.Value(nil, off), "11111111")
	wantMask(t, "value at turn ends", s.Value(nil, mask.Options{ValueAtTurnEnd: true}), "00001001")
	kinds := fmt.Sprint(s.Kinds(nil))
	require.Equal(t, "[prompt prompt response response response observation observation response]", kinds)
	require.Equal(t, []int32{-1, -1, 0, 0, 0, -1, -1, 1}, s.TurnIndex(nil), "turn index")
	require.Equal(t, 7, s.LastResponse(), "last response")
}

// TestForcedTokensHaveNoPolicyLoss: they stay steps of the response, on which the
// critic is trained and rewards may be placed.
func TestForcedTokensHaveNoPolicyLoss(t *testing.T) {
	s := twoTurns(t)
	for _, at := range []int{3, 7} {
		require.NoError(t, s.AddSpan(mask.Forced, at, at+1))
	}
	on := mask.Options{}
	wantMask(t, "loss", s.Loss([]bool{true}, on), "100101000")
	wantMask(t, "loss, off", s.Loss(nil, mask.Options{NoLossMask: true}), "11111111")
	wantMask(t, "response", s.Response(nil), "00111001")
	wantMask(t, "advantage", s.Advantage(nil, on), "00111001")
	wantMask(t, "value", s.Value(nil, on), "00111001")
	wantMask(t, "turn end", s.TurnEnd(nil), "00001001")
}

// TestLossAndAdvantageSwitchesAreIndependent: each option changes only its mask.
func TestLossAndAdvantageSwitchesAreIndependent(t *testing.T) {
	s := twoTurns(t)
	loss, gae := mask.Options{NoGAEMask: true}, mask.Options{NoLossMask: true}
	wantMask(t, "loss", s.Loss(nil, loss), "00111001")
	wantMask(t, "advantage", s.Advantage(nil, loss), "11111111")
	wantMask(t, "loss", s.Loss(nil, gae), "11111111")
	wantMask(t, "advantage", s.Advantage(nil, gae), "00111001")
}

func TestPiecesTileTheRow(t *testing.T) {
	want := []mask.Piece{
		{Kind: mask.Prompt, Start: 0, End: 2, Turn: -1},
		{Kind: mask.Response, Start: 2, End: 5, Turn: 0},
		{Kind: mask.Observation, Start: 5, End: 7, Turn: -1},
		{Kind: mask.Response, Start: 7, End: 8, Turn: 1},
	}
	s := twoTurns(t)
	require.Equal(t, want, slices.Collect(s.Pieces))
	for p := range s.Pieces {
		require.Equal(t, want[0], p)
		break
	}
	start, end, ok := s.TurnAt(1)
	require.Equal(t, []any{7, 8, true}, []any{start, end, ok})
	for _, turn := range []int{-1, 2} {
		_, _, ok := s.TurnAt(turn)
		require.False(t, ok, turn)
	}
}

func TestAdjacentTurnsAreSeparate(t *testing.T) {
	s := new(mask.Sequence)
	require.NoError(t, errors.Join(s.AppendResponse(1, 2), s.AppendResponse(3)))
	wantMask(t, "turn end", s.TurnEnd(nil), "011")
	require.Equal(t, 2, s.Turns())
}

func TestWrongOrderIsRefused(t *testing.T) {
	s := twoTurns(t)
	before := s.Clone()
	for _, c := range []struct {
		name string
		err  error
		want error
	}{
		{"prompt after a turn", s.AppendContext(mask.Prompt, 1), mask.ErrKind},
		{"response as context", s.AppendContext(mask.Response, 1), mask.ErrKind},
		{"no kind", s.AppendContext(mask.Kind(7), 1), mask.ErrKind},
		{"empty turn", s.AppendResponse(), mask.ErrEmptyTurn},
		{"empty summary", s.AppendSummary(), mask.ErrEmptyTurn},
	} {
		require.ErrorIs(t, c.err, c.want, c.name)
	}
	require.NoError(t, s.AppendContext(mask.Observation), "no context")
	require.True(t, s.Equal(before), "a refused append changed the sequence")
}

func TestSummaryClosesTheConversation(t *testing.T) {
	s := twoTurns(t)
	require.False(t, s.EndsWithSummary())
	require.NoError(t, s.AppendSummary(9, 10))
	wantMask(t, "response", s.Response(nil), "0011100111")
	require.True(t, s.EndsWithSummary())
	require.Equal(t, 3, s.Turns())
	for _, err := range []error{s.AppendContext(mask.Observation, 1), s.AppendResponse(1), s.AppendSummary(1)} {
		require.ErrorIs(t, err, mask.ErrClosed, "after a summary")
	}
}

func TestSpansMarkPartsOfTurns(t *testing.T) {
	s := twoTurns(t)
	require.NoError(t, errors.Join(s.AddSpan("answer", 2, 4), s.AddSpan("all", 2, 5), s.AddSpan("answer", 7, 8)))
	wantMask(t, "answer", s.Span(nil, "answer"), "00110001")
	wantMask(t, "all", s.Span([]bool{true}, "all"), "100111000")
	wantMask(t, "none", s.Span(nil, "none"), "00000000")
	want := []mask.Span{{Name: "answer", Turn: 0, Start: 2, End: 4}, {Name: "all", Turn: 0, Start: 2, End: 5},
		{Name: "answer", Turn: 1, Start: 7, End: 8}}
	require.Equal(t, want, slices.Collect(s.Spans))
	for p := range s.Spans {
		require.Equal(t, want[0], p)
		break
	}
	for _, c := range [][2]int{{-1, 3}, {2, 2}, {4, 3}, {7, 9}, {1, 3}, {4, 6}, {5, 7}, {4, 8}} {
		require.ErrorIs(t, s.AddSpan("bad", c[0], c[1]), mask.ErrSpan, "span %v", c)
	}
}

func TestTruncateDropsTheTurnItCuts(t *testing.T) {
	for _, c := range []struct {
		keep, lost int
		response   string
		kinds      string
	}{
		{9, 0, "00111001", "[prompt prompt response response response observation observation response]"},
		{8, 0, "00111001", "[prompt prompt response response response observation observation response]"},
		{7, 1, "0011100", "[prompt prompt response response response observation observation]"},
		{5, 1, "00111", "[prompt prompt response response response]"},
		{4, 2, "0000", "[prompt prompt observation observation]"},
		{2, 2, "00", "[prompt prompt]"},
		{1, 2, "0", "[prompt]"},
		{0, 2, "", "[]"},
		{-3, 2, "", "[]"},
	} {
		s := twoTurns(t)
		require.Equal(t, c.lost, s.Truncate(c.keep), "keep %d", c.keep)
		wantMask(t, fmt.Sprintf("keep %d", c.keep), s.Response(nil), c.response)
		require.Equal(t, c.kinds, fmt.Sprint(s.Kinds(nil)), "keep %d", c.keep)
		require.Equal(t, 2-c.lost, s.Turns(), "keep %d", c.keep)
	}
}

func TestTruncateMergesWhatIsLeftIntoTheContext(t *testing.T) {
	s := new(mask.Sequence)
	require.NoError(t, s.AppendContext(mask.Observation, 1))
	require.NoError(t, s.AppendResponse(2, 3))
	require.NoError(t, s.AppendContext(mask.Observation, 4))
	s.Truncate(2)
	require.Equal(t, []mask.Piece{{Kind: mask.Observation, End: 2, Turn: -1}}, slices.Collect(s.Pieces))
}

func TestTruncateReopensASummaryItCuts(t *testing.T) {
	s := twoTurns(t)
	require.NoError(t, s.AppendSummary(9, 10))
	s.Truncate(9)
	require.False(t, s.EndsWithSummary())
	require.NoError(t, s.AppendContext(mask.Observation, 1))
}

// TestTruncatedRowsAreValid: a truncated row equals one that was recorded piece by
// piece.
func TestTruncatedRowsAreValid(t *testing.T) {
	s := twoTurns(t)
	s.Truncate(5)
	want := new(mask.Sequence)
	require.NoError(t, errors.Join(want.AppendContext(mask.Prompt, 1, 2), want.AppendResponse(3, 4, 5)))
	require.True(t, s.Equal(want), "got %v, want %v", slices.Collect(s.Pieces), slices.Collect(want.Pieces))
}

func TestTruncateDropsSpansOfLostTokens(t *testing.T) {
	s := new(mask.Sequence)
	require.NoError(t, errors.Join(s.AppendResponse(1, 2, 3), s.AppendResponse(4, 5, 6),
		s.AddSpan("a", 0, 2), s.AddSpan("b", 3, 4), s.AddSpan("c", 5, 6), s.AddSpan("d", 2, 3)))
	s.Truncate(5)
	s.Truncate(3)
	var names string
	for p := range s.Spans {
		names += p.Name
	}
	require.Equal(t, "ad", names, "those of the whole turn are left")
}

func TestTrimFollowsTruncate(t *testing.T) {
	s := twoTurns(t)
	s.Truncate(7)
	x := []float32{1, 2, 3, 4, 5, 6, 7, 8}
	require.Equal(t, []float32{1, 2, 3, 4, 5, 0, 0}, s.Trim(x))
	require.Equal(t, []float32{1, 2, 3, 4, 5, 0, 0}, s.Trim([]float32{1, 2, 3, 4, 5, 6, 7}), "of the right length already")
	require.Equal(t, []float32{1, 2, 3}, s.Trim(x[:3]), "too few numbers")
}

func TestTurnRewardsArePlacedOnTurnEnds(t *testing.T) {
	s := twoTurns(t)
	got, err := s.PlaceTurnRewards([]float32{9}, []float64{0.5, 2}, 0.25)
	require.NoError(t, err)
	require.Equal(t, []float32{9, 0, 0, 0, 0, 0.5, 0, 0, 2.25}, got)
	nan := math.NaN()
	for _, c := range []struct {
		name    string
		rewards []float64
		final   float64
		want    error
	}{
		{"too few", []float64{1}, 0, mask.ErrTurns},
		{"too many", []float64{1, 2, 3}, 0, mask.ErrTurns},
		{"NaN", []float64{1, nan}, 0, mask.ErrNotFinite},
		{"infinite", []float64{math.Inf(-1), 1}, 0, mask.ErrNotFinite},
		{"final NaN", []float64{1, 1}, nan, mask.ErrNotFinite},
		{"infinite as a float32", []float64{1e39, 1}, 0, mask.ErrNotFinite},
		{"final infinite as a float32", []float64{1, -1e39}, 1e39, mask.ErrNotFinite},
		{"infinite together", []float64{1, 3e38}, 3e38, mask.ErrNotFinite},
	} {
		_, err := s.PlaceTurnRewards(nil, c.rewards, c.final)
		require.ErrorIs(t, err, c.want, c.name)
	}
}

func TestRewardsNeedATurnEnd(t *testing.T) {
	s := new(mask.Sequence)
	require.NoError(t, s.AppendContext(mask.Prompt, 1))
	got, err := s.PlaceTurnRewards(nil, nil, 0)
	require.NoError(t, err)
	require.Equal(t, []float32{0}, got)
	_, err = s.PlaceTurnRewards(nil, nil, 1)
	require.ErrorIs(t, err, mask.ErrTurns)
}

func TestZeroSequenceIsEmpty(t *testing.T) {
	var s mask.Sequence
	require.Zero(t, s.Len()+s.Turns()+len(s.TurnEnd(nil)))
	require.Equal(t, -1, s.LastResponse())
	require.NoError(t, s.AppendContext(mask.Prompt, 1))
	require.Equal(t, -1, s.LastResponse(), "context alone")
}

func TestResetAndCloneShareNothing(t *testing.T) {
	s := twoTurns(t)
	require.NoError(t, s.AddSpan("a", 2, 3))
	c := s.Clone()
	require.True(t, c.Equal(s), "a clone differs")
	s.Reset()
	require.True(t, s.Equal(new(mask.Sequence)), "Reset left something")
	require.NoError(t, s.AppendResponse(50, 51, 52))
	want := twoTurns(t)
	require.NoError(t, want.AddSpan("a", 2, 3))
	require.True(t, c.Equal(want), "writing to the reset original changed the clone")
}

func TestEqualSeesEveryDifference(t *testing.T) {
	other := []func(s *mask.Sequence) error{
		func(s *mask.Sequence) error { return s.AppendContext(mask.Observation, 1) },
		func(s *mask.Sequence) error { return s.AddSpan("a", 2, 3) },
		func(s *mask.Sequence) error { s.Truncate(7); return s.AppendResponse(9) },
		func(s *mask.Sequence) error { s.Truncate(7); return s.AppendSummary(8) },
	}
	for i, change := range other {
		a, b := twoTurns(t), twoTurns(t)
		require.NoError(t, change(b))
		require.False(t, a.Equal(b) || b.Equal(a), "change %d", i)
	}
}

func TestTokensCannotBeAppendedThrough(t *testing.T) {
	s := twoTurns(t)
	s.Truncate(5)
	_ = append(s.Tokens(), 99)
	require.NoError(t, s.AppendResponse(7))
	require.EqualValues(t, 7, s.Tokens()[5])
}

func TestKindsHaveNames(t *testing.T) {
	require.Equal(t, "prompt observation response Kind(9)",
		fmt.Sprint(mask.Prompt, mask.Observation, mask.Response, mask.Kind(9)))
}

// TestDerivationsAllocateNothing when the destination is large enough.
func TestDerivationsAllocateNothing(t *testing.T) {
	s := twoTurns(t)
	for _, name := range []string{"answer", mask.Forced} {
		require.NoError(t, s.AddSpan(name, 2, 4))
	}
	m, turns, kinds, rewards := make([]bool, 64), make([]int32, 64), make([]mask.Kind, 64), make([]float32, 64)
	perTurn := []float64{1, 2}
	n := testing.AllocsPerRun(100, func() {
		o := mask.Options{}
		s.Loss(m[:0], o)
		s.Advantage(m[:0], o)
		s.Value(m[:0], o)
		s.TurnEnd(m[:0])
		s.Response(m[:0])
		s.Attention(m[:0])
		s.Span(m[:0], "answer")
		s.TurnIndex(turns[:0])
		s.Kinds(kinds[:0])
		if _, err := s.PlaceTurnRewards(rewards[:0], perTurn, 0); err != nil {
			t.Fatal(err)
		}
	})
	require.Zero(t, n)
}
