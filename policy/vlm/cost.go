package vlm

import (
	"fmt"

	"vagen/policy/vlm/internal/generate"
	"vagen/policy/vlm/internal/net"
	"vagen/policy/vlm/internal/plan"
)

// Cost returns the least work of a step on so many rows of so many tokens. In StepDecode
// tokens is the number of tokens of a row that are in the cache before the step.
func (m *Model) Cost(step Step, rows, tokens int) (Cost, error) {
	if rows < 1 || tokens < 1 {
		return Cost{}, fmt.Errorf("vlm: cost: rows is %d and tokens is %d, both must be at least 1", rows, tokens)
	}
	if m.cfg == nil {
		return Cost{}, errZero
	}
	r := plan.CostRule{Spec: m.net.Spec, Compute: m.net.Compute, Narrow: m.gen.Narrows(),
		Packed: generate.PackedBytes(m.net, m.gen.Packed), Keep: m.net.Keep, Micro: m.microBatches(rows, tokens)}
	return r.Cost(step, rows, tokens)
}

// microBatches returns the number of micro-batches of rows of equal length.
func (m *Model) microBatches(rows, tokens int) int {
	k := m.sets.Packer(m.net)
	full := k.PerPack(net.Bucket(tokens))
	return (rows + full - 1) / full
}
