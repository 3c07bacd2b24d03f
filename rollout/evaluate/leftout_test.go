package evaluate

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is left out of a rate stands beside it, in the table, in Markdown and in JSON.
func TestWhatIsLeftOutStandsBesideTheRate(t *testing.T) {
	var rs []EpisodeResult
	for i := range 24 {
		r := EpisodeResult{Tag: "lake", Model: "m", End: "done", Success: i < 2}
		if i >= 14 {
			r.End = "policy_error"
		}
		rs = append(rs, r)
	}
	report := Report{Level: Level, Rows: []Row{summarize(rs)}}
	var text, markdown strings.Builder
	require.NoError(t, report.WriteText(&text))
	require.NoError(t, report.WriteMarkdown(&markdown))
	for _, shown := range []string{text.String(), markdown.String()} {
		require.Contains(t, shown, "10 policy_error")
		require.Regexp(t, `0\.143 \[[0-9.]+, [0-9.]+\] of 14`, shown)
	}
	raw, err := json.Marshal(report.Rows[0])
	require.NoError(t, err)
	var row struct {
		Episodes, Unusable int
		Success            struct{ N int }
		Ends               map[string]int `json:"finish_reasons"`
	}
	require.NoError(t, json.Unmarshal(raw, &row))
	require.Equal(t, []int{24, 10, 14, 10}, []int{row.Episodes, row.Unusable, row.Success.N, row.Ends["policy_error"]})

	for i := range rs { // nothing is left out
		rs[i].End = "done"
	}
	require.NotContains(t, (&Row{Success: summarize(rs).Success}).rate(), " of ")
}
