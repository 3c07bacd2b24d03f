package vlm

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/policy/vlm/internal/device"
	"vagen/policy/vlm/internal/generate"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/vlmtest"
)

// The memory plan and the least work of a step count copies in the type that decoding reads. Without kernels a warning
// says that they do not make decoding faster, and what cannot have them is refused.
func TestRoundedWeightsAreCounted(t *testing.T) {
	dir := vlmtest.Folder(t, model.Qwen25VL, nil)
	work := Workload{Generate: true, Rows: 2, Tokens: 32}
	plain := openTiny(t, dir, Options{})
	before := planOf(t, plain, work)
	cost, err := plain.Cost(StepDecode, 2, 32)
	require.NoError(t, err)
	prefill, err := plain.Cost(StepPrefill, 2, 32)
	require.NoError(t, err)
	for _, to := range []RolloutDType{RolloutBFloat16, RolloutInt8} {
		var log bytes.Buffer
		m := openTiny(t, dir, Options{RolloutDType: to, Log: slog.New(slog.NewTextHandler(&log, nil))})
		copies := generate.PackedBytes(m.net, m.gen.Packed)
		require.Positive(t, copies)
		require.Equal(t, before.Caches+copies, planOf(t, m, work).Caches)
		got, err := m.Cost(StepDecode, 2, 32)
		require.NoError(t, err)
		matrices, _ := m.net.Spec.DecoderNumbers()
		require.Equal(t, cost.Bytes-4*matrices+copies, got.Bytes)
		got, err = m.Cost(StepPrefill, 2, 32)
		require.NoError(t, err)
		require.Equal(t, prefill, got, "contexts are read with the weights")
		if m.dev.PureGo() {
			require.Contains(t, log.String(), "slower than with float32")
		}
	}
	_, err = Open(t.Context(), dir, Options{Backend: "go", BFloat16: true, RolloutDType: RolloutInt8})
	testkit.Error(t, err, ErrOption, `RolloutDType is "int8", must be "float32" with BFloat16`)
	_, err = Open(t.Context(), dir, Options{Backend: "go", RolloutDType: "int4"})
	require.ErrorContains(t, err, `RolloutDType is "int4", must be one of`)

	gpu := &Model{dev: device.New(plain.dev.Backend(), "xla:cuda"), opts: Options{RolloutDType: RolloutInt8}}
	require.ErrorContains(t, gpu.checkRolloutDType(), `RolloutDType is "int8", must be "float32" on xla:cuda`)
}
