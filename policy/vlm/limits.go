package vlm

import (
	"context"
	"fmt"
	"time"

	"vagen/policy/vlm/internal/plan"
)

// Limits measures the speeds of the model's devices: of one that has its own memory, times
// their number. The programs run as the model's do, on the same backend. It needs up to 2 GB of an
// accelerator's memory, or 1 GB of the host's, besides the model's.
func (m *Model) Limits(ctx context.Context) (Limits, error) {
	unlock, err := m.lock()
	if err != nil {
		return Limits{}, err
	}
	defer unlock()
	size := plan.Probe{Numbers: 1 << 26, Side: 2048, AtLeast: 300 * time.Millisecond}
	switch {
	case m.dev.Accelerator():
		size = plan.Probe{Numbers: 1 << 27, Side: 8192, AtLeast: 100 * time.Millisecond}
	case m.dev.PureGo():
		size = plan.Probe{Numbers: 1 << 20, Side: 128, AtLeast: 10 * time.Millisecond}
	}
	l, err := plan.Measure(ctx, m.dev, m.net.Compute, size)
	if err != nil {
		return l, fmt.Errorf("vlm: limits: %w", err)
	}
	if m.dev.Accelerator() {
		l.BytesPerSecond *= float64(len(m.devices))
		l.FLOPs *= float64(len(m.devices))
	}
	return l, nil
}
