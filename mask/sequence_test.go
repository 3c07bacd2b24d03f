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
	if err := errors.Join(
		s.AppendContext(mask.Prompt, 1, 2),
		s.AppendResponse(3, 4, 5),
		s.AppendContext(mask.Observation, 6),
		s.AppendContext(mask.Observation, 7),
		s.AppendResponse(8),
	); err != nil {
		t.Fatal(err)
	}
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
	if s.Len() != 8 || s.Turns() != 2 || !slices.Equal(s.Tokens(), []int32{1, 2, 3, 4, 5, 6, 7, 8}) {
		t.Errorf("%d tokens %v, %d turns", s.Len(), s.Tokens(), s.Turns())
	}
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
	require.EqualValues(t, 7, s.LastResponse(), "last response")
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
		if p != want[0] {
			t.Errorf("first piece %v", p)
		}
		break
	}
	if start, end, ok := s.TurnAt(1); start != 7 || end != 8 || !ok {
		t.Errorf("turn 1 is [%d, %d), %v", start, end, ok)
	}
	for _, turn := range []int{-1, 2} {
		if _, _, ok := s.TurnAt(turn); ok {
			t.Errorf("there is a turn %d", turn)
		}
	}
}

func TestAdjacentTurnsAreSeparate(t *testing.T) {
	s := new(mask.Sequence)
	require.NoError(t, errors.Join(s.AppendResponse(1, 2), s.AppendResponse(3)))
	wantMask(t, "turn end", s.TurnEnd(nil), "011")
	if s.Turns() != 2 {
		t.Errorf("%d turns, want 2", s.Turns())
	}
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
	if !s.Equal(before) {
		t.Error("a refused append changed the sequence")
	}
}

func TestSummaryClosesTheConversation(t *testing.T) {
	s := twoTurns(t)
	if s.EndsWithSummary() {
		t.Error("closed without a summary")
	}
	require.NoError(t, s.AppendSummary(9, 10))
	wantMask(t, "response", s.Response(nil), "0011100111")
	if !s.EndsWithSummary() || s.Turns() != 3 {
		t.Errorf("closed: %v, %d turns", s.EndsWithSummary(), s.Turns())
	}
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
		if p != want[0] {
			t.Errorf("first span %v", p)
		}
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
		if lost := s.Truncate(c.keep); lost != c.lost {
			t.Errorf("keep %d: lost %d turns, want %d", c.keep, lost, c.lost)
		}
		wantMask(t, fmt.Sprintf("keep %d", c.keep), s.Response(nil), c.response)
		require.Equal(t, c.kinds, fmt.Sprint(s.Kinds(nil)), "keep %d", c.keep)
		if s.Turns() != 2-c.lost {
			t.Errorf("keep %d: %d turns left", c.keep, s.Turns())
		}
	}
}

func TestTruncateMergesWhatIsLeftIntoTheContext(t *testing.T) {
	s := new(mask.Sequence)
	require.NoError(t, s.AppendContext(mask.Observation, 1))
	require.NoError(t, s.AppendResponse(2, 3))
	require.NoError(t, s.AppendContext(mask.Observation, 4))
	s.Truncate(2)
	if got := slices.Collect(s.Pieces); len(got) != 1 || got[0] != (mask.Piece{Kind: mask.Observation, End: 2, Turn: -1}) {
		t.Errorf("got %v, want one observation", got)
	}
}

func TestTruncateReopensASummaryItCuts(t *testing.T) {
	s := twoTurns(t)
	require.NoError(t, s.AppendSummary(9, 10))
	if s.Truncate(9); s.EndsWithSummary() || s.AppendContext(mask.Observation, 1) != nil {
		t.Error("still closed by a summary that was cut")
	}
}

// TestTruncatedRowsAreValid: a truncated row equals one that was recorded piece by
// piece.
func TestTruncatedRowsAreValid(t *testing.T) {
	s := twoTurns(t)
	s.Truncate(5)
	want := new(mask.Sequence)
	require.NoError(t, errors.Join(want.AppendContext(mask.Prompt, 1, 2), want.AppendResponse(3, 4, 5)))
	if !s.Equal(want) {
		t.Errorf("got %v, want %v", slices.Collect(s.Pieces), slices.Collect(want.Pieces))
	}
}

func TestTruncateDropsSpansOfLostTokens(t *testing.T) {
	s := new(mask.Sequence)
	if err := errors.Join(s.AppendResponse(1, 2, 3), s.AppendResponse(4, 5, 6),
		s.AddSpan("a", 0, 2), s.AddSpan("b", 3, 4), s.AddSpan("c", 5, 6), s.AddSpan("d", 2, 3)); err != nil {
		t.Fatal(err)
	}
	s.Truncate(5)
	s.Truncate(3)
	var names string
	for p := range s.Spans {
		names += p.Name
	}
	if names != "ad" {
		t.Errorf("spans %q are left, want those of the whole turn, ad", names)
	}
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
	if err != nil || !slices.Equal(got, []float32{9, 0, 0, 0, 0, 0.5, 0, 0, 2.25}) {
		t.Errorf("got %v, %v", got, err)
	}
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
		if _, err := s.PlaceTurnRewards(nil, c.rewards, c.final); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
	}
}

func TestRewardsNeedATurnEnd(t *testing.T) {
	s := new(mask.Sequence)
	require.NoError(t, s.AppendContext(mask.Prompt, 1))
	if got, err := s.PlaceTurnRewards(nil, nil, 0); err != nil || !slices.Equal(got, []float32{0}) {
		t.Errorf("no turns: got %v, %v", got, err)
	}
	if _, err := s.PlaceTurnRewards(nil, nil, 1); !errors.Is(err, mask.ErrTurns) {
		t.Errorf("final reward without turns: got %v", err)
	}
}

func TestZeroSequenceIsEmpty(t *testing.T) {
	var s mask.Sequence
	if s.Len() != 0 || s.Turns() != 0 || s.LastResponse() != -1 || len(s.TurnEnd(nil)) != 0 {
		t.Errorf("got %+v", s)
	}
	if err := s.AppendContext(mask.Prompt, 1); err != nil || s.LastResponse() != -1 {
		t.Errorf("context alone: last response %d, %v", s.LastResponse(), err)
	}
}

func TestResetAndCloneShareNothing(t *testing.T) {
	s := twoTurns(t)
	require.NoError(t, s.AddSpan("a", 2, 3))
	c := s.Clone()
	if !c.Equal(s) {
		t.Error("a clone differs")
	}
	s.Reset()
	if s.Len() != 0 || s.Turns() != 0 || len(slices.Collect(s.Spans)) != 0 || s.Equal(c) {
		t.Error("Reset left something")
	}
	require.NoError(t, s.AppendResponse(50, 51, 52))
	if !c.Equal(func() *mask.Sequence { o := twoTurns(t); _ = o.AddSpan("a", 2, 3); return o }()) {
		t.Error("writing to the reset original changed the clone")
	}
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
		if a.Equal(b) || b.Equal(a) {
			t.Errorf("change %d goes unnoticed", i)
		}
	}
}

func TestTokensCannotBeAppendedThrough(t *testing.T) {
	s := twoTurns(t)
	s.Truncate(5)
	_ = append(s.Tokens(), 99)
	if err := s.AppendResponse(7); err != nil || s.Tokens()[5] != 7 {
		t.Errorf("tokens %v, %v", s.Tokens(), err)
	}
}

func TestKindsHaveNames(t *testing.T) {
	if got := fmt.Sprint(mask.Prompt, mask.Observation, mask.Response,
		mask.Kind(9)); got != "prompt observation response Kind(9)" {
		t.Errorf("got %s", got)
	}
}

// TestDerivationsAllocateNothing when the destination is large enough.
func TestDerivationsAllocateNothing(t *testing.T) {
	s := twoTurns(t)
	for _, name := range []string{"answer", mask.Forced} {
		if err := s.AddSpan(name, 2, 4); err != nil {
			t.Fatal(err)
		}
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
	if n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}
