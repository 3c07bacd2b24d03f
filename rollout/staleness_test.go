package rollout

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestStalenessCountsResponses of usable episodes, each with the version that wrote it.
func TestStalenessCountsResponses(t *testing.T) {
	episode := func(end End, versions ...int) *Trajectory {
		out := &Trajectory{End: end}
		for _, v := range versions {
			out.Turns = append(out.Turns, Turn{Version: v})
		}
		return out
	}
	mean, largest, spanning := Staleness([]*Trajectory{
		episode(EndDone, 5, 5), episode(EndDone, 3, 4), episode(EndPolicy, 0), episode(EndDone),
	}, 5)
	require.Equal(t, [3]float64{0.75, 2, 0.5}, [3]float64{mean, largest, spanning})
	mean, largest, spanning = Staleness(nil, 5)
	require.Equal(t, [3]float64{}, [3]float64{mean, largest, spanning})
}
