package curve_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/train/track"
	"vagen/train/track/curve"
)

func TestEndsThatWereNotMeasuredAreNoNumbers(t *testing.T) {
	before, trained := new(curve.Curve).Ends()
	require.True(t, math.IsNaN(before))
	require.True(t, math.IsNaN(trained))
	c := &curve.Curve{Val: "b"}
	require.NoError(t, c.Event(track.Event{Kind: "validate", Step: 4, Metrics: track.Metrics{"b": 0.5}}))
	before, trained = c.Ends()
	require.True(t, math.IsNaN(before))
	require.Equal(t, 0.5, trained)
}
