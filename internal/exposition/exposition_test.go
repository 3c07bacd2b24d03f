package exposition

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLinesHaveThePrometheusFormat(t *testing.T) {
	var w Writer
	w.Counter("a_total", "All a.", 3)
	w.ByLabel("b_total", "All b.", "why", map[string]uint64{"late": 2, "big": 1})
	w.Family("c", "gauge", "Now.")
	w.Sample("c", Label("name", "a\"b\\c\nd"), math.Inf(1))
	w.Sample("c", "", math.NaN())
	require.Equal(t, `# HELP a_total All a.
# TYPE a_total counter
a_total 3
# HELP b_total All b.
# TYPE b_total counter
b_total{why="big"} 1
b_total{why="late"} 2
# HELP c Now.
# TYPE c gauge
c{name="a\"b\\c\nd"} +Inf
c NaN
`, w.String())
}
