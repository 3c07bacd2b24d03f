package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheTableLearns: the table is trained successfully.
func TestTheTableLearns(t *testing.T) {
	var curve []float64
	require.NoError(t, run(t.Context(), 60, func(_ int, success float64) { curve = append(curve, success) }))
	require.Len(t, curve, 60)
	require.Less(t, curve[0], 0.4)
	require.Greater(t, curve[59], 0.8)
}
