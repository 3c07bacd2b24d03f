package mask_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/mask"
)

// consistent checks the invariants of every sequence, however it was created.
func consistent(t *testing.T, s *mask.Sequence) {
	t.Helper()
	n := s.Len()
	response, ends, turns := s.Response(nil), s.TurnEnd(nil), s.TurnIndex(nil)
	loss := s.Loss(nil, mask.Options{})
	if len(s.Tokens()) != n || len(response) != n || len(ends) != n || len(turns) != n || len(loss) != n ||
		len(s.Attention(nil)) != n || len(s.Kinds(nil)) != n || len(s.Span(nil, "a")) != n {
		t.Fatalf("masks of %d tokens have other lengths", n)
	}
	next := int32(0)
	for i := range n {
		if response[i] != (turns[i] >= 0) || loss[i] != response[i] || ends[i] && !response[i] {
			t.Fatalf("position %d: response %v, turn %d, loss %v, end %v", i, response[i], turns[i], loss[i], ends[i])
		}
		if response[i] && turns[i] != next {
			t.Fatalf("position %d: turn %d, want %d", i, turns[i], next)
		}
		if ends[i] {
			next++
		}
	}
	if int(next) != s.Turns() {
		t.Fatalf("%d turns end, but there are %d", next, s.Turns())
	}
}

// FuzzSequence appends, names spans, truncates and places rewards in any order.
func FuzzSequence(f *testing.F) {
	f.Add([]byte{0, 3, 2, 4, 1, 2, 2, 1, 4, 2, 5, 6})
	f.Fuzz(func(t *testing.T, data []byte) {
		var s mask.Sequence
		data = data[:min(len(data), 128)] // longer inputs are slow and find nothing more
		for len(data) >= 2 {
			op, n := data[0]%8, int(data[1]%16)
			ids := make([]int32, n)
			data = data[2:]
			before := s.Clone()
			var err error
			switch op {
			case 0:
				err = s.AppendContext(mask.Prompt, ids...)
			case 1:
				err = s.AppendContext(mask.Observation, ids...)
			case 2, 3:
				err = s.AppendResponse(ids...)
			case 4:
				if n == 7 {
					err = s.AppendSummary(ids...)
				}
			case 5:
				err = s.AddSpan("a", n, n+1+n/4)
			case 6:
				turns := s.Turns()
				if lost := s.Truncate(s.Len() - n); turns-lost != s.Turns() {
					t.Fatalf("%d of %d turns lost, %d left", lost, turns, s.Turns())
				}
			case 7:
				rewards, placeErr := s.PlaceTurnRewards(nil, make([]float64, s.Turns()), 0)
				if placeErr != nil || len(rewards) != s.Len() {
					t.Fatalf("%d rewards for %d tokens: %v", len(rewards), s.Len(), placeErr)
				}
			}
			if err != nil && !s.Equal(before) {
				t.Fatalf("refused with %v, and changed", err)
			}
			consistent(t, &s)
		}
	})
}

// FuzzFromMarks reads rows with marks anywhere. Without unpaired marks both modes give
// the same; no mode loses context or invents turns.
func FuzzFromMarks(f *testing.F) {
	f.Add([]byte{0, 1, 5, 2, 6, 1, 7, 2})
	f.Add([]byte{2, 0, 1, 5, 2})
	f.Fuzz(func(t *testing.T, data []byte) {
		ids := make([]int32, len(data))
		marks := 0
		for i, b := range data {
			ids[i] = int32(b % 5)
			if ids[i] == begin || ids[i] == end {
				marks++
			}
		}
		m := mask.Marks{Begin: begin, End: end}
		strict, err := mask.FromMarks(ids, m)
		m.PairByOrder = true
		loose, looseErr := mask.FromMarks(ids, m)
		if looseErr == nil {
			consistent(t, loose)
		}
		if err != nil {
			require.ErrorIs(t, err, mask.ErrOrphanMark)
			return
		}
		consistent(t, strict)
		if looseErr != nil || !strict.Equal(loose) {
			t.Fatalf("the modes differ without orphans: %v", looseErr)
		}
		if strict.Len() != len(ids)-marks {
			t.Fatalf("%d of %d tokens left after %d marks", strict.Len(), len(ids), marks)
		}
	})
}

// FuzzPlace places any rewards.
func FuzzPlace(f *testing.F) {
	f.Add(0.5, -1.0, 2.0)
	f.Fuzz(func(t *testing.T, a, b, final float64) {
		s := twoTurns(t)
		if out, err := s.PlaceTurnRewards(nil, []float64{a, b}, final); err == nil && len(out) != s.Len() {
			t.Fatalf("%d rewards", len(out))
		}
	})
}
