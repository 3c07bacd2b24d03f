package vlm

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"

	"vagen/policy/vlm/internal/fused"
	"vagen/policy/vlm/internal/generate"
)

// RolloutDType is a type of weights in decoding.
type RolloutDType string

// The types. Int8 has a scale for each row of a matrix.
const (
	RolloutFloat32  RolloutDType = "float32"
	RolloutBFloat16 RolloutDType = "bfloat16"
	RolloutInt8     RolloutDType = "int8"
)

// packedTypes are those of packed weights; others are not packed.
var packedTypes = map[RolloutDType]dtypes.DType{RolloutBFloat16: dtypes.BFloat16, RolloutInt8: dtypes.Int8}

// checkRolloutDType refuses rounded weights for decoding on accelerators, and warns where decoding with them is slow.
func (m *Model) checkRolloutDType() error {
	switch t := m.opts.RolloutDType; {
	case t == RolloutFloat32:
	case m.dev.Accelerator():
		return fmt.Errorf("vlm: %w: RolloutDType is %q, must be %q on %s: only a CPU has kernels for packed weights "+
			"(BFloat16 rounds them on a GPU)",
			ErrOption, t, RolloutFloat32, m.dev.Name())
	case m.dev.PureGo() || !fused.Registered():
		m.opts.Log.Warn("decoding without kernels unpacks all weights for every token and is slower than with float32",
			"rollout_dtype", t, "backend", m.dev.Name())
	}
	return nil
}

// checkPasses refuses passes of several tokens that the model cannot make.
func (m *Model) checkPasses() error {
	o := &m.opts
	if err := generate.CheckStates(o.TokensPerCall, m.cfg); err != nil {
		return err
	}
	return generate.CheckDrafts(o.DraftTokens, m.cfg, o.compute(), o.RolloutDType != RolloutFloat32)
}
