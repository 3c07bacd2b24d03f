package mask_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
	"vagen/mask"
)

func matrix(t testing.TB, fields map[string]json.RawMessage, name string) [][]int32 {
	t.Helper()
	var m [][]int32
	golden.Need(t, fields, name, &m)
	return m
}

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

func sameRow(t *testing.T, tally *golden.Tally, what string, got, want []int32) {
	t.Helper()
	tally.Add(1)
	require.Equal(t, want, got, what)
}

func TestGoldenFromMarks(t *testing.T) {
	const file = "algorithms/loss_mask.json"
	tally := golden.NewTally(t, file)
	for _, c := range golden.Cases(t, file) {
		tally.Case()
		var m mask.Marks
		var pad int32
		golden.Need(t, c.Params, "begin_mark_id", &m.Begin)
		golden.Need(t, c.Params, "end_mark_id", &m.End)
		golden.Need(t, c.Params, "pad_token_id", &pad)
		ids, attention := matrix(t, c.Inputs, "input_ids"), matrix(t, c.Inputs, "attention_mask")
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
			require.NoError(t, orderErr, "%s: row %d", c.Name, i)
			require.True(t, err != nil || strict.Equal(s), "%s: row %d has no orphan marks", c.Name, i)
			row := slices.Repeat([]int32{pad}, len(ids[i]))
			copy(row, s.Tokens())
			sameRow(t, tally, c.Name+" input_ids", row, matrix(t, c.Expected, "input_ids")[i])
			sameRow(
				t, tally, c.Name+" attention_mask", padded(s.Attention(nil), len(row)),
				matrix(t, c.Expected, "attention_mask")[i],
			)
			sameRow(
				t, tally, c.Name+" loss_mask", padded(s.Loss(nil, mask.Options{}), len(row)),
				matrix(t, c.Expected, "loss_mask")[i],
			)
			sameRow(t, tally, c.Name+" end_of_response_position_mask", padded(s.TurnEnd(nil), len(row)),
				matrix(t, c.Expected, "end_of_response_position_mask")[i])
		}
		require.Equal(t, c.HasTag("quirk_orphan_mark"), refused > 0, "%s: %d rows have orphan marks", c.Name, refused)
	}
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
	const file = "algorithms_next/packing.json"
	tally := golden.NewTally(t, file)
	for _, c := range golden.Cases(t, file) {
		switch {
		case c.HasTag("truncate_row"):
			tally.Case()
			truncateCase(t, tally, c)
		case c.Expected["turn_boundary"] != nil:
			tally.Case()
			boundaryCase(t, tally, c)
		}
	}
}

func boundaryCase(t *testing.T, tally *golden.Tally, c golden.Case) {
	t.Helper()
	response := matrix(t, c.Inputs, "response_mask")
	boundary, seam := matrix(t, c.Expected, "turn_boundary"), matrix(t, c.Expected, "seam")
	var summary, last []int32
	golden.Need(t, c.Inputs, "ends_with_summary", &summary)
	golden.Need(t, c.Expected, "last_pos", &last)
	for i, row := range response {
		s := fromMask(t, row, summary[i] == 1)
		sameRow(t, tally, c.Name+" response", padded(s.Response(nil), len(row)), row)
		sameRow(t, tally, c.Name+" turn_boundary", padded(s.TurnEnd(nil), len(row)), boundary[i])
		golden.Equal(t, tally, c.Name+" seam", s.EndsWithSummary(), slices.Index(seam[i], 1) == s.Len()-1)
		golden.Equal(t, tally, c.Name+" last_pos", s.LastResponse(), int(last[i]))
	}
}

func truncateCase(t *testing.T, tally *golden.Tally, c golden.Case) {
	t.Helper()
	var response []int32
	var spans, kept [][2]int
	var scores []float32
	var want []float64
	var keep int
	golden.Need(t, c.Inputs, "response_mask", &response)
	golden.Need(t, c.Inputs, "response_spans", &spans)
	golden.Need(t, c.Inputs, "scores", &scores)
	golden.Need(t, c.Params, "keep", &keep)
	golden.Need(t, c.Expected, "response_spans", &kept)
	golden.Need(t, c.Expected, "scores", &want)
	s := new(mask.Sequence)
	for _, span := range spans {
		require.NoError(t, s.AppendContext(mask.Observation, make([]int32, span[0]-s.Len())...))
		require.NoError(t, s.AppendResponse(make([]int32, span[1]-span[0])...))
	}
	require.NoError(t, s.AppendContext(mask.Observation, make([]int32, len(response)-s.Len())...))
	sameRow(t, tally, c.Name+" before", padded(s.Response(nil), s.Len()), response)
	lost := s.Truncate(keep)
	golden.Equal(t, tally, c.Name+" lost turns", lost, len(spans)-len(kept))
	var row []int32
	golden.Need(t, c.Expected, "response_mask", &row)
	sameRow(t, tally, c.Name+" response_mask", padded(s.Response(nil), s.Len()), row)
	golden.Floats(t, tally, c.Name+" scores", s.Trim(scores), want, golden.Tolerance{Rel: 1e-7})
	for k, span := range kept {
		start, end, _ := s.TurnAt(k)
		golden.Equal(t, tally, c.Name+" response_spans", [2]int{start, end}, span)
	}
}
