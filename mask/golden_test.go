package mask_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
	"vagen/mask"
)

// padded extends a mask by padding and writes it as 0 and 1.
func padded(mask []bool, width int) []int32 {
	out := make([]int32, width)
	for i, v := range mask {
		if v {
			out[i] = 1
		}
	}
	return out
}

func TestGoldenFromMarks(t *testing.T) {
	golden.Each(t, "algorithms/loss_mask.json", func(c *golden.Run) {
		m := mask.Marks{Begin: golden.Param[int32](c, "begin_mark_id"), End: golden.Param[int32](c, "end_mark_id")}
		ids, attention := golden.Input[[][]int32](c, "input_ids"), golden.Input[[][]int32](c, "attention_mask")
		refused := 0
		for i := range ids {
			n := 0
			for n < len(ids[i]) && attention[i][n] == 1 {
				n++
			}
			strict, err := mask.FromMarks(ids[i][:n], m)
			if err != nil {
				refused++
			}
			byOrder := m
			byOrder.PairByOrder = true
			s, orderErr := mask.FromMarks(ids[i][:n], byOrder)
			require.NoError(c, orderErr, "row %d", i)
			require.True(c, err != nil || strict.Equal(s), "row %d has no orphan marks", i)
			row := slices.Repeat([]int32{golden.Param[int32](c, "pad_token_id")}, len(ids[i]))
			copy(row, s.Tokens())
			for name, got := range map[string][]int32{
				"input_ids": row, "attention_mask": padded(s.Attention(nil), len(row)),
				"loss_mask":                     padded(s.Loss(nil, mask.Options{}), len(row)),
				"end_of_response_position_mask": padded(s.TurnEnd(nil), len(row)),
			} {
				c.Equal(name, got, golden.Expected[[][]int32](c, name)[i])
			}
		}
		require.Equal(c, c.HasTag("quirk_orphan_mark"), refused > 0, "%d rows have orphan marks", refused)
	})
}

// fromMask records a row whose turns are the runs of its response mask.
func fromMask(t testing.TB, response []int32, summary bool) *mask.Sequence {
	t.Helper()
	last, n := len(response)-1, len(response)
	for last >= 0 && response[last] != 1 {
		last--
	}
	if summary {
		n = last + 1 // what follows is padding: a summary closes the row
	}
	s := new(mask.Sequence)
	for from := 0; from < n; {
		to := from
		for to < n && response[to] == response[from] {
			to++
		}
		ids := make([]int32, to-from)
		var err error
		switch {
		case response[from] == 1 && summary && to-1 == last:
			err = s.AppendSummary(ids...)
		case response[from] == 1:
			err = s.AppendResponse(ids...)
		default:
			err = s.AppendContext(mask.Observation, ids...)
		}
		require.NoError(t, err)
		from = to
	}
	return s
}

func TestGoldenRowPacking(t *testing.T) {
	golden.Each(t, "algorithms_next/packing.json", func(c *golden.Run) {
		switch {
		case c.HasTag("truncate_row"):
			truncateCase(c)
		case c.Expected["turn_boundary"] != nil:
			boundaryCase(c)
		}
	})
}

func boundaryCase(c *golden.Run) {
	c.Helper()
	boundary, seam := golden.Expected[[][]int32](c, "turn_boundary"), golden.Expected[[][]int32](c, "seam")
	summary, last := golden.Input[[]int](c, "ends_with_summary"), golden.Expected[[]int](c, "last_pos")
	for i, row := range golden.Input[[][]int32](c, "response_mask") {
		s := fromMask(c, row, summary[i] == 1)
		c.Equal("response", padded(s.Response(nil), len(row)), row)
		c.Equal("turn_boundary", padded(s.TurnEnd(nil), len(row)), boundary[i])
		c.Equal("seam", s.EndsWithSummary(), slices.Index(seam[i], 1) == s.Len()-1)
		c.Equal("last_pos", s.LastResponse(), last[i])
	}
}

func truncateCase(c *golden.Run) {
	c.Helper()
	response := golden.Input[[]int32](c, "response_mask")
	spans, kept := golden.Input[[][2]int](c, "response_spans"), golden.Expected[[][2]int](c, "response_spans")
	s := new(mask.Sequence)
	for _, span := range spans {
		require.NoError(c, s.AppendContext(mask.Observation, make([]int32, span[0]-s.Len())...))
		require.NoError(c, s.AppendResponse(make([]int32, span[1]-span[0])...))
	}
	require.NoError(c, s.AppendContext(mask.Observation, make([]int32, len(response)-s.Len())...))
	c.Equal("before", padded(s.Response(nil), s.Len()), response)
	c.Equal("lost turns", s.Truncate(golden.Param[int](c, "keep")), len(spans)-len(kept))
	golden.Same(c, "response_mask", padded(s.Response(nil), s.Len()))
	c.Tolerance = golden.Tolerance{Rel: 1e-7}
	golden.Numbers(c, "scores", s.Trim(golden.Input[[]float32](c, "scores")))
	for k, span := range kept {
		start, end, _ := s.TurnAt(k)
		c.Equal("response_spans", [2]int{start, end}, span)
	}
}
