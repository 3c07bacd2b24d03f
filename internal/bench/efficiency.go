package bench

import (
	"context"

	"vagen/policy/vlm"
)

// Bound names the limit that a step is closer to.
type Bound string

// The bounds.
const (
	MemoryBound  Bound = "memory"
	ComputeBound Bound = "compute"
)

// Efficiency compares a step with what the machine did in the same run.
type Efficiency struct {
	// Bytes, FLOPs and HardwareFLOPs are the least work of a step, see vlm.Cost.
	Bytes         int64 `json:"bytes_per_step"`
	FLOPs         int64 `json:"model_flops_per_step"`
	HardwareFLOPs int64 `json:"hardware_flops_per_step"`
	// MemoryLimit and ComputeLimit are measured, see vlm.Limits.
	MemoryLimit  float64 `json:"measured_bytes_per_second"`
	ComputeLimit float64 `json:"measured_flops_per_second"`
	// MemoryUse, ComputeUse and HardwareUse are the work per second as a part of the limits.
	// A part above 1 means that caches held data, or that the limit was measured while
	// other programs ran.
	MemoryUse   float64 `json:"memory_utilisation"`
	ComputeUse  float64 `json:"model_flops_utilisation"`
	HardwareUse float64 `json:"hardware_flops_utilisation"`
	// Bound is the limit that takes longer for the least work, with the operations executed.
	Bound Bound `json:"bound"`
	// LeastMillis is that time: no program of this model can be faster on this machine, as
	// far as the limits are what the machine can do.
	LeastMillis float64 `json:"least_ms_per_step"`
}

// compare relates the cost of a step of some seconds to limits.
func compare(c vlm.Cost, l vlm.Limits, seconds float64) Efficiency {
	e := Efficiency{Bytes: c.Bytes, FLOPs: c.FLOPs, HardwareFLOPs: c.HardwareFLOPs, MemoryLimit: l.BytesPerSecond,
		ComputeLimit: l.FLOPs, Bound: MemoryBound}
	memory, compute := float64(c.Bytes)/l.BytesPerSecond, float64(c.HardwareFLOPs)/l.FLOPs
	e.MemoryUse, e.HardwareUse = memory/seconds, compute/seconds
	e.ComputeUse = float64(c.FLOPs) / l.FLOPs / seconds
	if compute > memory {
		e.Bound = ComputeBound
	}
	e.LeastMillis = 1000 * max(memory, compute)
	return e
}

// efficiency measures the limits and compares the steps with them.
func (r *runner) efficiency(ctx context.Context, seconds float64) (Efficiency, error) {
	step, tokens := map[Mode]vlm.Step{Train: vlm.StepTrain, Prefill: vlm.StepPrefill, Decode: vlm.StepDecode,
		LogProb: vlm.StepScore}[r.Mode], r.Seq
	if r.Mode == Decode { // of the step in the middle
		tokens += warmDecoded + len(r.times)/2
	}
	cost, err := r.model.Cost(step, r.Batch, tokens)
	if err != nil {
		return Efficiency{}, err
	}
	limits, err := r.model.Limits(ctx)
	if err != nil {
		return Efficiency{}, err
	}
	return compare(cost, limits, seconds), nil
}
