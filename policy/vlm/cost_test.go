package vlm

import (
	"context"
	"testing"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/stretchr/testify/require"

	"vagen/policy/vlm/internal/devicetest"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/plan"
)

// Adapters are computed beside frozen weights, which have no gradient.
func TestFrozenWeightsCostNoGradient(t *testing.T) {
	all := newTiny(t, model.Llama, Options{})
	some := newTiny(t, model.Llama, Options{Freeze: []string{"*"}, Critic: SharedCritic})
	a, err := all.Cost(StepTrain, 2, 8)
	require.NoError(t, err)
	b, err := some.Cost(StepTrain, 2, 8)
	require.NoError(t, err)
	require.Less(t, b.FLOPs, a.FLOPs)
	require.Less(t, b.Bytes, a.Bytes)
	_, err = all.Cost(StepTrain, 0, 8)
	require.ErrorContains(t, err, "rows is 0")
}

// The bounds are far from what any machine does: a mistake in the count of bytes or
// operations by thousands, or a program that was optimised away, would leave them.
func TestLimitsOfThisMachineAreMeasured(t *testing.T) {
	check := func(l Limits, err error) {
		require.NoError(t, err)
		require.Greater(t, l.BytesPerSecond, 1e6)
		require.Less(t, l.BytesPerSecond, 1e15)
		require.Greater(t, l.FLOPs, 1e5)
		require.Less(t, l.FLOPs, 1e17)
	}
	size := plan.Probe{Numbers: 1 << 20, Side: 256, AtLeast: time.Millisecond}
	for _, compute := range []dtypes.DType{dtypes.Float32, dtypes.BFloat16} {
		check(plan.Measure(t.Context(), devicetest.Best(t), compute, size))
	}
	m := newTiny(t, model.Llama, Options{})
	check(m.Limits(t.Context()))
	n, _ := m.dev.Live()
	check(m.Limits(t.Context()))
	again, _ := m.dev.Live()
	require.Equal(t, n, again, "arrays are freed")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := m.Limits(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, m.Close())
	_, err = m.Limits(t.Context())
	require.ErrorIs(t, err, ErrClosed)
}
